import { describeError, MirrorError, StoreUnavailable } from '../../platform/errors.ts';
import { type Steps, stepsOf, type TakenStep } from '../migrations.ts';
import { backUpSqlite } from './backup.ts';
import { type Connection, connect, guarded, sizeOf } from './connection.ts';

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

/**
 * Copies the database at `path` into a file beside it, if this version is about to migrate it, and returns the copy's path. Null:
 * there is nothing to migrate. One of the same schema is replaced. Rejects if the copy fails, so that no migration begins without one.
 */
export async function backUpBeforeMigrating(path: string, onMigrating = () => {}): Promise<string | null> {
  if (path === ':memory:' || sizeOf(path) === 0) return null;
  const schema = schemaToMigrate(path);
  if (schema === null) return null;
  onMigrating();
  const to = `${path}.schema-${schema}.bak`;
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
