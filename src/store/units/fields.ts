import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import {
  type KnownFields,
  knownFields,
  learnFields,
  noteFields,
  seenByName,
} from '../../mirror/flat-columns.ts';
import type { Database, Sql } from '../database.ts';
import { changes, fields } from '../schema.ts';
import type { Field, FieldLook } from '../values.ts';
import { readFact, sql, upsert, writeFact } from './sql.ts';

/** The fact that says up to which number changes have been searched for fields. */
const LOOKED_FACT = 'fields_looked';

/** Changes searched together, since on PostgreSQL the event loop parses their JSON. A single larger one is searched too. */
const LOOK_BYTES = 262_144;

/** The typed columns of the views `…_flat`: changes hold every field that a record ever had, in the order of commits. */
export function createFieldVerbs({ sql: statements, transactApart }: Database) {
  return {
    /** Looks at up to `limit` changes after `look`. Null: after the last look that was learned. */
    async seeFields(look: FieldLook | null, limit: number): Promise<FieldLook> {
      const from = look?.through ?? Number((await readFact(statements, LOOKED_FACT)) ?? 0);
      type Row = { seq: number; kind: Kind; id: string; after: unknown; at: string };
      // After a backup was put back, numbers are given out again.
      const behind = sql`CASE WHEN ${from} > (SELECT value FROM counter) THEN 0 ELSE CAST(${from} AS bigint) END`;
      const statement = sql`SELECT seq, kind, record_id AS id, after, at FROM changes WHERE seq > ${behind} ORDER BY seq`;
      const { rows, isFull } = await statements.page<Row>(statement, [changes.after], limit, LOOK_BYTES);
      const last = rows.at(-1);
      if (last === undefined) return { through: from, seen: look?.seen ?? [], isOver: true };
      const known = knownByKind(await fieldsByKind(statements));
      const seen = seenByName(look?.seen ?? []);
      for (const row of rows) {
        const { data } = statements.dialect.fromJson(row.after) as { data?: JsonObject };
        if (data !== undefined) noteFields(seen, known(row.kind), { ...row, data });
      }
      return { through: last.seq, seen: [...seen.values()], isOver: !isFull };
    },

    /** Returns the rows of `fields` that are new or have another column. Rejects with StoreUnavailable while a query blocks a view. */
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

function knownByKind(byKind: Map<Kind, Field[]>) {
  const known = new Map<Kind, KnownFields>();
  return (kind: Kind) => {
    const types = known.get(kind) ?? knownFields(byKind.get(kind) ?? []);
    known.set(kind, types);
    return types;
  };
}
