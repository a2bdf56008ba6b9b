import { KINDS, type Kind } from '../../compliance/kinds.ts';
import { decideWork, type KindWork, scanCost } from '../../mirror/next-work.ts';
import { DUE_ASKED, DUE_BY_ID_ONLY, LONGEST_WAIT_IN_SETTLES } from '../../mirror/state.ts';
import type { Database, Sql } from '../database.ts';
import { recordState as states } from '../schema.ts';
import { type SQL, sql } from '../statement.ts';
import type { DueRecord, InHand, Now, Work } from '../values.ts';
import { countOf } from './due.ts';
import { kindsWithPending } from './pending-deletions.ts';
import { kindsWantingFullSync } from './problems.ts';
import { reading } from './reading.ts';
import { iso, singleValue } from './sql.ts';

/** The one verb that the planner asks. */
export function createPlannerVerbs({ sql: statements }: Database) {
  return {
    /** What the planner is to do next, and when to look again. */
    nextWork: reading(async (now: Now, hand: InHand): Promise<Work[]> => {
      const wanting = await kindsWantingFullSync(statements, now);
      const pending = await kindsWithPending(statements, iso(now.wall));
      const ofKind = async (kind: Kind): Promise<KindWork> => ({
        ...(await workOf(statements, kind, now, hand)),
        wantsFullSync: wanting.includes(kind),
        hasPending: pending.includes(kind),
      });
      const found = Object.fromEntries(
        await Promise.all(KINDS.map(async (kind) => [kind, await ofKind(kind)])),
      );
      return decideWork(found, hand, now.steady);
    }),
  };
}

/** Due vendors to count, so that a burst of dirty marks is recognised before single reads begin. */
const BURST_LOOK = 256;

/** What is to be done of a kind, apart from what is being read. */
async function workOf(
  from: Sql,
  kind: Kind,
  { steady }: Now,
  hand: InHand,
): Promise<Omit<KindWork, 'wantsFullSync' | 'hasPending'>> {
  const { isRunning, busy } = hand.kinds[kind];
  const { settleMs } = hand.timing;
  const isVendor = kind === 'vendor';
  const total = isVendor ? (hand.kinds[kind].total ?? (await countOf(from, kind, 'known'))) : 0;
  const isFree = sql`kind = ${kind} AND NOT ${from.dialect.isAmong(states.id, busy)}`;
  // As `dueAt` has it: later dirty marks leave `due_at` as it is, so that a busy record does not move in its index at every event.
  const [settledAt, latestAt] = [
    sql`dirty_at + ${settleMs}`,
    sql`coalesce(first_dirty_at, dirty_at) + ${LONGEST_WAIT_IN_SETTLES * settleMs}`,
  ];
  const isPutOff = sql`dirty_at IS NOT NULL AND ${settledAt} > ${steady} AND ${latestAt} > ${steady}
    AND attempts = 0 AND missing_since IS NULL`;
  const dueBetween = (first: number, last: number, limit: number, order = sql`ASC`) =>
    sql`SELECT id, due_at AS "dueAt", attempts, dirty_at FROM record_state
      WHERE ${isFree} AND due_at BETWEEN ${first} AND ${last} AND NOT (${isPutOff}) ORDER BY due_at ${order} LIMIT ${limit}`;
  const read = async (due: SQL): Promise<DueRecord[]> =>
    hand.slots === 0 || kind === 'policy'
      ? []
      : (await from.query<Omit<DueRecord, 'asked'> & { dirty_at: number | null }>(due)).map(
          ({ dirty_at, ...one }) => ({ ...one, asked: dirty_at === null || one.dueAt <= DUE_ASKED }),
        );
  // What is known by its id only, a running full sync reads.
  const asked = await read(
    dueBetween(isRunning && !isVendor ? DUE_ASKED : DUE_BY_ID_ONLY, DUE_ASKED, hand.slots, sql`DESC`),
  );
  const others = await read(dueBetween(DUE_ASKED + 1, steady, hand.slots));
  const enough = isVendor ? Math.max(BURST_LOOK, scanCost(total, hand.pageSize) + 1) : 1;
  const [due] = await from.query<{ now: number; first: number | null }>(
    sql`SELECT count(*) AS now, min("dueAt") AS first
      FROM (${dueBetween(isVendor ? DUE_ASKED + 1 : DUE_BY_ID_ONLY, steady, enough)}) AS due`,
  );
  const soon = sql`SELECT 1 FROM record_state WHERE ${isFree} AND due_at BETWEEN ${DUE_ASKED + 1} AND ${steady + settleMs} LIMIT ${enough}`;
  const withinSettle = isVendor
    ? await singleValue<number>(from, sql`SELECT count(*) FROM (${soon}) AS soon`)
    : null;
  const later = sql`SELECT min(due_at) AS at FROM record_state WHERE kind = ${kind} AND due_at > ${steady}`;
  const putOff = sql`SELECT min(CASE WHEN ${settledAt} < ${latestAt} THEN ${settledAt} ELSE ${latestAt} END) AS at
    FROM record_state WHERE ${isFree} AND due_at BETWEEN ${DUE_ASKED + 1} AND ${steady} AND ${isPutOff}`;
  // Beside a record that is due, those that are put off need not be looked for: the end of its read is a time to look again.
  const next = due!.now > 0 ? later : sql`SELECT min(at) FROM (${later} UNION ALL ${putOff}) AS due`;
  const [proofs] = await from.query<{ awaiting: number; proven: number }>(
    sql`SELECT count(*) FILTER (WHERE NOT proven AND attempts = 0) AS awaiting, count(*) FILTER (WHERE proven) AS proven
      FROM record_state${from.dialect.indexedBy('record_state_missing')}
      WHERE kind = ${kind} AND missing_since IS NOT NULL`,
  );
  return {
    ...{ due: [...asked, ...others], total, ...proofs! },
    count: {
      now: due!.now,
      withinSettle: withinSettle ?? due!.now,
      longestMs: due!.first === null ? 0 : steady - due!.first,
    },
    nextDueAt: await singleValue<number>(from, next),
  };
}
