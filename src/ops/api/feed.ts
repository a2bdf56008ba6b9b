import { OpenAPIHono } from '@hono/zod-openapi';
import { isKind, KINDS, type Kind } from '../../compliance/kinds.ts';
import { type ChangeReport, PAGE_LIMIT_MAX, type RecordReport } from '../../store/reports.ts';
import { askerGone, type OpsEnv } from '../access.ts';
import { cached } from '../cached.ts';
import type { ApiContext, OpsStore } from '../context.ts';
import { refusal } from './answers.ts';
import { type FeedCursor, readFeedCursor } from './query.ts';
import * as routes from './routes.ts';

/** So many changes of other kinds are skipped for one answer; its `next` is after them. */
const PASSED_OVER_MAX = 20 * PAGE_LIMIT_MAX;
/** Requests that may wait at once, each with a connection: more than any team's followers. */
export const WAITING_MAX = 64;
/** For one token: places are left for others. */
export const WAITING_MAX_OF_ONE = WAITING_MAX / 2;
/** How often the counter is looked at for all that wait. */
const LOOK_MS = 250;

/** Where the next page of a snapshot continues. `seq` is the first page's, which a follower starts from. */
interface SnapshotCursor extends FeedCursor {
  kind: Kind;
  id: string;
}

/**
 * The feed for a team's own systems. Who takes a snapshot, page by page, and then follows the changes from its `after`
 * on, loses nothing: every page is at least as new as that number, and laying a change over a row that has it already
 * changes nothing, because changes carry values and not differences.
 */
export function createFeed({ store, clock, signal }: ApiContext) {
  /** Looked at once for all that wait. */
  const counter = cached(clock, LOOK_MS, () => store.currentNumber());
  /** The token's name, once for each request. */
  const waiting: string[] = [];
  const isFull = (name: string) =>
    waiting.length >= WAITING_MAX || waiting.filter((other) => other === name).length >= WAITING_MAX_OF_ONE;

  /** Until the counter has passed `seen`, `until` has come (steady), or `ended` aborts. */
  async function pastNumber(seen: number, until: number, ended: AbortSignal): Promise<void> {
    while (clock.steady() < until && !ended.aborted) {
      await clock.sleep(Math.min(LOOK_MS, until - clock.steady()), ended);
      if (ended.aborted || (await counter.current()) > seen) return;
    }
  }

  async function refuseExpired({ seq, epoch }: FeedCursor, present: string): Promise<void> {
    if (epoch !== null && epoch !== present) {
      throw gone('A backup was put back since: its numbers mean other changes.');
    }
    const trimmed = await store.trimmedChanges();
    if (trimmed !== null && seq < trimmed.through) {
      throw gone(`Changes up to ${trimmed.through} were trimmed.`);
    }
    // Of a cursor without an epoch only this shows that a backup was put back, and only until the numbers catch up.
    const newest = await store.currentNumber();
    if (seq > newest) throw gone(`This database has come to ${newest} only: it was restored or is another.`);
  }

  async function beginOf(instant: string): Promise<FeedCursor> {
    const trimmed = await store.trimmedChanges();
    if (trimmed !== null && trimmed.at >= instant) throw gone(`Changes up to ${trimmed.at} were trimmed.`);
    // Where all changes were trimmed, no row says how far they came.
    return { seq: Math.max(trimmed?.through ?? 0, await store.changesBefore(instant)), epoch: null };
  }

  return (
    new OpenAPIHono<OpsEnv>()
      // A feed, which has no last page: `next` is where to go on from, also when nothing is new.
      .openapi(routes.followChanges, async (c) => {
        const { after, since, limit, kind, wait } = c.req.valid('query');
        const start = after ?? (since === undefined ? { seq: 0, epoch: null } : await beginOf(since));
        const isWaiting = wait > 0 && c.req.method === 'GET';
        const { name } = c.get('identity');
        if (isWaiting && isFull(name)) {
          throw refusal(503, 'too_many_waiting', 'Too many requests wait for changes.', undefined, {
            'retry-after': String(wait),
          });
        }
        const until = clock.steady() + (isWaiting ? wait * 1000 : 0);
        using gone = isWaiting ? askerGone(c) : null;
        const ended = gone === null ? signal : AbortSignal.any([signal, gone.signal]);
        if (isWaiting) waiting.push(name);
        try {
          for (let from = start; ; ) {
            // Before the changes: what is made between the two is looked for once more.
            const seen = isWaiting ? await counter.current() : 0;
            const { items, through } = await changesAfter(store, from.seq, limit, kind);
            const epoch = await store.epoch();
            // Asked after they were read: what was trimmed in between is found missing, never passed over.
            await refuseExpired(from, epoch);
            if (items.length > 0 || clock.steady() >= until || ended.aborted) {
              return c.json({ epoch, items, next: `${epoch}.${through}` }, 200);
            }
            if (through === from.seq) await pastNumber(seen, until, ended);
            // If a backup is put back while this waits, there is another epoch.
            from = { seq: through, epoch };
          }
        } finally {
          if (isWaiting) waiting.splice(waiting.indexOf(name), 1);
        }
      })

      .openapi(routes.snapshot, async (c) => {
        const { kind, limit, after } = c.req.valid('query');
        const cursor = after === undefined ? null : readCursor(after, kind);
        if (cursor === undefined) {
          throw refusal(
            400,
            'invalid_parameter',
            'A parameter is not usable.',
            '`after`: the value of `next` from the page before, of the same snapshot.',
          );
        }
        const epoch = await store.epoch();
        if (cursor !== null) await refuseExpired(cursor, epoch);

        const page = await readPage(store, kind === undefined ? KINDS : [kind], cursor, limit);
        const seq = cursor?.seq ?? page.seq;
        const next = page.last === null ? null : `${epoch}.${seq}:${page.last.kind}:${page.last.id}`;
        const trimmed = await store.trimmedChanges();
        return c.json({ epoch, seq, after: `${epoch}.${seq}`, trimmed, items: page.items, next }, 200);
      })
  );
}

