import { loadConfig } from '../config.ts';
import { holderOf, type LockHolder, lockFile } from '../store/lock.ts';
import type { Store } from '../store/store.ts';
import type { Cli } from './cli.ts';

/** Loaded when first needed: the engines take half a second, which help and a wrong option should not cost. */
const engines = () => import('../store/open.ts');

/** Opens the configured database for writing; it is made, or migrated, if need be. */
export async function openForWriting(databaseUrl: string): Promise<Store> {
  return await (await engines()).openStore(databaseUrl);
}

/** Runs `work` on the configured store for reading, beside a running service or without one. */
export async function withStore<T>(cli: Cli, work: (store: Store) => Promise<T>): Promise<T> {
  const { databaseUrl } = loadConfig(cli.env);
  const store = await (await engines()).openStore(databaseUrl, { readOnly: true });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Runs `work` on the configured store as its only writer; a UsageError names the service that holds it. */
export async function withLockedStore<T>(cli: Cli, work: (store: Store) => Promise<T>): Promise<T> {
  const { databaseUrl } = loadConfig(cli.env);
  // Opened first, because the lock stands beside a file whose folder has to exist.
  const store = await openForWriting(databaseUrl);
  try {
    const lock = lockFile(await databasePath(databaseUrl), new Date().toISOString());
    try {
      return await work(store);
    } finally {
      lock.release();
    }
  } finally {
    await store.close();
  }
}

/** The SQLite file. */
export async function databasePath(databaseUrl: string): Promise<string> {
  return (await engines()).sqlitePath(databaseUrl);
}

/** The service that holds the configured database, or null. */
export async function holderOfDatabase(databaseUrl: string): Promise<LockHolder | null> {
  return holderOf(await databasePath(databaseUrl));
}
