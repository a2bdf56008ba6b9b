import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import { knownFields, learnFields, noteFields, seenByName } from '../../mirror/flat-columns.ts';
import type { Database, Sql } from '../database.ts';
import { changes, fields } from '../schema.ts';
import type { Field, FieldLook } from '../values.ts';
import { readFact, sql, upsert, writeFact } from './sql.ts';

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
