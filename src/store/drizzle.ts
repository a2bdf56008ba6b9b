import { createRequire } from 'node:module';
import { join } from 'node:path';

/** Its types, for whoever must not load it. */
export type SQL = import('drizzle-orm').SQL;
export type Column = import('drizzle-orm').Column;
export type Table = import('drizzle-orm').Table;
export type SqliteColumn = import('drizzle-orm/sqlite-core').AnySQLiteColumn;

interface Modules {
  'drizzle-orm': typeof import('drizzle-orm');
  'drizzle-orm/better-sqlite3': typeof import('drizzle-orm/better-sqlite3');
  'drizzle-orm/pg-core': typeof import('drizzle-orm/pg-core');
  'drizzle-orm/sqlite-core': typeof import('drizzle-orm/sqlite-core');
}

// The migration tool bundles the schema into CommonJS, where a module has no address; it runs in the project's folder.
const load = createRequire(import.meta.url ?? join(process.cwd(), 'package.json'));

/**
 * drizzle's modules as CommonJS. For each file of an ES module Node looks up its format in the package's package.json, and
 * of drizzle that is 179 kB read anew for a hundred files: half a second of processor time at every start and every
 * command, against less than a tenth.
 */
export function drizzleModule<Name extends keyof Modules>(name: Name): Modules[Name] {
  return load(name) as Modules[Name];
}
