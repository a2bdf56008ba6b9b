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

/** How long an approval is valid: long enough for a full sync, which proves the deletions once more. */
const APPROVAL_MS = 60 * 60_000;
/** Of the ids in an audit entry. */
const TARGET_MAX_CHARACTERS = 1_000;

type Retried = Extract<RetriedDelivery, { outcome: 'processed' | 'accepted' }>;

/** Why a retry has not taken its delivery. */
function whyNot(tried: Exclude<RetriedDelivery, Retried>) {
  switch (tried.outcome) {
    case 'unknown':
      return notFound();
    case 'failed':
      return conflict('failed_again', `It failed again: ${tried.error}.`);
    case 'trimmed':
      return conflict('body_trimmed', 'Its body is not kept any more, so it cannot be read again.');
    case 'other_state':
      return conflict('delivery_state', `It is ${tried.state}.`);
  }
}

/**
 * The changing half of the JSON API, which the pages' forms post to as well: all changes that an operator can make, audited with the
 * token's name. Each is answered with a problem when the thing does not exist, or when its state does not allow the change. 202:
 * queued; 200: done.
 */
export function createChanges(context: OpsContext, audit: AuditLog) {
  const { store, actions, clock } = context;
  const now = () => momentOf(clock);
  const actorOf = (c: Pick<OpsHandlerContext, 'get'>) => c.get('identity').name;
  const isEventsOnly = () => context.facts().service.events_only;
  const requireApi = () => {
    if (!isEventsOnly()) return;
    const detail = 'There are no API credentials: set COMPLIANCE_BASE_URL and COMPLIANCE_API_KEY.';
    throw conflict('events_only', detail);
  };

  /** Throws what is in the way of any change. */
  const changeable = async (id: string) => {
    const delivery = found(await store.show('deliveries', id));
    if (delivery.outcome === 'rejected')
      throw conflict('rejected_delivery', 'It was rejected: it has no event, and waits for nobody.');
    return delivery;
  };

  /** What a person says of exactly the pending deletions that were shown with this digest, and of no others. */
  async function decide(
    actor: string,
    action: string,
    id: number,
    digest: string,
    how: Parameters<typeof store.decideDeletions>[2],
  ): Promise<{ id: number; kind: Kind; ids: string[] }> {
    const { reason, kind, resolved_at } = found(await store.show('problems', id));
    if (reason !== 'pending_deletions' || kind === null || resolved_at !== null)
      throw conflict('nothing_pending', 'No deletion of this problem waits for approval.');
    const say = async () => {
      const ids = await store.decideDeletions(kind, digest, how, now());
      if (ids !== null) return ids;
      const title = 'The pending deletions have changed since they were shown.';
      throw refusal(409, 'deletions_changed', title, 'Load them again, and look at them again.');
    };
    const ids = await audit.change(actor, action, `${id} (${kind})`, say, (said) => `ok:${said.length}`);
    return { id, kind, ids };
  }

  const api = new OpenAPIHono<OpsEnv>();

  // An event is read again; a quarantined delivery is taken as an event, if it is one by the present settings.
  api.openapi(routes.retryDelivery, async (c) => {
    const { id } = c.req.valid('param');
    const { outcome, reason } = await changeable(id);
    if (outcome === 'quarantined' && reason === CONFLICTING)
      throw conflict(CONFLICTING, 'An event with its id said something else. The API decides; dismiss it.');
    const retry = async () => {
      const tried = await store.retryDelivery(id, now());
      if (tried.outcome === 'processed' || tried.outcome === 'accepted') return tried;
      throw whyNot(tried);
    };
    const { outcome: status, kind, recordId } = await audit.change(actorOf(c), 'delivery_retry', id, retry);
    return c.json({ status, id, kind, record_id: recordId }, 200);
  });

  api.openapi(routes.dismissDelivery, async (c) => {
    const { id } = c.req.valid('param');
    await changeable(id);
    await audit.change(actorOf(c), 'delivery_dismiss', id, async () => {
      if (await store.dismissDelivery(id, now())) return;
      const { state } = found(await store.show('deliveries', id));
      throw conflict('delivery_state', `It is ${state}.`);
    });
    return c.json({ status: 'dismissed' as const, id }, 200);
  });

  api.openapi(routes.startSync, async (c) => {
    requireApi();
    const asked = c.req.valid('json');
    const actor = actorOf(c);
    const status = 'queued' as const;
    if ('ids' in asked) {
      const ids = [...new Set(asked.ids)];
      const target = `${asked.kind}/${ids.join(',')}`.slice(0, TARGET_MAX_CHARACTERS);
      await audit.change(actor, 'refetch', target, () => actions.refetch(asked.kind, ids, actor));
      return c.json({ status, kinds: [asked.kind], records: ids.length }, 202);
    }
    const kinds = KINDS.filter((kind) => asked.kinds?.includes(kind) ?? true);
    await audit.change(actor, 'sync', kinds.join(','), () =>
      actions.requestFullSync(kinds, `operator:${actor}`),
    );
    return c.json({ status, kinds, records: null }, 202);
  });

  /** Accepts what was shown with this digest, and nothing that has changed since. */
  const resolveProblem = (actor: string, id: number, digest: string): Promise<Done['resolved']> =>
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
          throw conflict('problem_changed', 'It shows something else than you have seen. Look at it again.');
        case 'not_open':
          throw conflict('resolved_already', 'It is resolved already.');
        case 'unfit':
          throw conflict('not_by_resolving', `Resolving does not end it. ${explained(shown).action}`);
      }
    });

  /** Asks the API for what looks like an id in the events of a problem. Keeps the place that it proves, and reads such events again. */
  async function findRecord(actor: string, id: number): Promise<Done['found']> {
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
    const proven = { kind, path, record_id: recordId, event_id: eventId };
    return { status: 'found', id, pointer: proven, ...rest };
  }

  api.openapi(routes.resolveProblem, async (c) => {
    const { id } = c.req.valid('param');
    const asked = c.req.valid('json');
    if ('find' in asked) return c.json(await findRecord(actorOf(c), id), 200);
    return c.json(await resolveProblem(actorOf(c), id, asked.digest), 200);
  });

  api.openapi(routes.approveDeletions, async (c) => {
    const { id } = c.req.valid('param');
    const actor = actorOf(c);
    const untilWall = clock.wall() + APPROVAL_MS;
    const how = { untilWall, eventsOnly: isEventsOnly() };
    const said = await decide(actor, 'problem_approve', id, c.req.valid('json').digest, how);
    // Only a full sync deletes, and by the timer the next one may begin after the approval has ended.
    if (!how.eventsOnly) await actions.requestFullSync([said.kind], `approval:${id}+operator:${actor}`);
    const until = new Date(untilWall).toISOString();
    return c.json({ status: 'approved' as const, ...said, until }, 200);
  });

  api.openapi(routes.keepRecords, async (c) => {
    const { digest } = c.req.valid('json');
    const said = await decide(actorOf(c), 'problem_keep', c.req.valid('param').id, digest, 'keep');
    return c.json({ status: 'kept' as const, ...said }, 200);
  });

  api.openapi(routes.pause, async (c) => {
    await audit.change(actorOf(c), 'pause', null, actions.pause);
    return c.json({ paused: true }, 200);
  });
  api.openapi(routes.resume, async (c) => {
    await audit.change(actorOf(c), 'resume', null, actions.resume);
    return c.json({ paused: false }, 200);
  });

  api.openapi(routes.notifyTest, async (c) => {
    if (!context.facts().service.notifies) throw conflict('no_notify_url', 'NOTIFY_URL is not set.');
    await audit.change(actorOf(c), 'notify_test', null, async () => {
      const error = await actions.testNotification();
      if (error !== null) throw refusal(502, 'not_delivered', 'NOTIFY_URL has not taken the test.', error);
    });
    return c.json({ status: 'delivered' as const }, 200);
  });
  return api;
}
