import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { getTableName, is, Table } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import * as sqlite from '../../src/store/schema.ts';
import { tables as postgres } from './postgres-schema.ts';

const DRIZZLE = fileURLToPath(new URL('../../drizzle/', import.meta.url));

const namesOf = (schema: object) =>
  Object.values(schema)
    .filter((value): value is Table => is(value, Table))
    .map(getTableName)
    .sort();

describe('the two schemas', () => {
  it('have each table that is declared', () => {
    const declared = namesOf(sqlite.tablesOf(sqlite.sqlite));
    expect(namesOf(sqlite)).toEqual(declared);
    expect(namesOf(postgres)).toEqual(declared);
  });

  it('have migrations under the same numbers and names', () => {
    const steps = (engine: string) => {
      const journal = JSON.parse(readFileSync(`${DRIZZLE}${engine}/meta/_journal.json`, 'utf8')) as {
        entries: { idx: number; tag: string }[];
      };
      const files = readdirSync(`${DRIZZLE}${engine}`).filter((file) => file.endsWith('.sql'));
      expect(files.sort()).toEqual(journal.entries.map((entry) => `${entry.tag}.sql`));
      return journal.entries.map((entry) => `${entry.idx} ${entry.tag}`);
    };
    expect(steps('postgres')).toEqual(steps('sqlite'));
  });
});
