import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import { knownFields, learnFields, noteFields, seenOf } from '../../mirror/flat-columns.ts';
import type { Database, Sql } from '../database.ts';
import { changes, fields } from '../schema.ts';
import { fromJson, json, sql } from '../statement.ts';
import type { Field, FieldLook } from '../values.ts';
import { reading } from './reading.ts';
import { keyOf, TABLE_OF } from './records.ts';
import { columnsOf, readFact, upsert, writeFact } from './sql.ts';

/** Up to this number changes have been searched for fields. */
const LOOKED_FACT = 'fields_looked';

/** How much JSON of changes one step searches, since on PostgreSQL the event loop parses it. A single larger change is searched too. */
const LOOK_BYTES = 262_144;

/** Records whose confirmation is waited for. Fields that only later ones have are found at the next start. */
const MAX_WAITING = 1_000;

/** The typed columns of the views. They are found in the changes, and of records that an event has written once a read has confirmed them. */
export function createFieldVerbs({ sql: statements, transactApart }: Database) {
  return {
    /**
     * Searches up to `limit` changes after `look`, for other fields than the `ignored`. Null: after those from which fields were last
     * learned.
     */
    seeFields: reading(
      async (
        look: FieldLook | null,
        limit: number,
        ignored?: Readonly<Record<Kind, readonly FieldPath[]>>,
      ): Promise<FieldLook> => {
        const from = look?.through ?? Number((await readFact(statements, LOOKED_FACT)) ?? 0);
        type Row = { seq: number; kind: Kind; id: string; data: unknown; at: string; cause: string };
        // After a backup was put back, the counter is lower, and its numbers are given out again: search all changes.
        const behind = sql`CASE WHEN ${from} > (SELECT max(value) FROM counter) THEN 0 ELSE CAST(${from} AS bigint) END`;
        const statement = sql`SELECT seq, kind, record_id AS id, data, at, cause FROM changes WHERE seq > ${behind} ORDER BY seq`;
        const { rows, isFull } = await statements.page<Row>(statement, [changes.data], limit, LOOK_BYTES);
        const waiting = new Map(
          (look?.waiting ?? (await writtenByEvents(statements))).map((record) => [
            keyOf(record.kind, record.id),
            record,
          ]),
        );
        const present = await fieldsByKind(statements);
        const known = new Map(
          KINDS.map((kind) => [kind, knownFields(present.get(kind) ?? [], ignored?.[kind])]),
        );
        const seen = seenOf(look ?? { seen: [], objects: [] });
        const note = ({ data, ...row }: Omit<Row, 'seq' | 'cause'>) =>
          noteFields(seen, known.get(row.kind)!, {
            ...row,
            data: fromJson(data) as JsonObject,
          });
        for (const { cause, ...row } of rows) {
          const key = keyOf(row.kind, row.id);
          waiting.delete(key);
          if (cause === 'event') waiting.set(key, { kind: row.kind, id: row.id });
          else note(row);
        }
        const lasting = [...waiting.values()].slice(-MAX_WAITING);
        const { confirmed, left } = isFull
          ? { confirmed: [], left: lasting }
          : await confirmedOf(statements, lasting);
        confirmed.forEach(note);
        return {
          through: rows.at(-1)?.seq ?? from,
          seen: [...seen.fields.values()],
          objects: [...seen.objects.values()],
          waiting: left,
          isOver: !isFull,
        };
      },
    ),

    /**
     * Returns the new and changed rows of `fields`; `isShown`: the view has them. Rejects with StoreUnavailable while a query locks a view.
     */
    learnFields: ({ through, ...found }: FieldLook): Promise<LearnedField[]> =>
      transactApart(fields, async (unit) => {
        const present = await fieldsByKind(unit);
        const learned: LearnedField[] = [];
        for (const kind of new Set(found.seen.map((each) => each.kind))) {
          const earlier = present.get(kind) ?? [];
          const ofKind = <Each extends { kind: Kind }>(all: readonly Each[]) =>
            all.filter((each) => each.kind === kind);
          const rows = learnFields(
            earlier,
            seenOf({ seen: ofKind(found.seen), objects: ofKind(found.objects) }),
          );
          if (rows.length === 0) continue;
          for (const row of rows) await saveField(unit, kind, row);
          const places = new Set(rows.map(({ position }) => position));
          const all = [...earlier.filter(({ position }) => !places.has(position)), ...rows];
          const isShown = await showColumns(unit, kind, all);
          learned.push(...rows.map((row) => ({ kind, ...row, isShown })));
        }
        await writeFact(unit, LOOKED_FACT, String(through));
        return learned;
      }),

    /** Takes away the columns of the `ignored` fields. Returns how many; null: another view stands on one, and nothing is changed. */
    forgetFields: async (kind: Kind, ignored: readonly FieldPath[]): Promise<number | null> => {
      try {
        return await transactApart(fields, async (unit) => {
          const known = (await fieldsByKind(unit)).get(kind) ?? [];
          const isGone = ({ column, keys }: Field) =>
            column !== null && ignored.some((path) => path.every((key, nth) => keys[nth] === key));
          const count = known.filter(isGone).length;
          if (count === 0) return 0;
          // What comes behind a full set may be learned anew.
          const left = known.filter((field) => field.column !== null && !isGone(field));
          const moved = left.map((field, nth) => ({ ...field, position: nth + 1 }));
          await unit.change(sql`DELETE FROM fields WHERE kind = ${kind}`);
          for (const field of moved) await saveField(unit, kind, field);
          if (!(await showColumns(unit, kind, moved))) throw new InUse();
          return count;
        });
      } catch (error) {
        if (error instanceof InUse) return null;
        throw error;
      }
    },
  };
}

