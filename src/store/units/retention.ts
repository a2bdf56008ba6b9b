import { contentHashOf } from '../../inbox/content-hash.ts';
import type { Database, Sql, Unit } from '../database.ts';
import type { Column, SQL, Table } from '../drizzle.ts';
import type { EventState } from '../reports.ts';
import { audit, changes, duplicates, events, quarantine, registrations, trimmedEvents } from '../schema.ts';
import type { RetentionStore, Trimmed, TrimmedThing, TrimStep } from '../store.ts';
import { allOf, as, isOneOf, iso, readFact, set, sql, tally, update, writeFact } from './sql.ts';

/** Where the history begins, as `facts` keep it. */
export const TRIMMED_CHANGES_FACT = 'changes_trimmed';

/** How far bodies have been trimmed, as `facts` keep it: up to this number no event has one but failed ones. */
const TRIMMED_BODIES_FACT = 'bodies_trimmed';

/** For whoever takes an event out of a state that keeps its body: trimming comes back to it. */
export async function trimBodiesAgainFrom(unit: Sql, seq: number): Promise<void> {
  const trimmed = Number((await readFact(unit, TRIMMED_BODIES_FACT)) ?? 0);
  if (trimmed >= seq) await writeFact(unit, TRIMMED_BODIES_FACT, String(seq - 1));
}

/** Of bodies that one step takes apart, which one may exceed: some milliseconds. */
const STEP_BYTES = 1_048_576;

interface Candidate {
  key: number;
  at: string;
  bytes?: number | null;
  /** False: looked at, and to be left alone whatever its age. */
  ready: boolean | 0 | 1;
}

const bytesOf = (body: Column) => sql`octet_length(${body})`;

/** As many of the first ones as one step takes apart: one at least. */
function withinStep<Row extends { bytes?: number | null }>(rows: readonly Row[]): readonly Row[] {
  let bytes = 0;
  const end = rows.findIndex((row, at) => {
    bytes += row.bytes ?? 0;
    return at > 0 && bytes > STEP_BYTES;
  });
  return end === -1 ? rows : rows.slice(0, end);
}

/**
 * Empties those that have a body still, and keeps what it comes to, by which a late redelivery is told from another event:
 * worked out here and not at every arrival. Returns how many.
 */
async function emptyBodies(unit: Unit, keys: readonly number[]): Promise<number> {
  const { seq, body } = events;
  const kept = await unit.query<{ seq: number; body: string }>(
    sql`SELECT ${as({ seq, body })} FROM ${events} WHERE ${unit.dialect.isAmong(seq, keys)} AND ${body} IS NOT NULL`,
  );
  const hashes = Object.fromEntries(kept.map((row) => [row.seq, contentHashOf(row.body)]));
  const contentHash = sql`coalesce(${events.contentHash}, hashed.value)`;
  unit.send(
    sql`UPDATE ${events} SET ${set(events, { contentHash, address: null, body: null })} FROM ${unit.dialect.entries(hashes)} AS hashed
      WHERE ${seq} = CAST(hashed.key AS bigint)`,
  );
  return kept.length;
}

/** Of the oldest rows, in the order in which they came: what is looked at, and what becomes of those that are old enough. */
interface Walk {
  table: Table;
  key: Column;
  at: Column;
  /** Only of rows that fulfil it. */
  among?: SQL;
  /** Their bodies are taken apart, which bounds a step. */
  body?: Column;
  /** Rows that do not fulfil it are left alone whatever their age. */
  ready?: SQL;
  trim(unit: Unit, keys: number[], last: Candidate): Promise<unknown>;
}

const deleting =
  (table: Table, key: Column): Walk['trim'] =>
  (unit, keys) =>
    unit.change(sql`DELETE FROM ${table} WHERE ${unit.dialect.isAmong(key, keys)}`);

