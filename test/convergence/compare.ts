import { isDeepStrictEqual } from 'node:util';
import Database from 'better-sqlite3';
import type { Records, Resource } from '../support/independent-upstream-records.ts';

const TABLES = { policies: 'policies', assessments: 'risk_assessments', vendors: 'vendors' } as const;
export const RESOURCES: readonly Resource[] = ['policies', 'assessments', 'vendors'];

export interface Row {
  id: string;
  name: string | null;
  status: string | null;
  version: string | null;
  data: string;
  deleted_at: string | null;
  unverified_since: string | null;
}

export interface Comparison {
  /** One line each; empty: equal and verified. */
  differences: string[];
  compared: number;
  /** Assessments that nothing has ever named to the mirror: its stated limit. */
  undiscoverable: string[];
}

/**
 * The mirror's tables against the upstream, record by record and field by field, from the file itself. `named` tells
 * which assessments anything has told the mirror of.
 */
export function compare(database: string, records: Records, named: ReadonlySet<string>): Comparison {
  const db = new Database(database, { readonly: true });
  try {
    const rows = RESOURCES.map((resource) => [resource, db.prepare(selectRows(resource)).all() as Row[]]);
    return compareRows(Object.fromEntries(rows) as Record<Resource, Row[]>, records, named);
  } finally {
    db.close();
  }
}

/** Every row of a resource's table, its JSON as text on either engine. */
export function selectRows(resource: Resource): string {
  const version = resource === 'policies' ? 'version' : 'NULL AS version';
  return `SELECT id, name, status, ${version}, CAST(data AS text) AS data, deleted_at, unverified_since FROM ${TABLES[resource]}`;
}

export function compareRows(
  tables: Readonly<Record<Resource, readonly Row[]>>,
  records: Records,
  named: ReadonlySet<string>,
): Comparison {
  const differences: string[] = [];
  const undiscoverable: string[] = [];
  let compared = 0;
  for (const resource of RESOURCES) {
    const rows = tables[resource];
    const held = new Map(rows.map((row) => [row.id, row]));
    for (const row of rows) {
      compared += 1;
      const what = `${resource} ${row.id}`;
      if (row.unverified_since !== null)
        differences.push(`${what} is unverified since ${row.unverified_since}`);
      const alive = records.find(resource, row.id) !== null;
      if (alive !== (row.deleted_at === null))
        differences.push(`${what} is ${alive ? 'alive' : 'gone'} upstream`);
    }
    for (const record of records.all(resource)) {
      const row = held.get(record.id);
      if (row === undefined) {
        if (resource === 'assessments' && !named.has(record.id)) undiscoverable.push(record.id);
        else differences.push(`${resource} ${record.id} is missing`);
        continue;
      }
      const { name, status, version: said = null } = record;
      const equal =
        isDeepStrictEqual(JSON.parse(row.data), record) &&
        row.name === name &&
        row.status === status &&
        row.version === said;
      if (!equal) differences.push(`${resource} ${record.id}: ${row.data} is not ${JSON.stringify(record)}`);
    }
  }
  return { differences, compared, undiscoverable };
}

/** How many records of a kind the mirror shows alive. */
export function alive(database: string, resource: Resource): number {
  const db = new Database(database, { readonly: true });
  try {
    return db
      .prepare(`SELECT count(*) FROM ${TABLES[resource]} WHERE deleted_at IS NULL`)
      .pluck()
      .get() as number;
  } finally {
    db.close();
  }
}
