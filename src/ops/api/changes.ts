import { OpenAPIHono } from '@hono/zod-openapi';
import { KINDS, type Kind } from '../../compliance/kinds.ts';
import { momentOf } from '../../platform/clock.ts';
import { MirrorError, StoreUnavailable } from '../../platform/errors.ts';
import type { GapReport } from '../../store/reports.ts';
import type { Now, RetryOutcome } from '../../store/store.ts';
import type { OpsEnv, OpsHandlerContext } from '../access.ts';
import type { AuditLog } from '../audit.ts';
import type { ApiContext, OpsStore } from '../context.ts';
import { gapText, isEndedByPerson } from '../gap-texts.ts';
import { clientGone } from '../open-requests.ts';
import { APPROVAL_MS, pendingBySyncRun } from '../pending-deletions.ts';
import { kindPlural } from '../words.ts';
import { found, notFound, refusal } from './answers.ts';
import * as routes from './routes.ts';
import type { Comparison } from './schemas.ts';

const conflict = (code: string, detail: string) =>
  refusal(409, code, 'Its state does not allow this.', detail);

export interface Compared extends Comparison {
  kind: Kind;
}

export type Operations = ReturnType<typeof createOperations>;

/** Events that are read together. Each is retried in its own transaction, so that deliveries go on in between. */
const RETRY_BATCH = 100;
/** Errors in the answer to a retry of many events: most are the same. */
const ERRORS_SHOWN = 10;

/** Of the ids in an audit entry. */
const TARGET_MAX_CHARACTERS = 1_000;

/** Retries all events that failed because no pointer found a record's id in them. */
async function retryAllWithoutRecord(store: OpsStore, now: () => Now) {
  const all = { processed: 0, failed: 0, errors: [] as { id: string; error: string }[] };
  for (let after = 0; ; ) {
    const batch = await store.failedWithoutRecord(after, RETRY_BATCH);
    for (const { seq, id } of batch) {
      after = seq;
      const tried = await store.retryEvent(id, now());
      if (tried.outcome === 'processed') all.processed += 1;
      if (tried.outcome !== 'failed' && tried.outcome !== 'trimmed') continue;
      all.failed += 1;
      const [, error] = whyNot(tried);
      if (all.errors.length < ERRORS_SHOWN) all.errors.push({ id, error });
    }
    if (batch.length < RETRY_BATCH) return all;
  }
}

/** Why a retry has not processed its event. */
function whyNot(
  tried: Exclude<RetryOutcome, { outcome: 'processed' | 'unknown' }>,
): [code: string, why: string] {
  switch (tried.outcome) {
    case 'failed':
      return ['failed_again', `It failed again: ${tried.error}.`];
    case 'trimmed':
      return ['body_trimmed', 'Its body is not kept any more, so it cannot be read again.'];
    case 'other_state':
      return ['event_state', `The event is ${tried.state}.`];
  }
}

/** What ends a gap that no person may resolve. */
function whatEnds({ reason, kind }: GapReport): string {
  if (reason === 'restored' && kind !== null) {
    return `The next full sync of the ${kindPlural(kind)} resolves it, not a person.`;
  }
  const { title, remedy } = gapText(reason);
  return `A person cannot resolve this gap. ${title}: ${remedy}`;
}

const deletionsChanged = () =>
  refusal(
    409,
    'deletions_changed',
    'The pending deletions have changed since they were shown.',
    'Load them again, and look at them again.',
  );

/**
 * All changes that an operator can make, audited with the token's name. The JSON API and the pages' forms call them. Each
 * rejects with a problem when the thing does not exist, or when its state does not allow the change.
 */
