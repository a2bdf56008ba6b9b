import { OpenAPIHono } from '@hono/zod-openapi';
import { KINDS, type Kind } from '../../compliance/kinds.ts';
import { change } from '../../store/report-rows.ts';
import {
  type ChangeReport,
  type FeedState,
  PAGE_LIMIT_MAX,
  type RecordReport,
  recordColumns,
} from '../../store/reports.ts';
import type { OpsEnv } from '../access.ts';
import { cached } from '../cached.ts';
import type { OpsContext, OpsStore } from '../context.ts';
import { answerPage, asksForCsv, refusal } from './answers.ts';
import type { FeedCursor, SnapshotCursor } from './query.ts';
import * as routes from './routes.ts';

/** At most so many changes of other kinds are skipped for one answer; its `next` is after them. */
const SKIPPED_MAX = 20 * PAGE_LIMIT_MAX;
/** Requests that may wait at once, each with a connection: more than any team needs. */
export const WAITING_MAX = 64;
/** For one token, so that places are left for others. */
export const WAITING_MAX_OF_ONE = WAITING_MAX / 2;
/** How often the counter is read while requests wait. */
const LOOK_MS = 250;

/**
 * The feed for a team's own systems. A follower that takes a snapshot page by page, and then reads the changes from its
 * `after` on, loses nothing: every page is at least as new as that number. Some changes are in a page already. To apply
 * them again does no harm, because they carry values, not differences.
 */
export function createFeed({ store, clock, signal }: OpsContext) {
  /** Read once for all requests that wait. */
  const counter = cached(clock, LOOK_MS, async () => (await store.feed()).newest);
  /** The token's name, once for each request that waits. */
  const waiting: string[] = [];
  const isFull = (name: string) =>
    waiting.length >= WAITING_MAX || waiting.filter((other) => other === name).length >= WAITING_MAX_OF_ONE;

  /** Waits until the counter has passed `seen`, until `until` (steady), or until `ended` aborts. */
  async function waitForChange(seen: number, until: number, ended: AbortSignal): Promise<void> {
    while (clock.steady() < until && !ended.aborted) {
      await clock.sleep(Math.min(LOOK_MS, until - clock.steady()), ended);
      if (ended.aborted || (await counter.current()) > seen) return;
    }
  }

  function refuseExpired({ seq, epoch }: FeedCursor, { trimmed, newest, ...present }: FeedState): void {
    if (epoch !== null && epoch !== present.epoch) {
      throw gone('A backup was put back since: its numbers mean other changes.');
    }
    if (trimmed !== null && seq < trimmed.through) {
      throw gone(`Changes up to ${trimmed.through} were trimmed.`);
    }
    // For a cursor without an epoch, only this shows that a backup was put back, until the numbers catch up.
    if (seq > newest) throw gone(`This database has come to ${newest} only: it was restored or is another.`);
  }

  async function cursorAt(instant: string): Promise<FeedCursor> {
    const { trimmed, after } = await store.feed(instant);
    if (trimmed !== null && trimmed.at >= instant) throw gone(`Changes up to ${trimmed.at} were trimmed.`);
    return { seq: after, epoch: null };
  }

  const api = new OpenAPIHono<OpsEnv>();
  // A feed has no last page: `next` says where to go on, even if nothing is new.
  api.openapi(routes.followChanges, async (c) => {
    const { after, since, limit, kind, wait } = c.req.valid('query');
    const start = after ?? (since === undefined ? { seq: 0, epoch: null } : await cursorAt(since));
    const isWaiting = wait > 0 && c.req.method === 'GET';
    const { name } = c.get('identity');
    if (isWaiting && isFull(name)) {
      throw refusal(503, 'too_many_waiting', 'Too many requests wait for changes.', undefined, {
        'retry-after': String(wait),
      });
    }
    const until = clock.steady() + (isWaiting ? wait * 1000 : 0);
    if (isWaiting) waiting.push(name);
    using _ = { [Symbol.dispose]: () => void (isWaiting && waiting.splice(waiting.indexOf(name), 1)) };
    const ended = AbortSignal.any([signal, c.req.raw.signal]);
    for (let from = start; ; ) {
      // Read before the changes: a change that is made in between ends the wait at once.
      const seen = isWaiting ? await counter.current() : 0;
      const { items, through } = await changesAfter(store, from.seq, limit, kind);
      // Read after the changes, so that changes that were trimmed meanwhile are not skipped.
      const feed = await store.feed();
      refuseExpired(from, feed);
      const { epoch } = feed;
      if (items.length > 0 || clock.steady() >= until || ended.aborted) {
        const next = `${epoch}.${through}`;
        if (!asksForCsv(c)) return c.json({ epoch, items, next }, 200);
        // As CSV it is an export, which ends with the newest change.
        return answerPage(
          c,
          { epoch, items, next: items.length === 0 ? null : next } as never,
          Object.keys(change.shape),
        );
      }
      if (through === from.seq) await waitForChange(seen, until, ended);
      // A backup that is put back during the wait brings another epoch.
      from = { seq: through, epoch };
    }
  });
  api.openapi(routes.snapshot, async (c) => {
    const { kind, limit, after: cursor = null } = c.req.valid('query');
    // Read before the rows: a change that is committed between the two is in them, and its number is after this one.
    const feed = await store.feed();
    if (cursor !== null) refuseExpired(cursor, feed);

    const page = await readPage(store, kind === undefined ? KINDS : [kind], cursor, limit);
    const { epoch, trimmed } = feed;
    const seq = cursor?.seq ?? feed.newest;
    const next = page.last === null ? null : `${epoch}.${seq}:${page.last.kind}:${page.last.id}`;
    const stands = { epoch, seq, after: `${epoch}.${seq}`, trimmed };
    return answerPage(c, { ...stands, items: page.items, next }, ['kind', ...recordColumns('policy')]);
  });
  return api;
}

