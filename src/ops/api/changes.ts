import { OpenAPIHono } from '@hono/zod-openapi';
import { KINDS, type Kind } from '../../compliance/kinds.ts';
import { momentOf } from '../../platform/clock.ts';
import { MirrorError } from '../../platform/errors.ts';
import { CONFLICTING } from '../../store/reports.ts';
import type { OpsEnv, OpsHandlerContext } from '../access.ts';
import type { AuditLog } from '../audit.ts';
import type { OpsContext, RetriedDelivery } from '../context.ts';
import { explained } from '../problems.ts';
import { found, notFound, refusal } from './answers.ts';
import * as routes from './routes.ts';
import type { Done } from './schemas.ts';

const conflict = (code: string, detail: string) =>
  refusal(409, code, 'Its state does not allow this.', detail);

export type Operations = ReturnType<typeof createOperations>;

/** How long an approval is valid: long enough for a full sync, which proves the deletions once more. */
const APPROVAL_MS = 60 * 60_000;
/** Of the ids in an audit entry. */
const TARGET_MAX_CHARACTERS = 1_000;

type Retried = Extract<RetriedDelivery, { outcome: 'processed' | 'accepted' }>;

/** Why a retry has not taken its delivery. */
function whyNot(
  tried: Exclude<RetriedDelivery, Retried | { outcome: 'unknown' }>,
): [code: string, why: string] {
  switch (tried.outcome) {
    case 'failed':
      return ['failed_again', `It failed again: ${tried.error}.`];
    case 'trimmed':
      return ['body_trimmed', 'Its body is not kept any more, so it cannot be read again.'];
    case 'other_state':
      return ['delivery_state', `It is ${tried.state}.`];
  }
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
export function createOperations(context: OpsContext, audit: AuditLog) {
  const { store, actions, clock } = context;
  const now = () => momentOf(clock);

  const isEventsOnly = () => context.facts().service.events_only;
  const requireApi = () => {
    if (isEventsOnly()) {
      throw conflict(
        'events_only',
        'There are no API credentials: set COMPLIANCE_BASE_URL and COMPLIANCE_API_KEY.',
      );
    }
  };

  /** Throws what is in the way of any change. */
  const changeable = async (id: string) => {
    const delivery = found(await store.show('deliveries', id));
    if (delivery.outcome === 'rejected')
      throw conflict('rejected_delivery', 'It was rejected: it has no event, and waits for nobody.');
    return delivery;
  };

  /** What a person says of pending deletions. `say` returns their ids; null: they have changed. */
  async function decide(
    actor: string,
    action: string,
    id: number,
    say: (kind: Kind) => Promise<string[] | null>,
  ): Promise<{ id: number; kind: Kind; ids: string[] }> {
    const { reason, kind, resolved_at } = found(await store.show('problems', id));
    if (reason !== 'pending_deletions' || kind === null || resolved_at !== null)
      throw conflict('nothing_pending', 'No deletion of this problem waits for approval.');
    const said = (ids: string[] | null) => (ids === null ? 'not_possible' : `ok:${ids.length}`);
    const ids = await audit.change(actor, action, `${id} (${kind})`, () => say(kind), said);
    if (ids === null) throw deletionsChanged();
    return { id, kind, ids };
  }

  return {
    /** An event is read again; a quarantined delivery is taken as an event, if it is one by the present settings. */
    async retryDelivery(actor: string, id: string): Promise<Done['retried']> {
      const { outcome, reason } = await changeable(id);
      if (outcome === 'quarantined' && reason === CONFLICTING)
        throw conflict(CONFLICTING, 'An event with its id said something else. The API decides; dismiss it.');
      const tried = await audit.change(
        actor,
        'delivery_retry',
        id,
        () => store.retryDelivery(id, now()),
        ({ outcome }) =>
          outcome === 'processed' || outcome === 'accepted'
            ? 'ok'
            : outcome === 'failed'
              ? 'failed_again'
              : 'not_possible',
      );
      if (tried.outcome === 'processed' || tried.outcome === 'accepted') {
        const { outcome: status, kind, recordId: record_id } = tried;
        return { status, id, kind, record_id };
      }
      throw tried.outcome === 'unknown' ? notFound() : conflict(...whyNot(tried));
    },
    async dismissDelivery(actor: string, id: string): Promise<Done['dismissed']> {
      await changeable(id);
      await audit.change(actor, 'delivery_dismiss', id, async () => {
        if (await store.dismissDelivery(id, now())) return;
        const { state } = found(await store.show('deliveries', id));
        throw conflict('delivery_state', `It is ${state}.`);
      });
      return { status: 'dismissed', id };
    },

    async fullSync(actor: string, kinds: readonly Kind[] = KINDS): Promise<Done['sync']> {
      requireApi();
      const distinct = KINDS.filter((kind) => kinds.includes(kind));
      await audit.change(actor, 'sync', distinct.join(','), () =>
        actions.requestFullSync(distinct, `operator:${actor}`),
      );
      return { status: 'queued', kinds: distinct, records: null };
    },

    /** Exactly the pending deletions that were shown with this digest, and no others. */
    async approveDeletions(actor: string, id: number, digest: string): Promise<Done['approved']> {
      const until = clock.wall() + APPROVAL_MS;
      const eventsOnly = isEventsOnly();
      const { kind, ids } = await decide(actor, 'problem_approve', id, (of) =>
        store.decideDeletions(of, digest, { untilWall: until, eventsOnly }, now()),
      );
      // Only a full sync deletes, and by the timer the next one may begin after the approval has ended.
      if (!eventsOnly) await actions.requestFullSync([kind], `approval:${id}+operator:${actor}`);
      return { status: 'approved', id, kind, ids, until: new Date(until).toISOString() };
    },
    async keepRecords(actor: string, id: number, digest: string): Promise<Done['kept']> {
      const kept = await decide(actor, 'problem_keep', id, (kind) =>
        store.decideDeletions(kind, digest, 'keep', now()),
      );
      return { status: 'kept', ...kept };
    },

    async refetch(actor: string, kind: Kind, ids: readonly string[]): Promise<Done['sync']> {
      requireApi();
      const distinct = [...new Set(ids)];
      const target = `${kind}/${distinct.join(',')}`.slice(0, TARGET_MAX_CHARACTERS);
      await audit.change(actor, 'refetch', target, () => actions.refetch(kind, distinct, actor));
      return { status: 'queued', kinds: [kind], records: distinct.length };
    },

    /** Accepts what was shown with this digest, and nothing that has changed since. */
    resolveProblem: (actor: string, id: number, digest: string): Promise<Done['resolved']> =>
      audit.change(actor, 'problem_resolve', String(id), async () => {
        const shown = found(await store.show('problems', id));
        switch (await store.resolveProblem(id, digest, now())) {
          case 'resolved': {
            // A list counts once a full sync ends with what was accepted, and by the timer that may take an hour.
            const { reason, kind } = shown;
            const full_sync = reason === 'incomplete_list' && kind !== null && !isEventsOnly();
            if (full_sync) await actions.requestFullSync([kind], `problem:${id}+operator:${actor}`);
            return { status: 'resolved', id, full_sync };
          }
          case 'changed':
            throw conflict(
              'problem_changed',
              'It shows something else than you have seen. Look at it again.',
            );
          case 'not_open':
            throw conflict('resolved_already', 'It is resolved already.');
          case 'unfit':
            throw conflict('not_by_resolving', `Resolving does not end it. ${explained(shown).action}`);
        }
      }),

    /** Asks the API for what looks like an id in the events of a problem. Keeps the place that it proves, and reads such events again. */
    async findRecord(actor: string, id: number): Promise<Done['found']> {
      requireApi();
      const { reason, kind, record_id, resolved_at } = found(await store.show('problems', id));
      if (reason !== 'unknown_record' || kind === null)
        throw conflict('nothing_to_find', 'It is about no event whose record cannot be found.');
      if (resolved_at !== null) throw conflict('resolved_already', 'It is resolved already.');
      const ask = async () => {
        try {
          return await actions.find({ kind, recordId: record_id });
        } catch (error) {
          if (!(error instanceof MirrorError) || error.code !== 'no_worker') throw error;
          throw refusal(503, error.code, 'No process asks the API now.', error.remedy);
        }
      };
      const { pointer, ...rest } = await audit.change(actor, 'problem_find', String(id), ask, (done) =>
        done.pointer === null ? 'not_found' : 'ok',
      );
      if (pointer === null) return { status: 'not_found', id, pointer, ...rest };
      const { path, recordId, eventId } = pointer;
      return {
        status: 'found',
        id,
        pointer: { kind, path, record_id: recordId, event_id: eventId },
        ...rest,
      };
    },

    async testNotification(actor: string): Promise<Done['notified']> {
      if (!context.facts().service.notifies) throw conflict('no_notify_url', 'NOTIFY_URL is not set.');
      await audit.change(actor, 'notify_test', null, async () => {
        const error = await actions.testNotification();
        if (error !== null) throw refusal(502, 'not_delivered', 'NOTIFY_URL has not taken the test.', error);
      });
      return { status: 'delivered' };
    },

    /** One entry for an export, when its first page is read. Never rejects. */
    noteExport: (actor: string, target: string): Promise<void> =>
      audit.note(actor, 'export', 'ok', target.slice(0, TARGET_MAX_CHARACTERS)),

    async pause(actor: string): Promise<Done['paused']> {
      await audit.change(actor, 'pause', null, actions.pause);
      return { paused: true };
    },
    async resume(actor: string): Promise<Done['paused']> {
      await audit.change(actor, 'resume', null, actions.resume);
      return { paused: false };
    },
  };
}

/** The changing half of the JSON API. 202: queued; 200: done. */
export function createChanges(operations: Operations) {
  const actor = (c: Pick<OpsHandlerContext, 'get'>) => c.get('identity').name;

  const api = new OpenAPIHono<OpsEnv>();
  api.openapi(routes.retryDelivery, async (c) =>
    c.json(await operations.retryDelivery(actor(c), c.req.valid('param').id), 200),
  );
  api.openapi(routes.dismissDelivery, async (c) =>
    c.json(await operations.dismissDelivery(actor(c), c.req.valid('param').id), 200),
  );
  api.openapi(routes.startSync, async (c) => {
    const asked = c.req.valid('json');
    const queued =
      'ids' in asked
        ? await operations.refetch(actor(c), asked.kind, asked.ids)
        : await operations.fullSync(actor(c), asked.kinds);
    return c.json(queued, 202);
  });
  api.openapi(routes.resolveProblem, async (c) => {
    const { id } = c.req.valid('param');
    const asked = c.req.valid('json');
    if ('find' in asked) return c.json(await operations.findRecord(actor(c), id), 200);
    return c.json(await operations.resolveProblem(actor(c), id, asked.digest), 200);
  });
  api.openapi(routes.approveDeletions, async (c) =>
    c.json(
      await operations.approveDeletions(actor(c), c.req.valid('param').id, c.req.valid('json').digest),
      200,
    ),
  );
  api.openapi(routes.keepRecords, async (c) =>
    c.json(await operations.keepRecords(actor(c), c.req.valid('param').id, c.req.valid('json').digest), 200),
  );
  api.openapi(routes.pause, async (c) => c.json(await operations.pause(actor(c)), 200));
  api.openapi(routes.resume, async (c) => c.json(await operations.resume(actor(c)), 200));
  api.openapi(routes.notifyTest, async (c) => c.json(await operations.testNotification(actor(c)), 200));
  return api;
}
