import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { describeError, MirrorError, StoreUnavailable } from '../../platform/errors.ts';
import type { Store } from '../store.ts';
import { backUpSqlite } from './backup.ts';
import { connect, guarded, schemaAge } from './connection.ts';
import { openSqlite } from './sqlite.ts';

export interface OpeningOptions {
  /** Told before an older schema is backed up and migrated, which may take long. */
  onMigrating?: () => void;
  /** Told where the database was backed up before it was migrated. */
  onBackup?: (path: string) => void;
}

/** The store in the file at `path`, or `:memory:`. An older schema is backed up beside the file and migrated; a failure leaves it as it was. */
export async function openMigrated(path: string, options: OpeningOptions = {}): Promise<Store> {
  const backup = await backUpBeforeMigrating(path, new Date(), options.onMigrating);
  if (backup !== null) options.onBackup?.(backup);
  try {
    return openSqlite({ path });
  } catch (error) {
    throw backup === null ? error : namingBackup(error, backup);
  }
}

function namingBackup(error: unknown, backup: string): unknown {
  if (!(error instanceof MirrorError)) return error;
  const remedy = `${error.remedy === undefined ? '' : `${error.remedy}; `}what it was before the migration is in ${backup}`;
  return error instanceof StoreUnavailable
    ? new StoreUnavailable(error.message, { fatal: error.fatal, remedy, cause: error })
    : new MirrorError(error.code, error.message, { retryable: error.retryable, remedy, cause: error });
}

/**
 * Backups of this many schema versions are kept, the newest of each: enough to go back over a few upgrades, and a
 * bound on the disk they take. By version and not by time, so that a migration that fails at every restart cannot
 * push out what an earlier one left.
 */
const SCHEMAS_KEPT = 3;

/**
 * Copies the database at `path` beside itself if this version is about to migrate it. Returns the copy's path, or
 * null: there is nothing to migrate. Rejects rather than let a migration begin without one.
 */
async function backUpBeforeMigrating(
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

/** How many steps the schema there has; null if this version adds none. */
function schemaToMigrate(path: string): number | null {
  // For writing: a file whose making was cut short must be rolled back first, and reading alone may not do that.
  const db = connect(path, { readOnly: false });
  try {
    const { steps, isOlder } = guarded(() => schemaAge(db));
    return isOlder ? steps : null;
  } finally {
    db.close();
  }
}

/**
 * Which of `names` to remove: backups before migrations of `database` that a newer one of the same schema
 * replaces, those of the oldest schemas beyond what is kept, and what killed attempts left. Pure.
 */
export function superseded(names: readonly string[], database: string, newest: string): string[] {
  const backups = names.flatMap((name) => {
    if (!name.startsWith(`${database}.schema-`)) return [];
    const match = /^(\d+)\.(\d{8}T\d{6}Z)\.bak(\.partial-\d.*)?$/.exec(
      name.slice(`${database}.schema-`.length),
    );
    if (match === null) return [];
    return [{ name, schema: Number(match[1]), at: match[2] ?? '', isPartial: match[3] !== undefined }];
  });
  const whole = backups.filter((backup) => !backup.isPartial);
  const kept = new Set([newest]);
  const schemas = [...new Set(whole.map((backup) => backup.schema))].sort((a, b) => b - a);
  for (const schema of schemas.slice(0, SCHEMAS_KEPT)) {
    const ofSchema = whole
      .filter((backup) => backup.schema === schema)
      .sort((a, b) => (a.at < b.at ? 1 : -1));
    const hasNewest = ofSchema.some((backup) => backup.name === newest);
    if (!hasNewest && ofSchema[0] !== undefined) kept.add(ofSchema[0].name);
  }
  return backups.filter((backup) => !kept.has(backup.name)).map((backup) => backup.name);
}
