import { MirrorError, StoreUnavailable, UsageError } from '../errors.ts';
import { type BackupOptions, type BackupResult, backUpSqlite } from './sqlite/backup.ts';
import { backUpBeforeMigrating } from './sqlite/migration-backup.ts';
import { openSqlite } from './sqlite/sqlite.ts';
import type { Store } from './store.ts';

export interface OpenOptions {
  readOnly?: boolean;
  /** Told before an older schema is backed up and migrated, which may take long. */
  onMigrating?: () => void;
  /** Told where the database was backed up before it was migrated. */
  onBackup?: (path: string) => void;
}

/**
 * Opens the store that `DATABASE_URL` names. One with an older schema is backed up beside itself and migrated; if that
 * fails it is as it was. Rejects with UsageError for an address that no engine takes.
 */
export async function openStore(url: string, options: OpenOptions = {}): Promise<Store> {
  const path = sqlitePath(url);
  if (options.readOnly === true) return openSqlite({ path, readOnly: true });
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
  const hint = `${error.hint === undefined ? '' : `${error.hint}; `}what it was before the migration is in ${backup}`;
  return error instanceof StoreUnavailable
    ? new StoreUnavailable(error.message, { fatal: error.fatal, hint, cause: error })
    : new MirrorError(error.code, error.message, { retryable: error.retryable, hint, cause: error });
}

/** Backs up the store that `url` names, also while a service uses it. Rejects as `backUpSqlite` does. */
export async function backUpStore(url: string, options: Omit<BackupOptions, 'from'>): Promise<BackupResult> {
  const path = sqlitePath(url);
  if (path === ':memory:') {
    throw new UsageError('DATABASE_URL names a database in memory', 'name the file to back up');
  }
  return await backUpSqlite({ ...options, from: path });
}

/** The file that a `file:` address names: `file:./data/mirror.db` is relative to the working directory. */
export function sqlitePath(url: string): string {
  if (url === ':memory:' || url === 'file::memory:') return ':memory:';
  if (url.startsWith('file://')) return decodeURIComponent(new URL(url).pathname);
  // No path would be a temporary database, gone at the end.
  if (url.startsWith('file:') && url !== 'file:') return url.slice('file:'.length);
  if (/^postgres(ql)?:\/\//.test(url)) {
    throw new UsageError('DATABASE_URL: this version stores in SQLite only', 'use file:./data/mirror.db');
  }
  throw new UsageError('DATABASE_URL must be file:PATH', 'for example file:./data/mirror.db');
}
