import { KINDS, type Kind } from '../compliance/kinds.ts';
import type { Now, RetryOutcome } from '../store/store.ts';
import type { Comparison } from './api/schemas.ts';
import type { AuditLog } from './audit.ts';
import type { OpsContext } from './context.ts';
import { gapText, isEndedByPerson } from './gap-texts.ts';
import { APPROVAL_MS, namedBy } from './pending-deletions.ts';
import { kindPlural } from './words.ts';

export type Done<T> =
  | { status: 'done'; value: T }
  | { status: 'missing' }
  /** It exists, and its state does not allow this. */
  | { status: 'conflict'; code: string; detail: string };

const DONE = { status: 'done', value: null } as const;
const MISSING = { status: 'missing' } as const;
function conflict(code: string, detail: string) {
  return { status: 'conflict' as const, code, detail };
}

/** The audit's outcome of a verb that answers whether it did something. */
const didIt = (could: boolean) => (could ? 'ok' : 'not_possible');

interface RetriedAll {
  processed: number;
  failed: number;
  /** The first of those that failed again. */
  errors: { id: string; error: string }[];
}

interface ApprovedDeletions {
  syncRunId: number;
  kind: Kind;
  ids: string[];
  /** ISO 8601 UTC. */
  until: string;
}

export interface Compared extends Comparison {
  kind: Kind;
}

export type Operations = ReturnType<typeof createOperations>;

/** Read at a time, and retried one by one, each in its own transaction, so that deliveries go on between. */
const RETRY_BATCH = 100;
/** Errors shown of a retry of many: they are mostly the same. */
const ERRORS_SHOWN = 10;

/** Of the ids in an audit entry. Characters. */
const TARGET_MAX = 1_000;

/** Reads all failed events anew in which no pointer found a record's id. */
async function retryAllWithoutRecord(
  store: Pick<OpsContext['store'], 'failedWithoutRecord' | 'retryEvent'>,
  now: () => Now,
): Promise<RetriedAll> {
  const all: RetriedAll = { processed: 0, failed: 0, errors: [] };
  for (let after = 0; ; ) {
    const batch = await store.failedWithoutRecord(after, RETRY_BATCH);
    for (const { seq, id } of batch) {
      after = seq;
      const tried = await store.retryEvent(id, now());
      if (tried.outcome === 'processed') all.processed += 1;
      if (tried.outcome !== 'failed' && tried.outcome !== 'trimmed') continue;
      all.failed += 1;
      if (all.errors.length < ERRORS_SHOWN) all.errors.push({ id, error: whyNot(tried) });
    }
    if (batch.length < RETRY_BATCH) return all;
  }
}

/** Why a retry has not processed its event. */
function whyNot(tried: Exclude<RetryOutcome, { outcome: 'processed' }>): string {
  switch (tried.outcome) {
    case 'failed':
      return `It failed again: ${tried.error}.`;
    case 'trimmed':
      return 'Its body is not kept any more, so it cannot be read again.';
    case 'other_state':
      return `The event is ${tried.state}.`;
    case 'unknown':
      return 'There is no such event.';
  }
}

/** Resolves one gap, if a person's word is what ends it. */
async function resolveGap(
  store: Pick<OpsContext['store'], 'show' | 'resolveGapById'>,
  id: number,
  eventsOnly: boolean,
  now: Now,
): Promise<Done<null>> {
  const gap = await store.show('gaps', id);
  if (gap === null) return MISSING;
  if (gap.resolved_at === null && !isEndedByPerson(gap, eventsOnly)) {
    const { title, remedy } = gapText(gap.reason);
    const why =
      gap.reason === 'restored' && gap.kind !== null
        ? `The next full sync of the ${kindPlural(gap.kind)} ends it, not a person.`
        : `No person’s word ends this gap. ${title}: ${remedy}`;
    return conflict('not_by_a_person', why);
  }
  if (gap.resolved_at === null && (await store.resolveGapById(id, now))) return DONE;
  return conflict('resolved_already', 'It is resolved already.');
}

const CODES = { failed: 'failed_again', trimmed: 'body_trimmed', other_state: 'event_state' } as const;

const NOT_APPROVED = {
  changed: conflict(
    'deletions_changed',
    'The pending deletions have changed since they were shown. Look at them again.',
  ),
  none: conflict('nothing_pending', 'No deletion waits for approval.'),
};

