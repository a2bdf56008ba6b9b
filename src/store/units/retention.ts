import { contentHashOf } from '../../inbox/content-hash.ts';
import type { Database, Sql, Unit } from '../database.ts';
import type { Column, SQL, Table } from '../drizzle.ts';
import type { EventState } from '../reports.ts';
import {
  audit,
  changes,
  duplicates,
  events,
  quarantine,
  registrations,
  rejections,
  trimmedEvents,
} from '../schema.ts';
import type { Trimmed, TrimmedThing, TrimStep } from '../values.ts';
import { as, iso, readFact, set, sql, tally, update, writeFact } from './sql.ts';

/** The fact that says where the history begins. */
export const TRIMMED_CHANGES_FACT = 'changes_trimmed';

/** The fact that says how far bodies have been trimmed: up to this number only failed events have one. */
const TRIMMED_BODIES_FACT = 'bodies_trimmed';

/** After an event has left a state in which its body stays: trimming goes back to it. */
export async function trimBodiesAgainFrom(unit: Sql, seq: number): Promise<void> {
  if ((await bodiesTrimmed(unit)) >= seq) await writeFact(unit, TRIMMED_BODIES_FACT, String(seq - 1));
}

const bodiesTrimmed = async (unit: Sql) => Number((await readFact(unit, TRIMMED_BODIES_FACT)) ?? 0);

/** Bodies that one step parses, in some milliseconds. A single larger one is parsed too. */
const STEP_BYTES = 1_048_576;

interface Candidate {
  key: number;
  at: string;
  bytes: number | null;
  /** False: it stays, whatever its age. */
  ready: boolean | 0 | 1;
  /** No step goes past it. */
  stops: boolean | 0 | 1;
}

/** A walk through a table from its oldest row: which rows it looks at, and how it trims those that are old enough. */
interface Walk {
  table: Table;
  key: Column;
  at: Column;
  /** Only rows that fulfil it. */
  among?: SQL;
  /** It is parsed, so its size bounds a step. */
  body?: Column;
  ready?: SQL;
  stops?: SQL;
  /** Where a step begins, instead of where the caller says. */
  from?(unit: Sql): Promise<number>;
  /** Trims the ready rows and returns how many; `last` is the last row that was old enough. */
  trim(unit: Unit, keys: number[], last: Candidate): Promise<number>;
}

const deleting =
  (table: Table, key: Column): Walk['trim'] =>
  (unit, keys) =>
    unit.change(sql`DELETE FROM ${table} WHERE ${unit.dialect.isAmong(key, keys)}`);

/** Keeps the hash of each body that it removes, by which a late redelivery is recognised. Returns how many. */
async function emptyBodies(unit: Unit, keys: readonly number[]): Promise<number> {
  const { seq } = events;
  const kept = await unit.query<{ seq: number; body: string }>(
    sql`SELECT seq, body FROM events WHERE ${unit.dialect.isAmong(seq, keys)} AND body IS NOT NULL`,
  );
  const hashed = kept.map((row) => ({ number: String(row.seq), hash: contentHashOf(row.body) }));
  const contentHash = sql`coalesce(${events.contentHash}, given.hash)`;
  unit.send(
    sql`UPDATE events SET ${set(events, { contentHash, address: null, body: null })}
      FROM ${unit.dialect.given(['number', 'hash'], hashed)} WHERE seq = CAST(given.number AS bigint)`,
  );
  return kept.length;
}

type Trim = (unit: Unit, step: TrimStep) => Promise<Trimmed>;

/** A step ends before the first row that is too young, or when it has enough bodies. */
function walk(of: Walk): Trim {
  const { table, key, at, body, among = sql`true`, ready = sql`true`, stops = sql`false` } = of;
  const bytes = body === undefined ? sql`0` : sql`octet_length(${body})`;
  return async (unit, { before, after, limit }) => {
    const from = (await of.from?.(unit)) ?? after;
    const looked = await unit.query<Candidate>(
      sql`SELECT ${as({ key, at, bytes, ready, stops })} FROM ${table} WHERE ${among} AND ${key} > ${from} ORDER BY key LIMIT ${limit}`,
    );
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
    const trimmed = await of.trim(unit, keys, last);
    return { trimmed, next: isFull || taken === limit ? last.key : null };
  };
}

