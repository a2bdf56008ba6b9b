import { contentHashOf } from '../../compliance/json.ts';
import type { Database, Sql, Unit } from '../database.ts';
import type { TrimmedChanges } from '../reports.ts';
import { audit, type Column, changes, events, rejections, syncHistory, type Table } from '../schema.ts';
import { type SQL, sql } from '../statement.ts';
import type { Trimmed, TrimmedThing, TrimStep } from '../values.ts';
import { columnsAs, iso, readFact, set, update, writeFact } from './sql.ts';

/** What one process does for all beside deliveries and reads: trimming what is old. */

const TRIMMED_CHANGES_FACT = 'changes_trimmed';

/** The last trimmed change. Null: no change was trimmed. */
export async function trimmedChanges(from: Sql): Promise<TrimmedChanges | null> {
  const text = await readFact(from, TRIMMED_CHANGES_FACT);
  return text === null ? null : (JSON.parse(text) as TrimmedChanges);
}

/** Up to this number bodies are trimmed: only failed events still have one. */
const TRIMMED_BODIES_FACT = 'bodies_trimmed';

/** Makes trimming go back to an event that has left a state in which its body stays. */
export async function trimBodiesAgainFrom(unit: Sql, seq: number): Promise<void> {
  if ((await bodiesTrimmed(unit)) >= seq) await writeFact(unit, TRIMMED_BODIES_FACT, String(seq - 1));
}

const bodiesTrimmed = async (unit: Sql) => Number((await readFact(unit, TRIMMED_BODIES_FACT)) ?? 0);

/** How much of the bodies one step parses: some milliseconds. A single larger body is parsed too. */
const STEP_BYTES = 1_048_576;

interface Candidate {
  key: number;
  at: string;
  bytes: number | null;
  /** False: the row stays, at any age. */
  ready: boolean | 0 | 1;
  /** True: no step goes past this row. */
  stops: boolean | 0 | 1;
}

/** How a table is trimmed from its oldest row on. */
interface Trimming {
  table: Table;
  key: Column;
  at: Column;
  /** Which rows are looked at. Default: all. */
  condition?: SQL;
  /** It is parsed, so its size limits a step. */
  body?: Column;
  ready?: SQL;
  stops?: SQL;
  /** Where a step begins, instead of at the caller's `after`. */
  from?(unit: Sql): Promise<number>;
  /** Trims the ready rows, which `isOld` finds, and returns how many; `last` is the last row that was old enough. Default: deletes them. */
  trim?(unit: Unit, isOld: SQL, last: Candidate): Promise<number>;
}

const deleted = (unit: Unit, table: Table, isOld: SQL) =>
  unit.change(sql`DELETE FROM ${table} WHERE ${isOld}`);

/** Replaces bodies by their hashes, which recognise a late redelivery. Returns how many. */
async function emptyBodies(unit: Unit, isOld: SQL): Promise<number> {
  const kept = await unit.query<{ seq: number; body: string }>(
    sql`SELECT seq, body FROM events WHERE ${isOld} AND body IS NOT NULL`,
  );
  const hashed = kept.map((row) => ({ number: String(row.seq), hash: contentHashOf(row.body) }));
  unit.send(
    sql`UPDATE events SET ${set(events, { contentHash: sql`given.hash`, address: null, body: null })}
      FROM ${unit.dialect.given(['number', 'hash'], hashed)} WHERE seq = CAST(given.number AS bigint)`,
  );
  return kept.length;
}

type Trim = (unit: Unit, step: TrimStep) => Promise<Trimmed>;

/** Where a step ends among rows from the future, how many more are looked at for one that is not. Few, since it has the write lock. */
const FUTURE_ROWS_LOOKED = 20_000;

/**
 * A step ends before the first row that is too young, or when it has enough bodies. A row from the future, which a wrong clock has
 * written, is as old as the first later row that is not.
 */
function fromOldest(trimming: Trimming): Trim {
  const { table, key, at, body, condition = sql`true`, ready = sql`true`, stops = sql`false` } = trimming;
  const bytes = body === undefined ? sql`0` : sql`octet_length(${body})`;
  return async (unit, { before, now, after, limit }) => {
    const from = (await trimming.from?.(unit)) ?? after;
    const looked = await unit.query<Candidate>(
      sql`SELECT ${columnsAs({ key, at, bytes, ready, stops })} FROM ${table} WHERE ${condition} AND ${key} > ${from} ORDER BY key LIMIT ${limit}`,
    );
    const isOfFuture = (row: Pick<Candidate, 'at'>) => Date.parse(row.at) > now;
    let later: Pick<Candidate, 'at'> | undefined = looked.at(-1);
    if (later !== undefined && isOfFuture(later)) {
      [later] = await unit.query<Pick<Candidate, 'at'>>(
        sql`SELECT at FROM (SELECT ${columnsAs({ key, at })} FROM ${table} WHERE ${key} > ${looked.at(-1)!.key}
          ORDER BY ${key} LIMIT ${FUTURE_ROWS_LOOKED}) AS next WHERE at <= ${iso(now)} ORDER BY key LIMIT 1`,
      );
    }
    for (const row of looked.toReversed()) {
      if (!isOfFuture(row)) later = row;
      else if (later !== undefined) row.at = later.at;
    }
    let size = 0;
    let taken = 0;
    let isFull = false;
    for (const row of looked) {
      if (Date.parse(row.at) >= before || row.stops) break;
      size += row.bytes ?? 0;
      isFull = taken > 0 && size > STEP_BYTES;
      if (isFull) break;
      taken += 1;
    }
    const old = looked.slice(0, taken);
    const last = old.at(-1);
    if (last === undefined) return { trimmed: 0, next: null };
    const keys = old.filter((row) => row.ready).map((row) => row.key);
    const isOld = unit.dialect.isAmong(key, keys);
    const trimmed = await (trimming.trim?.(unit, isOld, last) ?? deleted(unit, table, isOld));
    return { trimmed, next: isFull || taken === limit ? last.key : null };
  };
}

