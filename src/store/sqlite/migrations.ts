import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { describeError, MirrorError, StoreUnavailable } from '../../platform/errors.ts';
import { type Steps, stepsOf, type TakenStep } from '../migrations.ts';
import { backUpSqlite } from './backup.ts';
import { type Connection, connect, guarded } from './connection.ts';

/** Throws UsageError for a schema that this version cannot migrate. */
export function schemaSteps(db: Connection): Steps {
  const has = db.prepare('SELECT 1 FROM sqlite_master WHERE name = ?');
  const notes =
    has.get('__drizzle_migrations') === undefined
      ? []
      : db
          .prepare(
            'SELECT hash, CAST(created_at AS INTEGER) AS created_at FROM __drizzle_migrations ORDER BY created_at',
          )
          .all();
  return stepsOf('sqlite', notes as TakenStep[], has.get('record_state') !== undefined, {
    anothers: "the file is another program's database",
    backup: 'backup',
    useOwn: 'let DATABASE_URL name a file of its own',
    useNew: 'let DATABASE_URL name a new file',
  });
}

/** Brings the schema up to this version, in one transaction. Throws as `schemaSteps` does. */
export function migrateSchema(db: Connection): void {
  const { taken, missing } = schemaSteps(db);
  if (missing.length === 0) return;
  // Not by drizzle's migrator: if SQLite has rolled back already, as on a full disk, that reports only that its ROLLBACK failed.
  const takeSteps = db.transaction(() => {
    for (const statement of missing) db.exec(statement);
  });
  try {
    guarded(takeSteps.immediate);
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error;
    const reason = describeError(error);
    throw new MirrorError('migration_failed', `the schema could not be migrated: ${reason}`, {
      cause: error,
      remedy:
        taken === 0 && /already exists/.test(reason)
          ? 'nothing was changed; let DATABASE_URL name a file of its own'
          : 'nothing was changed; free disk space or restore a backup, then start again',
    });
  }
}

/** Tables, indexes, views and triggers of the schema, as a new database has them. */
let parts: readonly string[] | null = null;

/** Throws if a part of the schema is missing, for example after a repair of the file. Otherwise single verbs would fail later. */
export function assertWhole(db: Connection): void {
  parts ??= partsOfNew();
  const there = new Set(partsOf(db));
  const missing = parts.filter((part) => !there.has(part));
  if (missing.length === 0) return;
  throw new StoreUnavailable(`the database lacks ${missing.join(', ')}`, {
    fatal: true,
    remedy: 'another program has changed the file, or repaired only a part of it: restore a backup',
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

/** For this many schemas the newest backup is kept. Not the newest backups of all: a migration that fails at every start makes many. */
const SCHEMAS_KEPT = 3;

/**
 * Copies the database at `path` into a file beside it, if this version is about to migrate it, and returns the copy's path. Null:
 * there is nothing to migrate. Rejects if the copy fails, so that no migration begins without one.
 */
export async function backUpBeforeMigrating(
  path: string,
  now: Date,
  onMigrating: () => void = () => undefined,
): Promise<string | null> {
  if (path === ':memory:' || !existsSync(path) || statSync(path).size === 0) return null;
  const schema = schemaToMigrate(path);
  if (schema === null) return null;
  onMigrating();
  const to = `${path}.schema-${schema}.${now.toISOString().replace(/[-:]|\.\d+/g, '')}.bak`;
  try {
    await backUpSqlite({ from: path, to, force: true });
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error;
    throw new MirrorError(
      'backup_failed',
      `not migrated, since no backup could be made: ${describeError(error)}`,
      {
        remedy: `nothing was changed; free space in the folder of ${path}, and see that it can be written to`,
        cause: error,
      },
    );
  }
  for (const old of superseded(readdirSync(dirname(resolve(path))), basename(path), basename(to))) {
    rmSync(join(dirname(resolve(path)), old), { force: true });
  }
  return to;
}

/** How many steps the file's schema has; null if there is nothing to migrate. */
function schemaToMigrate(path: string): number | null {
  // Opened for writing, because an interrupted transaction must be rolled back first.
  const db = connect(path, { readOnly: false });
  try {
    const { taken, missing } = guarded(() => schemaSteps(db));
    return taken > 0 && missing.length > 0 ? taken : null;
  } finally {
    db.close();
  }
}

/**
 * Which of `names` to remove: backups of `database` made before migrations, if there is a newer one of the same schema or the schema is
 * too old to keep, and files that killed attempts left. Pure.
 */
export function superseded(names: readonly string[], database: string, newest: string): string[] {
  const backups = names.flatMap((name) => {
    if (!name.startsWith(`${database}.schema-`)) return [];
    const match = /^(\d+)\.\d{8}T\d{6}Z\.bak(\.partial-\d.*)?$/.exec(
      name.slice(`${database}.schema-`.length),
    );
    if (match === null) return [];
    return [{ name, schema: Number(match[1]), isPartial: match[2] !== undefined }];
  });
  const whole = backups.filter(({ isPartial }) => !isPartial);
  const bySchema = Map.groupBy(whole, ({ schema }) => schema);
  const kept = new Set([newest]);
  for (const schema of [...bySchema.keys()].sort((a, b) => b - a).slice(0, SCHEMAS_KEPT)) {
    const ofSchema = bySchema.get(schema)!.map(({ name }) => name);
    // They differ only in their instants, so their order as text is their order in time.
    if (!ofSchema.includes(newest)) kept.add(ofSchema.sort().at(-1)!);
  }
  return backups.flatMap(({ name }) => (kept.has(name) ? [] : [name]));
}
