import { contentHashOf } from '../../inbox/content-hash.ts';
import type { Database, Sql, Unit } from '../database.ts';
import type { Column, SQL } from '../drizzle.ts';
import type { EventState } from '../reports.ts';
import {
  audit,
  changes,
  duplicates,
  events,
  quarantine,
  registrations,
  trimmedEvents,
} from '../schema.sqlite.ts';
import type { RetentionStore, Trimmed, TrimStep } from '../store.ts';
import { readFact, tally, writeFact } from './facts.ts';
import { as, isOneOf, iso, set, sql } from './sql.ts';

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
  /** Of its body, where that is to be taken apart. */
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

/** What is looked at, a few of the oldest rows in the order in which they came. */
const OLDEST_EVENTS = (after: number) =>
  sql`SELECT ${as({
    key: events.seq,
    at: events.receivedAt,
    bytes: bytesOf(events.body),
    ready: isOneOf(events.state, ['processed', 'ignored', 'discarded']),
  })} FROM ${events} WHERE ${events.seq} > ${after}`;
const OLDEST_DUPLICATES = (after: number) =>
  sql`SELECT ${as({ key: duplicates.id, at: duplicates.receivedAt, ready: sql`true` })}
    FROM ${duplicates} WHERE ${duplicates.id} > ${after}`;
const OLDEST_QUARANTINED = (after: number) =>
  sql`SELECT ${as({ key: quarantine.id, at: quarantine.receivedAt, ready: sql`true` })}
    FROM ${quarantine} WHERE ${quarantine.body} IS NOT NULL AND ${quarantine.id} > ${after}`;
const OLDEST_CHANGES = (after: number) =>
  sql`SELECT ${as({ key: changes.seq, at: changes.at, ready: sql`true` })} FROM ${changes} WHERE ${changes.seq} > ${after}`;
const OLDEST_AUDIT = (after: number) =>
  sql`SELECT ${as({ key: audit.id, at: audit.at, ready: sql`true` })} FROM ${audit} WHERE ${audit.id} > ${after}`;

/**
 * Empties those that have a body still, and keeps what it comes to, by which a late redelivery is told from another event:
 * worked out here and not at every arrival. Returns how many.
 */
async function emptyBodies(unit: Unit, keys: readonly number[]): Promise<number> {
  const { seq, body } = events;
  const held = await unit.query<{ seq: number; body: string }>(
    sql`SELECT ${as({ seq, body })} FROM ${events} WHERE ${unit.dialect.isAmong(seq, keys)} AND ${body} IS NOT NULL`,
  );
  const hashes = Object.fromEntries(held.map((row) => [row.seq, contentHashOf(row.body)]));
  const contentHash = sql`coalesce(${events.contentHash}, hashed.value)`;
  unit.send(
    sql`UPDATE ${events} SET ${set(events, { contentHash, address: null, body: null })} FROM ${unit.dialect.entries(hashes)} AS hashed
      WHERE ${seq} = CAST(hashed.key AS bigint)`,
  );
  return held.length;
}

/** Each verb looks at a few of the oldest rows in the order in which they came, and is over at the first one too young. */
export function createRetentionVerbs(database: Database): RetentionStore {
  const walk = (
    { before, after, limit }: TrimStep,
    oldest: (after: number) => SQL,
    trim: (unit: Unit, keys: number[], last: Candidate) => Promise<unknown>,
  ): Promise<Trimmed> =>
    database.transact(async (unit) => {
      const looked = await unit.query<Candidate>(sql`${oldest(after)} ORDER BY key LIMIT ${limit}`);
      const tooYoung = looked.findIndex((row) => Date.parse(row.at) >= before);
      const old = withinStep(tooYoung === -1 ? looked : looked.slice(0, tooYoung));
      const ready = old.filter((row) => row.ready);
      const last = ready.at(-1);
      const keys = ready.map((row) => row.key);
      if (last !== undefined) await trim(unit, keys, last);
      const isOver =
        old.length === (tooYoung === -1 ? looked.length : tooYoung) &&
        (tooYoung !== -1 || looked.length < limit);
      return { trimmed: ready.length, next: isOver ? null : (old.at(-1)?.key ?? null) };
    });

  return {
    trimEventBodies: ({ before, limit }) =>
      database.transact(async (unit) => {
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
      }),

    trimQuarantineBodies: (step) =>
      walk(step, OLDEST_QUARANTINED, (unit, keys) =>
        unit.change(
          sql`UPDATE ${quarantine} SET ${set(quarantine, { address: null, body: null })} WHERE ${unit.dialect.isAmong(quarantine.id, keys)}`,
        ),
      ),

    trimDuplicates: (step) =>
      walk(step, OLDEST_DUPLICATES, (unit, keys) =>
        unit.change(sql`DELETE FROM ${duplicates} WHERE ${unit.dialect.isAmong(duplicates.id, keys)}`),
      ),

    trimEvents: (step) =>
      walk(step, OLDEST_EVENTS, async (unit, keys) => {
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
      }),

    trimChanges: (step) =>
      walk(step, OLDEST_CHANGES, async (unit, keys, { key, at }) => {
        await unit.change(sql`DELETE FROM ${changes} WHERE ${unit.dialect.isAmong(changes.seq, keys)}`);
        // With the rows it speaks of: a follower that finds them gone must find this as well.
        await writeFact(unit, TRIMMED_CHANGES_FACT, JSON.stringify({ through: key, at }));
      }),

    trimAudit: (step) =>
      walk(step, OLDEST_AUDIT, (unit, keys) =>
        unit.change(sql`DELETE FROM ${audit} WHERE ${unit.dialect.isAmong(audit.id, keys)}`),
      ),

    async trimRegistrations({ before, limit }) {
      const { upstreamId, expiresAt } = registrations;
      const trimmed = await database.transact((unit) =>
        unit.change(
          sql`DELETE FROM ${registrations} WHERE ${upstreamId} IN (SELECT ${upstreamId} FROM ${registrations}
            WHERE ${expiresAt} < ${iso(before)} ORDER BY ${expiresAt} LIMIT ${limit})`,
        ),
      );
      return { trimmed, next: trimmed < limit ? null : 0 };
    },

    async trimEventIds({ before, limit }) {
      const { id, receivedAt } = trimmedEvents;
      const trimmed = await database.transact((unit) =>
        unit.change(
          sql`DELETE FROM ${trimmedEvents} WHERE ${id} IN (SELECT ${id} FROM ${trimmedEvents}
            WHERE ${receivedAt} < ${iso(before)} ORDER BY ${receivedAt} LIMIT ${limit})`,
        ),
      );
      return { trimmed, next: trimmed < limit ? null : 0 };
    },
  };
}