/** Shows what was learned by a role that does not own the views. */
export const showFields = ({ transactApart }: Database): Promise<void> =>
  transactApart(fields, async (unit) => {
    for (const [kind, known] of await fieldsByKind(unit)) await showColumns(unit, kind, known);
  });

type LearnedField = Field & { kind: Kind; isShown: boolean };

/** The keys that lead to a field, or to an object of fields. */
type FieldPath = readonly string[];

/** Rolls the unit back. */
class InUse extends Error {}

async function saveField(unit: Sql, kind: Kind, { keys, firstSeenAt, ...row }: Field): Promise<void> {
  const kept = { keys: json(keys), firstSeenAt: unit.dialect.instant(firstSeenAt) };
  await unit.change(upsert(fields, ['kind', 'position'], { kind, ...row, ...kept }));
}

/** Records that an event has written last. */
const writtenByEvents = (from: Sql): Promise<{ kind: Kind; id: string }[]> =>
  from.query(
    sql`SELECT kind, id FROM (${sql.join(
      KINDS.map(
        (kind) => sql`SELECT ${kind} AS kind, id, change_seq FROM ${TABLE_OF[kind]} WHERE cause = 'event'`,
      ),
      ' UNION ALL ',
    )}) AS written ORDER BY change_seq DESC LIMIT ${MAX_WAITING}`,
  );

/** Which of the records a read has confirmed since; without the API, all. */
async function confirmedOf(from: Sql, waiting: FieldLook['waiting']) {
  const isEventsOnly = (await readFact(from, 'events_only')) === '1';
  const confirmed: { kind: Kind; id: string; data: unknown; at: string }[] = [];
  const left: { kind: Kind; id: string }[] = [];
  for (const [kind, records] of Map.groupBy(waiting, (each) => each.kind)) {
    const ids = records.map(({ id }) => id);
    const isConfirmed = isEventsOnly
      ? sql`true`
      : sql`r.verified_at IS NOT NULL AND r.unverified_since IS NULL`;
    const rows = await from.query<{ id: string; data: unknown; at: string }>(
      sql`SELECT r.id, r.data, r.synced_at AS at FROM ${from.dialect.listed(ids)} JOIN ${TABLE_OF[kind]} r ON r.id = listed.id WHERE ${isConfirmed}`,
    );
    const found = new Set(rows.map(({ id }) => id));
    confirmed.push(...rows.map((row) => ({ kind, ...row })));
    left.push(...records.filter(({ id }) => !found.has(id)));
  }
  return { confirmed, left };
}

const showColumns = (unit: Sql, kind: Kind, known: readonly Field[]): Promise<boolean> =>
  unit.dialect.showFields(
    unit,
    kind,
    known.filter(({ column }) => column !== null).sort((one, other) => one.position - other.position),
  );

async function fieldsByKind(from: Sql): Promise<Map<Kind, Field[]>> {
  const rows = await from.query<Omit<Field, 'keys'> & { kind: Kind; keys: unknown }>(
    sql`SELECT ${columnsOf(fields)} FROM fields ORDER BY kind, position`,
  );
  return Map.groupBy(
    rows.map((row) => ({ ...row, keys: fromJson(row.keys) as string[] })),
    (row) => row.kind,
  );
}