/** Deletes the oldest, by an index of these instants. */
function expire(table: Table, key: Column, at: Column): Trim {
  return async (unit, { before, limit }) => {
    const trimmed = await unit.change(
      sql`DELETE FROM ${table} WHERE ${key} IN
        (SELECT ${key} FROM ${table} WHERE ${at} < ${iso(before)} ORDER BY ${at} LIMIT ${limit})`,
    );
    return { trimmed, next: trimmed < limit ? null : 0 };
  };
}

const EVENTS = { table: events, key: events.seq, at: events.receivedAt, body: events.body };

const TRIMS: Readonly<Record<TrimmedThing, Trim>> = {
  event_bodies: walk({
    ...EVENTS,
    from: bodiesTrimmed,
    // A pending event is processed before trimming goes past it; a failed one brings trimming back once it is not failed.
    stops: sql`state = 'pending'`,
    ready: sql`state <> 'failed'`,
    async trim(unit, keys, { key }) {
      await writeFact(unit, TRIMMED_BODIES_FACT, String(key));
      return await emptyBodies(unit, keys);
    },
  }),
  quarantine_bodies: walk({
    table: quarantine,
    key: quarantine.id,
    at: quarantine.receivedAt,
    among: sql`body IS NOT NULL`,
    trim: (unit, keys) =>
      unit.change(
        update(quarantine, { address: null, body: null }, unit.dialect.isAmong(quarantine.id, keys)),
      ),
  }),
  duplicates: walk({
    table: duplicates,
    key: duplicates.id,
    at: duplicates.receivedAt,
    trim: deleting(duplicates, duplicates.id),
  }),
  rejections: walk({
    table: rejections,
    key: rejections.id,
    at: rejections.at,
    trim: deleting(rejections, rejections.id),
  }),
  events: walk({
    ...EVENTS,
    // The newest stays: it says when a delivery last came.
    ready: sql`state IN ('processed', 'ignored', 'discarded') AND seq < (SELECT max(seq) FROM events)`,
    async trim(unit, keys) {
      await emptyBodies(unit, keys);
      const isOld = unit.dialect.isAmong(events.seq, keys);
      await unit.change(
        sql`INSERT INTO trimmed_events (id, content_hash, received_at)
          SELECT id, content_hash, received_at FROM events WHERE ${isOld}`,
      );
      const gone = await unit.query<{ state: EventState }>(
        sql`DELETE FROM events WHERE ${isOld} RETURNING state`,
      );
      const moves: Partial<Record<EventState, number>> = {};
      for (const { state } of gone) moves[state] = (moves[state] ?? 0) - 1;
      tally(unit, moves);
      return gone.length;
    },
  }),
  changes: walk({
    table: changes,
    key: changes.seq,
    at: changes.at,
    async trim(unit, keys, last) {
      // In the commit that deletes the rows: a follower that misses them must find this.
      await writeFact(unit, TRIMMED_CHANGES_FACT, JSON.stringify({ through: last.key, at: last.at }));
      return await deleting(changes, changes.seq)(unit, keys, last);
    },
  }),
  audit: walk({ table: audit, key: audit.id, at: audit.at, trim: deleting(audit, audit.id) }),
  registrations: expire(registrations, registrations.upstreamId, registrations.expiresAt),
  event_ids: expire(trimmedEvents, trimmedEvents.id, trimmedEvents.receivedAt),
};

export const createRetentionVerbs = ({ transact }: Database) => ({
  /**
   * One step; repeated until `next` is null. Pending and failed events stay with their bodies, which a retry needs. Ids of trimmed
   * events stay until `event_ids` are trimmed: then a redelivery counts as new.
   */
  trim: (thing: TrimmedThing, step: TrimStep): Promise<Trimmed> =>
    transact((unit) => TRIMS[thing](unit, step)),
});