export function createOperations(context: ApiContext, audit: AuditLog) {
  const { store, actions, clock } = context;
  const now = () => momentOf(clock);

  let isComparing = false;

  /** Where no service was asked, its settings are not known, and the request waits for it. */
  const requireApi = () => {
    const { eventsOnly, state } = context.facts();
    if (eventsOnly && state !== 'stopped' && state !== 'elsewhere') {
      throw conflict(
        'events_only',
        'There are no API credentials: set COMPLIANCE_BASE_URL and COMPLIANCE_API_KEY.',
      );
    }
  };

  return {
    /** If it fails again, the problem says why. */
    async retryEvent(actor: string, id: string): Promise<{ kind: Kind; recordId: string }> {
      const tried = await audit.change(
        actor,
        'event_retry',
        id,
        () => store.retryEvent(id, now()),
        ({ outcome }) =>
          outcome === 'processed' ? 'ok' : outcome === 'failed' ? 'failed_again' : 'not_possible',
      );
      if (tried.outcome === 'processed') return tried;
      throw tried.outcome === 'unknown' ? notFound() : conflict(...whyNot(tried));
    },
    async retryWithoutRecord(actor: string) {
      return await audit.change(
        actor,
        'events_retry',
        'no_record_id',
        () => retryAllWithoutRecord(store, now),
        ({ processed, failed }) => `ok:${processed}${failed > 0 ? ` failed_again:${failed}` : ''}`,
      );
    },
    discardEvent: (actor: string, id: string): Promise<void> =>
      audit.change(actor, 'event_discard', id, async () => {
        if (await store.discardEvent(id, now())) return;
        const { state } = found(await store.showEvent(id));
        throw conflict('event_state', `The event is ${state}.`);
      }),

    async fullSync(actor: string, kinds: readonly Kind[] = KINDS): Promise<Kind[]> {
      requireApi();
      if (context.facts().state === 'stopped') {
        const why = 'no service is running on this database, and it is what runs full syncs';
        throw conflict('not_running', why);
      }
      const distinct = KINDS.filter((kind) => kinds.includes(kind));
      await audit.change(actor, 'sync', distinct.join(','), () =>
        actions.requestFullSync(distinct, `operator:${actor}`),
      );
      return distinct;
    },

    /** Writes nothing. Rejects with MirrorError when the API cannot be read, and when the signal aborts. */
    async dryRun(kinds: readonly Kind[] = KINDS, signal: AbortSignal): Promise<Compared[]> {
      requireApi();
      if (isComparing) {
        const why = 'A dry run is under way. Two at once would only share the request budget.';
        throw conflict('dry_run_under_way', why);
      }
      isComparing = true;
      try {
        const compared: Compared[] = [];
        for (const kind of KINDS) {
          if (kinds.includes(kind)) compared.push({ kind, ...(await actions.dryRun(kind, signal)) });
        }
        return compared;
      } finally {
        isComparing = false;
      }
    },

    /** Exactly the ids that were shown with this digest, and no others. */
    async approveDeletions(actor: string, digest: string) {
      const pending = await pendingBySyncRun(store, clock.wall());
      if (!pending.some(({ waiting }) => waiting > 0)) {
        throw conflict('nothing_pending', 'No deletion waits for approval.');
      }
      const named = pending.find((group) => group.digest === digest);
      if (named === undefined) throw deletionsChanged();
      const { sync_run_id: syncRunId, kind } = named;
      const until = clock.wall() + APPROVAL_MS;
      const ids = await audit.change(
        actor,
        'approve_deletions',
        `${kind}, sync run ${syncRunId}`,
        () => store.approveDeletions(kind, named.ids, syncRunId, until),
        (approved) => (approved.length > 0 ? `ok:${approved.length}` : 'not_possible'),
      );
      if (ids.length === 0) throw deletionsChanged();
      // Only a full sync deletes, and by the timer the next one may begin after the approval has ended.
      await actions.requestFullSync([kind], `approval:${syncRunId}+operator:${actor}`);
      return { sync_run_id: syncRunId, kind, ids, until: new Date(until).toISOString() };
    },

    async refetch(actor: string, kind: Kind, ids: readonly string[]): Promise<{ queued: number }> {
      requireApi();
      const distinct = [...new Set(ids)];
      const target = `${kind}/${distinct.join(',')}`.slice(0, TARGET_MAX_CHARACTERS);
      await audit.change(actor, 'refetch', target, () => actions.refetch(kind, distinct, actor));
      return { queued: distinct.length };
    },

    releaseQuarantined: (actor: string, id: number): Promise<void> =>
      audit.change(actor, 'quarantine_release', String(id), async () => {
        if (await store.releaseQuarantined(id, now())) return;
        found(await store.show('quarantine', id));
        throw conflict('not_releasable', 'It has been released already.');
      }),

    /** Resolves a gap that only a person can end. For any other gap, the problem says what ends it. */
    resolveGap: (actor: string, id: number): Promise<void> =>
      audit.change(actor, 'gap_resolve', String(id), async () => {
        const gap = found(await store.show('gaps', id));
        if (gap.resolved_at === null && !isEndedByPerson(gap, context.facts().eventsOnly)) {
          throw conflict('not_by_a_person', whatEnds(gap));
        }
        if (!(await store.settleGap(id, now()))) {
          throw conflict('resolved_already', 'It is resolved already.');
        }
      }),

    pause: (actor: string) => audit.change(actor, 'pause', null, actions.pause),
    resume: (actor: string) => audit.change(actor, 'resume', null, actions.resume),
  };
}

