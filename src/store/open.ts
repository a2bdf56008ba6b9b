import { UsageError } from '../errors.ts';
import { openSqlite } from './sqlite/sqlite.ts';
import type { Store } from './store.ts';

/** Opens the store that `DATABASE_URL` names. Rejects with UsageError for an address that no engine takes. */
export async function openStore(url: string, options: { readOnly?: boolean } = {}): Promise<Store> {
  return openSqlite({ path: sqlitePath(url), readOnly: options.readOnly ?? false });
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