const WALKS = {
  quarantine_bodies: {
    ...{ table: quarantine, key: quarantine.id, at: quarantine.receivedAt },
    among: sql`${quarantine.body} IS NOT NULL`,
    trim: (unit, keys) =>
      unit.change(
        update(quarantine, { address: null, body: null }, unit.dialect.isAmong(quarantine.id, keys)),
      ),
  },
  duplicates: {
    ...{ table: duplicates, key: duplicates.id, at: duplicates.receivedAt },
    trim: deleting(duplicates, duplicates.id),
  },
  events: {
    ...{ table: events, key: events.seq, at: events.receivedAt, body: events.body },
    ready: isOneOf(events.state, ['processed', 'ignored', 'discarded']),
    async trim(unit, keys) {
      await emptyBodies(unit, keys);
      const isOld = unit.dialect.isAmong(events.seq, keys);
      await unit.change(
        sql`INSERT INTO ${trimmedEvents} (id, content_hash, received_at)
          SELECT ${events.id}, ${events.contentHash}, ${events.receivedAt} FROM ${events} WHERE ${isOld}`,
      );
      const gone = await unit.query<{ state: EventState }>(
        sql`DELETE FROM ${events} WHERE ${isOld} RETURNING ${events.state}`,
      );
      const moves: Partial<Record<EventState, number>> = {};
      for (const { state } of gone) moves[state] = (moves[state] ?? 0) - 1;
      tally(unit, moves);
    },
  },
  changes: {
    ...{ table: changes, key: changes.seq, at: changes.at },
    async trim(unit, keys, { key, at }) {
      await deleting(changes, changes.seq)(unit, keys, { key, at, ready: true });
      // With the rows it speaks of: a follower that finds them gone must find this as well.
      await writeFact(unit, TRIMMED_CHANGES_FACT, JSON.stringify({ through: key, at }));
    },
  },
  audit: { ...{ table: audit, key: audit.id, at: audit.at }, trim: deleting(audit, audit.id) },
} satisfies Partial<Record<TrimmedThing, Walk>>;

/** Deleted oldest first, by an index of these instants. */
const EXPIRING = {
  registrations: { table: registrations, key: registrations.upstreamId, at: registrations.expiresAt },
  event_ids: { table: trimmedEvents, key: trimmedEvents.id, at: trimmedEvents.receivedAt },
};

export function createRetentionVerbs(database: Database): RetentionStore {
  /** Over at the first one too young. */
  const walk = ({ table, key, at, among, body, ready, trim }: Walk, { before, after, limit }: TrimStep) =>
    database.transact(async (unit): Promise<Trimmed> => {
      const bytes = body === undefined ? {} : { bytes: bytesOf(body) };
      const looked = await unit.query<Candidate>(
        sql`SELECT ${as({ key, at, ...bytes, ready: ready ?? sql`true` })} FROM ${table}
          WHERE ${allOf([...(among === undefined ? [] : [among]), sql`${key} > ${after}`])} ORDER BY key LIMIT ${limit}`,
      );
      const tooYoung = looked.findIndex((row) => Date.parse(row.at) >= before);
      const old = withinStep(tooYoung === -1 ? looked : looked.slice(0, tooYoung));
      const last = old.findLast((row) => row.ready);
      const keys = old.filter((row) => row.ready).map((row) => row.key);
      if (last !== undefined) await trim(unit, keys, last);
      const isOver =
        old.length === (tooYoung === -1 ? looked.length : tooYoung) &&
        (tooYoung !== -1 || looked.length < limit);
      return { trimmed: keys.length, next: isOver ? null : (old.at(-1)?.key ?? null) };
    });

  const trimExpired = async ({ table, key, at }: Pick<Walk, 'table' | 'key' | 'at'>, step: TrimStep) => {
    const trimmed = await database.transact((unit) =>
      unit.change(
        sql`DELETE FROM ${table} WHERE ${key} IN
          (SELECT ${key} FROM ${table} WHERE ${at} < ${iso(step.before)} ORDER BY ${at} LIMIT ${step.limit})`,
      ),
    );
    return { trimmed, next: trimmed < step.limit ? null : 0 };
  };

  const trimEventBodies = ({ before, limit }: TrimStep) =>
    database.transact(async (unit): Promise<Trimmed> => {
      const from = Number((await readFact(unit, TRIMMED_BODIES_FACT)) ?? 0);
      const { seq, receivedAt, state, body } = events;
      const looked = await unit.query<{ key: number; at: string; state: EventState; bytes: number | null }>(
        sql`SELECT ${as({ key: seq, at: receivedAt, state, bytes: bytesOf(body) })} FROM ${events} WHERE ${seq} > ${from} ORDER BY ${seq} LIMIT ${limit}`,
      );
      // One that waits is worked off before trimming goes past it; a failed one brings trimming back when it is failed no more.
      const end = looked.findIndex((row) => Date.parse(row.at) >= before || row.state === 'pending');
      const ended = end === -1 ? looked : looked.slice(0, end);
      const past = withinStep(ended);
      const ready = past.filter((row) => row.state !== 'failed').map((row) => row.key);
      const trimmed = await emptyBodies(unit, ready);
      const last = past.at(-1)?.key;
      if (last !== undefined) await writeFact(unit, TRIMMED_BODIES_FACT, String(last));
      const isOver = past.length === ended.length && (end !== -1 || looked.length < limit);
      return { trimmed, next: isOver ? null : (last ?? null) };
    });

  return {
    trim(thing, step) {
      if (thing === 'event_bodies') return trimEventBodies(step);
      return thing === 'registrations' || thing === 'event_ids'
        ? trimExpired(EXPIRING[thing], step)
        : walk(WALKS[thing], step);
    },
  };
}