/** Everything that an operator can change, audited by the token's name; the JSON API and the buttons of the pages call the same. */
export function createOperations(
  context: Pick<OpsContext, 'store' | 'actions' | 'clock' | 'facts'>,
  audit: AuditLog,
) {
  const { store, actions, clock } = context;
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });

  const isElsewhere = () => ['stopped', 'elsewhere'].includes(context.facts().state);
  let comparing = false;

  /** Without a service the request waits for the next one, whose settings are not known here. */
  const needsApi = () =>
    context.facts().eventsOnly && !isElsewhere()
      ? conflict(
          'events_only',
          'There are no API credentials: set COMPLIANCE_BASE_URL and COMPLIANCE_API_KEY.',
        )
      : null;

  const needsService = () =>
    context.facts().state === 'stopped'
      ? conflict('not_running', 'no service is running on this database, and it is what runs full syncs')
      : null;

  return {
    /** A conflict says why it failed again. */
    async retryEvent(actor: string, id: string): Promise<Done<{ kind: Kind; recordId: string }>> {
      const tried = await audit.change(
        actor,
        'event_retry',
        id,
        () => store.retryEvent(id, now()),
        ({ outcome }) =>
          outcome === 'processed' ? 'ok' : outcome === 'failed' ? 'failed_again' : 'not_possible',
      );
      if (tried.outcome === 'processed') {
        return { status: 'done', value: { kind: tried.kind, recordId: tried.recordId } };
      }
      if (tried.outcome === 'unknown') return MISSING;
      return conflict(CODES[tried.outcome], whyNot(tried));
    },
    async retryWithoutRecord(actor: string): Promise<Done<RetriedAll>> {
      const value = await audit.change(
        actor,
        'events_retry',
        'no_record_id',
        () => retryAllWithoutRecord(store, now),
        ({ processed, failed }) => `ok:${processed}${failed > 0 ? ` failed_again:${failed}` : ''}`,
      );
      return { status: 'done', value };
    },
    async discardEvent(actor: string, id: string): Promise<Done<null>> {
      const discard = () => store.discardEvent(id, now());
      if (await audit.change(actor, 'event_discard', id, discard, didIt)) return DONE;
      // The verb answers false both for what is not there and for what is in another state.
      const event = await store.showEvent(id);
      return event === null ? MISSING : conflict('event_state', `The event is ${event.state}.`);
    },

    async fullSync(actor: string, kinds: Kind[] = [...KINDS]): Promise<Done<{ kinds: Kind[] }>> {
      const refused = needsApi() ?? needsService();
      if (refused !== null) return refused;
      const distinct = KINDS.filter((kind) => kinds.includes(kind));
      await audit.change(actor, 'sync', distinct.join(','), () =>
        actions.requestFullSync(distinct, `operator:${actor}`),
      );
      return { status: 'done', value: { kinds: distinct } };
    },

    /** Writes nothing. Rejects with MirrorError when the API cannot be read, and when the signal aborts. */
    async dryRun(kinds: Kind[] = [...KINDS], signal: AbortSignal): Promise<Done<Compared[]>> {
      const refused = needsApi();
      if (refused !== null) return refused;
      if (comparing) {
        return conflict(
          'dry_run_under_way',
          'One is under way, and two would only take the requests from each other.',
        );
      }
      comparing = true;
      try {
        const compared: Compared[] = [];
        for (const kind of KINDS) {
          if (kinds.includes(kind)) compared.push({ kind, ...(await actions.dryRun(kind, signal)) });
        }
        return { status: 'done', value: compared };
      } finally {
        comparing = false;
      }
    },

    /** Exactly the ids that were shown with this digest, or a conflict. */
    async approveDeletions(actor: string, digest: string): Promise<Done<ApprovedDeletions>> {
      const named = await namedBy(store, digest, clock.wall());
      if (typeof named === 'string') return NOT_APPROVED[named];
      const { syncRunId, kind } = named;
      const until = clock.wall() + APPROVAL_MS;
      const { ids } = await audit.change(
        actor,
        'approve_deletions',
        `${kind}, sync run ${syncRunId}`,
        () => store.approveDeletions(syncRunId, until, named.ids),
        (approved) => (approved.ids.length > 0 ? `ok:${approved.ids.length}` : 'not_possible'),
      );
      if (ids.length === 0) return NOT_APPROVED.changed;
      // An approval deletes nothing by itself, and would lapse before a slow timer's next proof.
      await actions.requestFullSync([kind], `approval:${syncRunId}`);
      return { status: 'done', value: { syncRunId, kind, ids, until: new Date(until).toISOString() } };
    },

    async refetch(actor: string, kind: Kind, ids: readonly string[]): Promise<Done<{ queued: number }>> {
      const refused = needsApi();
      if (refused !== null) return refused;
      const distinct = [...new Set(ids)];
      const target = `${kind}/${distinct.join(',')}`.slice(0, TARGET_MAX);
      const value = await audit.change(actor, 'refetch', target, () => actions.refetch(kind, distinct));
      return { status: 'done', value };
    },

    async releaseQuarantined(actor: string, id: number): Promise<Done<null>> {
      const released = await audit.change(
        actor,
        'quarantine_release',
        String(id),
        () => store.releaseQuarantined(id, now(), { settleMs: context.facts().settleMs }),
        didIt,
      );
      if (released) return DONE;
      const delivery = await store.show('quarantine', id);
      if (delivery === null) return MISSING;
      const why = delivery.released_at === null ? 'It cannot be released.' : 'It has been released already.';
      return conflict('not_releasable', why);
    },

    /** For a gap that only a person can end. Of any other a conflict says what ends it. */
    async resolveGap(actor: string, id: number): Promise<Done<null>> {
      return await audit.change(
        actor,
        'gap_resolve',
        String(id),
        () => resolveGap(store, id, context.facts().eventsOnly, now()),
        ({ status }) => (status === 'done' ? 'ok' : 'not_possible'),
      );
    },

    async pause(actor: string): Promise<Done<null>> {
      await audit.change(actor, 'pause', null, () => actions.pause());
      return DONE;
    },
    async resume(actor: string): Promise<Done<null>> {
      await audit.change(actor, 'resume', null, () => actions.resume());
      return DONE;
    },
  };
}
