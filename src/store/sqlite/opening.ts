import { MirrorError, StoreUnavailable } from '../../platform/errors.ts';
import type { Store } from '../store.ts';
import { backUpBeforeMigrating } from './migration-backup.ts';
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