/**
 * The next changes of all kinds, oldest first, or of one kind, those of the first page with any; and the number up to which there are
 * no others.
 */
async function changesAfter(
  store: OpsStore,
  after: number,
  limit: number,
  kind: Kind | undefined,
): Promise<{ items: ChangeReport[]; through: number }> {
  let through = after;
  for (let passed = 0; passed < PASSED_OVER_MAX; ) {
    const page = await store.listChanges(through, kind === undefined ? limit : PAGE_LIMIT_MAX);
    const items = page.filter((change) => kind === undefined || change.kind === kind).slice(0, limit);
    through = (items.length === limit ? items : page).at(-1)?.seq ?? through;
    if (items.length > 0 || page.length === 0) return { items, through };
    passed += page.length;
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

/** Up to `limit` rows behind the cursor, kind after kind. `last` is null when nothing is left. */
async function readPage(
  store: OpsStore,
  kinds: readonly Kind[],
  cursor: SnapshotCursor | null,
  limit: number,
): Promise<{ seq: number; items: SnapshotItem[]; last: SnapshotItem | null }> {
  const items: SnapshotItem[] = [];
  let first: number | null = null;
  const left = cursor === null ? kinds : kinds.slice(kinds.indexOf(cursor.kind));
  for (const kind of left) {
    const after = cursor?.kind === kind ? cursor.id : undefined;
    const { seq, records, isFull } = await store.snapshotRecords(kind, {
      limit: limit - items.length,
      after,
    });
    // Of several reads the earliest: all that was committed since is in the changes.
    first ??= seq;
    items.push(...records.map((record) => ({ kind, ...record })));
    if (isFull) return { seq: first, items, last: items.at(-1)! };
  }
  return { seq: first ?? 0, items, last: null };
}

/** Undefined: it is no cursor, or one of a snapshot of another kind. */
function readCursor(text: string, wanted: Kind | undefined): SnapshotCursor | undefined {
  const match = /^([^:]+):([a-z_]+):(.+)$/su.exec(text);
  const [, where, kind, id] = match ?? [];
  if (where === undefined || kind === undefined || id === undefined || !isKind(kind)) return undefined;
  if (wanted !== undefined && kind !== wanted) return undefined;
  const cursor = readFeedCursor(where);
  return cursor === null ? undefined : { ...cursor, kind, id };
}
