import { createRequire } from 'node:module';
import { join } from 'node:path';

// Only types, so that drizzle is not loaded for them.
export type SQL = import('drizzle-orm').SQL;
export type Column = import('drizzle-orm').Column;
export type Table = import('drizzle-orm').Table;
export type SqliteColumn = import('drizzle-orm/sqlite-core').AnySQLiteColumn;

interface Modules {
  'drizzle-orm': typeof import('drizzle-orm');
  'drizzle-orm/pg-core': typeof import('drizzle-orm/pg-core');
  'drizzle-orm/sqlite-core': typeof import('drizzle-orm/sqlite-core');
}

// The migration tool bundles the schema into CommonJS, where a module has no address; it runs in the project's folder.
const load = createRequire(import.meta.url ?? join(process.cwd(), 'package.json'));

/**
 * Loads drizzle's modules as CommonJS, in less than 0.1 s of processor time. As ES modules they take 0.5 s at every start and command:
 * for each of a hundred files Node reads drizzle's package.json again, which has 179 kB.
 */
export function drizzleModule<Name extends keyof Modules>(name: Name): Modules[Name] {
  return load(name) as Modules[Name];
}

// Taken out once: on the module each name is a getter that calls another getter.
const { Column, Name, Param, SQL, StringChunk, Table, sql } = drizzleModule('drizzle-orm');

type Dialect = Record<'sqlToQuery', (statement: SQL) => { sql: string; params: unknown[] }>;

export interface Written {
  text: string;
  params: unknown[];
}

/**
 * Writes statements as drizzle does for the dialect, but faster: drizzle takes 70 µs for one of our statements, more than most take to
 * run, because it compares each part with a dozen types. Nearly all parts of ours are texts, names or values, and those are written
 * here. Drizzle writes each name once, and each statement that has another part.
 */
export function createWriter(
  dialect: Dialect,
  placeholder: (position: number) => string,
): (statement: SQL) => Written {
  const names = new Map<unknown, string>();

  function nameOf(key: unknown, part: unknown): string {
    let name = names.get(key);
    if (name === undefined) {
      name = dialect.sqlToQuery(sql`${part}`).sql;
      names.set(key, name);
    }
    return name;
  }

  /** False: one of the parts is neither text, name nor value. */
  function write(parts: readonly unknown[], to: Written): boolean {
    for (const part of parts) {
      if (part === undefined) continue;
      if (part instanceof StringChunk) to.text += part.value.join('');
      else if (part instanceof SQL) {
        if (!write(part.queryChunks, to)) return false;
      } else if (part instanceof Column || part instanceof Table) to.text += nameOf(part, part);
      else if (part instanceof Name) to.text += nameOf(part.value, part);
      else if (part instanceof Param) add(part.value, to);
      else if (typeof part !== 'object' || part === null || part instanceof Uint8Array) add(part, to);
      else return false;
    }
    return true;
  }

  function add(value: unknown, to: Written): void {
    to.params.push(value);
    to.text += placeholder(to.params.length);
  }

  return (statement) => {
    const written: Written = { text: '', params: [] };
    if (write(statement.queryChunks, written)) return written;
    const { sql: text, params } = dialect.sqlToQuery(statement);
    return { text, params };
  };
}
