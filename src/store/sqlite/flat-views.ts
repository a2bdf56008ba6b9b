import type { Kind } from '../../compliance/kinds.ts';
import type { SQL } from '../drizzle.ts';
import { TABLES } from '../record-rows.ts';
import type { Field } from '../store.ts';
import { sql } from '../units/sql.ts';

/** What every record has; as in the first of these views, which a migration makes. */
const columnsOf = (kind: Kind) =>
  `id, name, ${kind === 'policy' ? 'version, ' : ''}status, data, first_seen_at, synced_at, verified_at, unverified_since, last_event_id, last_event_at, cause`;

/** Makes the view anew. Whoever reads sees the one before, or this one: their statements are prepared again by SQLite itself. */
export function flatView(kind: Kind, fields: readonly Field[]): SQL[] {
  const view = `${TABLES[kind]}_flat`;
  const columns = [columnsOf(kind), ...fields.map((field) => `${expressionOf(field)} AS "${field.column}"`)];
  return [
    sql.raw(`DROP VIEW IF EXISTS ${view}`),
    sql.raw(
      `CREATE VIEW ${view} AS SELECT ${columns.join(',\n  ')}\nFROM ${TABLES[kind]} WHERE deleted_at IS NULL`,
    ),
  ];
}

/** Of a value that has come since and does not fit: null, or as it is; never an error. */
function expressionOf({ keys, type }: Field): string {
  const path = literal(`$${keys.map((key) => `.${JSON.stringify(key)}`).join('')}`);
  const isOf = (...types: string[]) => `json_type(data, ${path}) IN (${types.map(literal).join(', ')})`;
  switch (type) {
    case 'number':
      return `CASE WHEN ${isOf('integer', 'real')} THEN data ->> ${path} END`;
    case 'boolean':
      return `CASE WHEN ${isOf('true', 'false')} THEN data ->> ${path} END`;
    case 'date':
      return `CASE WHEN data ->> ${path} GLOB ${literal(DAY)} THEN date(data ->> ${path}) END`;
    case 'instant':
      // In UTC, as every instant here, so that their order as text is their order in time.
      return `CASE WHEN data ->> ${path} GLOB ${literal(`${DAY}T*`)} THEN strftime('%Y-%m-%dT%H:%M:%fZ', data ->> ${path}) END`;
    case 'text':
      return `CASE WHEN ${isOf('text')} THEN data ->> ${path} ELSE nullif(data -> ${path}, 'null') END`;
    case 'json':
      return `nullif(data -> ${path}, 'null')`;
  }
}

/** Without it SQLite takes `now`, and numbers, for times. */
const DAY = '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]';

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;
