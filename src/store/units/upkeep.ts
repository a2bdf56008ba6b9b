import { contentHashOf } from '../../compliance/json.ts';
import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import { knownFields, learnFields, noteFields, seenByName } from '../../mirror/flat-columns.ts';
import type { Database, Sql, Unit } from '../database.ts';
import type { EventState, TrimmedChanges } from '../reports.ts';
import {
  audit,
  type Column,
  changes,
  duplicates,
  events,
  fields,
  quarantine,
  registrations,
  rejections,
  type SQL,
  type Table,
  trimmedEvents,
} from '../schema.ts';
import type { Field, FieldLook, Trimmed, TrimmedThing, TrimStep } from '../values.ts';
import { columnsAs, iso, readFact, set, sql, tally, update, upsert, writeFact } from './sql.ts';

/** What one process does for all beside deliveries and reads: trimming what is old, and the views' typed columns. */

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

/**
 * `searched` of an id that the API has not shown: an event that names it was trimmed before the other ids in it were asked for. The
 * end of the search opens a gap, since without a body nobody can know what the event was about.
 */
export const TRIMMED_UNSEARCHED = -1;

/** Replaces bodies by their hashes, which recognise a late redelivery. Returns how many. */
async function emptyBodies(unit: Unit, isOld: SQL): Promise<number> {
  const kept = await unit.query<{ seq: number; body: string }>(
    sql`SELECT seq, body FROM events WHERE ${isOld} AND body IS NOT NULL`,
  );
  const hashed = kept.map((row) => ({ number: String(row.seq), hash: contentHashOf(row.body) }));
  unit.send(
    sql`UPDATE record_state SET searched = ${TRIMMED_UNSEARCHED} FROM events
      WHERE ${isOld} AND body IS NOT NULL AND events.kind = 'risk_assessment' AND state <> 'discarded'
        AND record_state.kind = events.kind AND record_state.id = record_id AND NOT returned AND searched < seq`,
  );
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

/** Deletes the oldest rows, found by an index of `at`. */
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
  quarantine_bodies: fromOldest({
    table: quarantine,
    key: quarantine.id,
    at: quarantine.receivedAt,
    condition: sql`body IS NOT NULL`,
    trim: (unit, isOld) => unit.change(update(quarantine, { address: null, body: null }, isOld)),
  }),
  duplicates: fromOldest({ table: duplicates, key: duplicates.id, at: duplicates.receivedAt }),
  rejections: fromOldest({ table: rejections, key: rejections.id, at: rejections.at }),
  events: fromOldest({
    ...EVENTS,
    // The newest event stays: it shows when a delivery last came.
    ready: sql`state IN ('processed', 'ignored', 'discarded') AND seq < (SELECT max(seq) FROM events)`,
    async trim(unit, isOld) {
      await emptyBodies(unit, isOld);
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
  changes: fromOldest({
    table: changes,
    key: changes.seq,
    at: changes.at,
    async trim(unit, isOld, last) {
      // In the same commit: whoever follows the changes and misses the deleted rows must find this.
      await writeFact(unit, TRIMMED_CHANGES_FACT, JSON.stringify({ through: last.key, at: last.at }));
      return await deleted(unit, changes, isOld);
    },
  }),
  audit: fromOldest({ table: audit, key: audit.id, at: audit.at }),
  registrations: expire(registrations, registrations.upstreamId, registrations.expiresAt),
  event_ids: expire(trimmedEvents, trimmedEvents.id, trimmedEvents.receivedAt),
};

export const createRetentionVerbs = ({ transact }: Database) => ({
  /**
   * One step, to be repeated until `next` is null. Pending and failed events keep their bodies, for retries. Ids of trimmed events
   * are kept until `event_ids` are trimmed: after that a redelivery counts as new.
   */
  trim: (thing: TrimmedThing, step: TrimStep): Promise<Trimmed> =>
    transact((unit) => TRIMS[thing](unit, step)),
});

// ─── typed columns ───────────────────────────────────────────────────────────────────────────────────────

/** Up to this number changes have been searched for fields. */
const LOOKED_FACT = 'fields_looked';

/** How much JSON of changes one step searches, since on PostgreSQL the event loop parses it. A single larger change is searched too. */
const LOOK_BYTES = 262_144;

/** The typed columns of the views `…_flat`. They are found in the changes, which have every field that a record ever had. */
export function createFieldVerbs({ sql: statements, transactApart }: Database) {
  return {
    /** Searches up to `limit` changes after `look`. Null: after those from which fields were last learned. */
    async seeFields(look: FieldLook | null, limit: number): Promise<FieldLook> {
      const from = look?.through ?? Number((await readFact(statements, LOOKED_FACT)) ?? 0);
      type Row = { seq: number; kind: Kind; id: string; after: unknown; at: string };
      // After a backup was put back, the counter is lower, and its numbers are given out again: search all changes.
      const behind = sql`CASE WHEN ${from} > (SELECT max(value) FROM counter) THEN 0 ELSE CAST(${from} AS bigint) END`;
      const statement = sql`SELECT seq, kind, record_id AS id, after, at FROM changes WHERE seq > ${behind} ORDER BY seq`;
      const { rows, isFull } = await statements.page<Row>(statement, [changes.after], limit, LOOK_BYTES);
      const last = rows.at(-1);
      if (last === undefined) return { through: from, seen: look?.seen ?? [], isOver: true };
      const present = await fieldsByKind(statements);
      const known = new Map(KINDS.map((kind) => [kind, knownFields(present.get(kind) ?? [])]));
      const seen = seenByName(look?.seen ?? []);
      for (const row of rows) {
        const { data } = statements.dialect.fromJson(row.after) as { data?: JsonObject };
        if (data !== undefined) noteFields(seen, known.get(row.kind)!, { ...row, data });
      }
      return { through: last.seq, seen: [...seen.values()], isOver: !isFull };
    },

    /** Returns the new and changed rows of `fields`. Rejects with StoreUnavailable while a query locks a view. */
    learnFields: ({ through, seen }: FieldLook): Promise<(Field & { kind: Kind })[]> =>
      transactApart(fields, async (unit) => {
        const present = await fieldsByKind(unit);
        const learned: (Field & { kind: Kind })[] = [];
        for (const kind of new Set(seen.map((each) => each.kind))) {
          const earlier = present.get(kind) ?? [];
          const rows = learnFields(
            earlier,
            seen.filter((each) => each.kind === kind),
          );
          if (rows.length === 0) continue;
          for (const { keys, firstSeenAt, ...row } of rows) {
            const kept = { keys: unit.dialect.json(keys), firstSeenAt: unit.dialect.instant(firstSeenAt) };
            await unit.change(upsert(fields, ['kind', 'position'], { kind, ...row, ...kept }));
          }
          const places = new Set(rows.map(({ position }) => position));
          const shown = [...earlier.filter(({ position }) => !places.has(position)), ...rows]
            .filter(({ column }) => column !== null)
            .sort((one, other) => one.position - other.position);
          for (const statement of unit.dialect.flatView(kind, shown)) await unit.change(statement);
          learned.push(...rows.map((row) => ({ kind, ...row })));
        }
        await writeFact(unit, LOOKED_FACT, String(through));
        return learned;
      }),
  };
}

async function fieldsByKind(from: Sql): Promise<Map<Kind, Field[]>> {
  const rows = await from.query<Omit<Field, 'keys'> & { kind: Kind; keys: unknown }>(
    sql`SELECT kind, position, "column", path, keys, type, first_seen_at AS "firstSeenAt" FROM fields ORDER BY kind, position`,
  );
  return Map.groupBy(
    rows.map((row) => ({ ...row, keys: from.dialect.fromJson(row.keys) as string[] })),
    (row) => row.kind,
  );
}