/**
 * The next changes, oldest first. Of one kind: those on the first page of changes that has any. `through`: the number up to
 * which there are no others.
 */
async function changesAfter(
  store: OpsStore,
  after: number,
  limit: number,
  kind: Kind | undefined,
): Promise<{ items: ChangeReport[]; through: number }> {
  let through = after;
  for (let skipped = 0; skipped < SKIPPED_MAX; ) {
    const { items: page } = await store.list('changes', {
      oldestFirst: true,
      after: through,
      limit: kind === undefined ? limit : PAGE_LIMIT_MAX,
    });
    const items = page.filter((change) => kind === undefined || change.kind === kind).slice(0, limit);
    through = (items.length === limit ? items : page).at(-1)?.seq ?? through;
    if (items.length > 0 || page.length === 0) return { items, through };
    skipped += page.length;
  }
  return { items: [], through };
}

function gone(why: string) {
  return refusal(
    410,
    'cursor_expired',
    'The changes after this cursor cannot be had.',
    `${why} Take a snapshot from /api/snapshot and follow the changes from where it stands.`,
    { link: '</api/snapshot>; rel="start"' },
  );
}

type SnapshotItem = { kind: Kind } & RecordReport;

/** Up to `limit` rows after the cursor, kind after kind. `last`: the last row of the page; null: no rows are left. */
async function readPage(
  store: OpsStore,
  kinds: readonly Kind[],
  cursor: SnapshotCursor | null,
  limit: number,
): Promise<{ items: SnapshotItem[]; last: SnapshotItem | null }> {
  const items: SnapshotItem[] = [];
  const left = cursor === null ? kinds : kinds.slice(kinds.indexOf(cursor.kind));
  for (const kind of left) {
    const after = cursor?.kind === kind ? cursor.id : undefined;
    const page = await store.list('records', { kind, limit: limit - items.length, after });
    items.push(...page.items.map((record) => ({ kind, ...record })));
    if (page.next !== null) return { items, last: items.at(-1)! };
  }
  return { items, last: null };
}
