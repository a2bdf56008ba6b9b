import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { drizzle } from 'drizzle-orm/better-sqlite3';
import { migrate } from 'drizzle-orm/better-sqlite3/migrator';
import { freshPath } from './folder.ts';

const MIGRATIONS = fileURLToPath(new URL('../../drizzle/sqlite', import.meta.url));

/** A database of the version before this one. */
export function olderDatabase(): string {
  const path = freshPath();
  const folder = join(dirname(path), 'migrations');
  cpSync(MIGRATIONS, folder, { recursive: true });
  const journalPath = join(folder, 'meta/_journal.json');
  const journal = JSON.parse(readFileSync(journalPath, 'utf8')) as { entries: unknown[] };
  journal.entries.pop();
  writeFileSync(journalPath, JSON.stringify(journal));
  const db = new Database(path);
  migrate(drizzle(db), { migrationsFolder: folder });
  db.exec("INSERT INTO facts (name, value) VALUES ('fact of old', 'kept')");
  db.close();
  return path;
}