const REJECTIONS = { table: rejections, key: rejections.id, at: rejections.receivedAt };
const EVENTS = { table: events, key: events.seq, at: events.receivedAt, body: events.body };

const TRIMS: Readonly<Record<TrimmedThing, Trim>> = {
  event_bodies: fromOldest({
    ...EVENTS,
    from: bodiesTrimmed,
    // Trimming waits for a pending event. It goes past a failed one, and comes back when the event is no longer failed.
    stops: sql`state = 'pending'`,
    ready: sql`state <> 'failed'`,
    async trim(unit, isOld, { key }) {
      await writeFact(unit, TRIMMED_BODIES_FACT, String(key));
      return await emptyBodies(unit, isOld);
    },
  }),
  quarantined_bodies: fromOldest({
    ...REJECTIONS,
    condition: sql`outcome = 'quarantined' AND body IS NOT NULL`,
    trim: (unit, isOld) => unit.change(update(rejections, { address: null, body: null }, isOld)),
  }),
  rejections: fromOldest({ ...REJECTIONS, condition: sql`outcome = 'rejected'` }),
  events: fromOldest({
    ...EVENTS,
    // The newest event stays: it shows when a delivery last came. So does one whose assessment the API has not shown: as long
    // as it names that id, the problem of the id is not resolved by what other events turn out to be about.
    ready: sql`state IN ('processed', 'ignored', 'dismissed') AND seq < (SELECT max(seq) FROM events)
      AND (kind IS DISTINCT FROM 'risk_assessment' OR EXISTS (SELECT 1 FROM facts WHERE name = 'events_only' AND value = '1')
        OR NOT EXISTS (SELECT 1 FROM record_state s
          WHERE s.kind = events.kind AND s.id = record_id AND NOT s.returned AND s.unverified_since IS NOT NULL))`,
    async trim(unit, isOld) {
      await emptyBodies(unit, isOld);
      await unit.change(
        sql`INSERT INTO trimmed_events (id, content_hash, received_at)
          SELECT id, content_hash, received_at FROM events WHERE ${isOld}`,
      );
      return await deleted(unit, events, isOld);
    },
  }),
  changes: fromOldest({
    table: changes,
    key: changes.seq,
    at: changes.at,
    from: async (unit) => (await trimmedChanges(unit))?.through ?? 0,
    /** What each old version replaced. So every record keeps the version that it had when the kept time begins. */
    async trim(unit, isOld, last) {
      // In the same commit: whoever follows the changes and misses the deleted rows must find this.
      await writeFact(unit, TRIMMED_CHANGES_FACT, JSON.stringify({ through: last.key, at: last.at }));
      return await unit.change(
        sql`DELETE FROM changes WHERE seq IN (SELECT earlier.seq FROM (SELECT kind, record_id, seq FROM changes WHERE ${isOld}) AS old
          JOIN changes AS earlier ON earlier.kind = old.kind AND earlier.record_id = old.record_id AND earlier.seq < old.seq)`,
      );
    },
  }),
  sync_history: fromOldest({
    table: syncHistory,
    key: syncHistory.id,
    at: syncHistory.until,
    condition: sql`until IS NOT NULL`,
  }),
  audit: fromOldest({ table: audit, key: audit.id, at: audit.at }),
  event_ids: async (unit, { before, limit }) => {
    const trimmed = await unit.change(
      sql`DELETE FROM trimmed_events WHERE id IN
        (SELECT id FROM trimmed_events WHERE received_at < ${unit.dialect.instant(iso(before))} ORDER BY received_at LIMIT ${limit})`,
    );
    return { trimmed, next: trimmed < limit ? null : 0 };
  },
};

export const createRetentionVerbs = ({ transact }: Database) => ({
  /**
   * One step, to be repeated until `next` is null. Pending and failed events keep their bodies, for retries. Ids of trimmed events
   * are kept until `event_ids` are trimmed: after that a redelivery counts as new.
   */
  trim: (thing: TrimmedThing, step: TrimStep): Promise<Trimmed> =>
    transact((unit) => TRIMS[thing](unit, step)),
});