/** The changing half of the JSON API, and the dry run, which is requested like a full sync. 202: queued; 200: done. */
export function createChanges(operations: Operations) {
  const actor = (c: Pick<OpsHandlerContext, 'get'>) => c.get('identity').name;

  async function dryRun(kinds: Kind[] | undefined, signal: AbortSignal): Promise<Compared[]> {
    try {
      return await operations.dryRun(kinds, signal);
    } catch (error) {
      if (signal.aborted) throw refusal(502, 'interrupted', 'The client closed the connection.');
      if (error instanceof Error && error.name === 'AbortError') {
        const why = 'This service stops, or another one reads the API now.';
        throw refusal(502, 'interrupted', 'The dry run was interrupted.', why);
      }
      if (!(error instanceof MirrorError) || error instanceof StoreUnavailable) throw error;
      const { code, message, remedy } = error;
      const detail = remedy === undefined ? message : `${message} (${remedy})`;
      throw refusal(502, code, 'The compliance service could not be read.', detail);
    }
  }

  return (
    new OpenAPIHono<OpsEnv>()
      // Before `retryEvent`, which would take `retry` for an id.
      .openapi(routes.retryEvents, async (c) => {
        const all = await operations.retryWithoutRecord(actor(c));
        return c.json({ status: 'tried' as const, ...all }, 200);
      })
      .openapi(routes.retryEvent, async (c) => {
        const { id } = c.req.valid('param');
        const { kind, recordId } = await operations.retryEvent(actor(c), id);
        return c.json({ status: 'processed' as const, id, kind, record_id: recordId }, 200);
      })
      .openapi(routes.discardEvent, async (c) => {
        const { id } = c.req.valid('param');
        await operations.discardEvent(actor(c), id);
        return c.json({ status: 'discarded' as const, id }, 200);
      })
      .openapi(routes.startSyncRun, async (c) => {
        const { kinds, dry_run: isDryRun } = c.req.valid('json');
        if (isDryRun === true) {
          using gone = clientGone(c);
          const compared = await dryRun(kinds, gone.signal);
          const in_sync = compared.every(isInSync);
          return c.json({ status: 'compared' as const, in_sync, kinds: compared }, 200);
        }
        return c.json({ status: 'queued' as const, kinds: await operations.fullSync(actor(c), kinds) }, 202);
      })
      .openapi(routes.approveDeletions, async (c) => {
        const { digest } = c.req.valid('json');
        const approved = await operations.approveDeletions(actor(c), digest);
        return c.json({ status: 'approved' as const, ...approved }, 200);
      })
      .openapi(routes.refetchMany, async (c) => {
        const { kind } = c.req.valid('param');
        const { ids } = c.req.valid('json');
        return c.json({ status: 'queued' as const, ...(await operations.refetch(actor(c), kind, ids)) }, 202);
      })
      .openapi(routes.refetch, async (c) => {
        const { kind, id } = c.req.valid('param');
        return c.json(
          { status: 'queued' as const, ...(await operations.refetch(actor(c), kind, [id])) },
          202,
        );
      })
      .openapi(routes.releaseQuarantined, async (c) => {
        const { id } = c.req.valid('param');
        await operations.releaseQuarantined(actor(c), id);
        return c.json({ status: 'released' as const, id }, 200);
      })
      .openapi(routes.resolveGap, async (c) => {
        const { id } = c.req.valid('param');
        await operations.resolveGap(actor(c), id);
        return c.json({ status: 'resolved' as const, id }, 200);
      })
      .openapi(routes.pause, async (c) => {
        await operations.pause(actor(c));
        return c.json({ paused: true }, 200);
      })
      .openapi(routes.resume, async (c) => {
        await operations.resume(actor(c));
        return c.json({ paused: false }, 200);
      })
  );
}

const isInSync = ({ missing, extra, different, incomplete }: Compared) =>
  missing + extra + different === 0 && incomplete === null;
