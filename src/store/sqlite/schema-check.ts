import { StoreUnavailable } from '../../platform/errors.ts';
import { type Connection, connect, migrateSchema } from './connection.ts';

/** Tables, indexes, views and triggers of the schema; made out once. */
let parts: readonly string[] | null = null;

/**
 * Throws where some of the schema is not there, as after a repair of the file that saved the rest: each verb would find out for
 * itself, and only when its turn comes.
 */
export function assertWhole(db: Connection): void {
  parts ??= partsOfNew();
  const there = new Set(partsOf(db));
  const missing = parts.filter((part) => !there.has(part));
  if (missing.length === 0) return;
  throw new StoreUnavailable(`the database lacks ${missing.join(', ')}`, {
    fatal: true,
    remedy: 'another program has changed the file, or repaired it in part: restore a backup',
  });
}

function partsOfNew(): string[] {
  const db = connect(':memory:', { readOnly: false });
  try {
    migrateSchema(db);
    return partsOf(db);
  } finally {
    db.close();
  }
}

const partsOf = (db: Connection): string[] =>
  db
    .prepare("SELECT type || ' ' || name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    .pluck()
    .all() as string[];
