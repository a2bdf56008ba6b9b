import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type ApiClient, remoteApi } from '../ops/api/client.ts';
import { OPS_TOKEN_FILE } from '../ops/tokens.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import type { Store } from '../store/store.ts';
import type { Cli } from './cli.ts';
import { databasePath, holderOfDatabase, withLockedStore, withStore } from './database.ts';

/** An operators' listener, and a token for it. */
export interface Listener {
  url: string;
  token: string;
}

interface Way {
  /** A service that holds the file does it: there is one writer, and it knows at once. Else the file itself will do. */
  isByService: boolean;
  isWriting: (config: Config) => boolean;
}

const WAYS = {
  read: { isByService: false, isWriting: () => false },
  change: { isByService: true, isWriting: () => true },
  // Tokens may have to be renewed, and that is written.
  compare: {
    isByService: true,
    isWriting: ({ compliance }) => (compliance?.auth ?? 'api_key') !== 'api_key',
  },
} satisfies Record<string, Way>;

/**
 * Runs `work` with the operators' API: with OPS_URL that of the service there; to change something, that of the service
 * that holds the file; otherwise the same API over the database itself, whose replicas, where it is PostgreSQL, are
 * told there. `service`: whose it is; null: none was asked.
 */
export async function withApi<T>(
  cli: Cli,
  purpose: keyof typeof WAYS,
  work: (api: ApiClient, service: Listener | null) => Promise<T>,
): Promise<T> {
  const config = loadConfig(cli.env);
  const way: Way = WAYS[purpose];
  const service = way.isByService || config.remote !== null ? await runningService(config) : null;
  if (service !== null) return await work(remoteApi(service), service);
  // Loaded when first needed: help, a wrong option and a service elsewhere should not cost it.
  const { apiOver } = await import('./api-over.ts');
  const here = async (store: Store) => await work(await apiOver(store, cli, config), null);
  if (!way.isWriting(config)) return await withStore(cli, here);
  // A database that is not there would be made by opening it for writing; looking first says so instead.
  await withStore(cli, async () => {});
  return await withLockedStore(cli, here);
}

/** The service that OPS_URL names, or else the one that holds the database; null: none does. */
export async function runningService(config: Config): Promise<Listener | null> {
  if (config.remote !== null) return { url: config.remote.url.href, token: config.remote.token() };
  const holder = await holderOfDatabase(config.databaseUrl);
  if (holder === null) return null;
  if (holder.opsUrl === null) {
    throw new MirrorError('starting', `process ${holder.pid} holds the database and is not listening yet`, {
      retryable: true,
      remedy: 'try again in a moment',
    });
  }
  return { url: holder.opsUrl, token: await operateToken(config) };
}

async function operateToken(config: Config): Promise<string> {
  const configured = config.ops.tokens.find((token) => token.role === 'operate');
  if (configured !== undefined) return configured.token;
  if (config.ops.tokens.length > 0) {
    throw new UsageError('OPS_TOKENS holds no token with the role "operate"', 'changes need one');
  }
  const path = join(dirname((await databasePath(config.databaseUrl)) ?? ''), OPS_TOKEN_FILE);
  if (!existsSync(path)) {
    throw new UsageError(
      `there is no operators' token: OPS_TOKENS is not set, and ${path} does not exist`,
      'set OPS_TOKENS to what the service was started with',
    );
  }
  return readFileSync(path, 'utf8').trim();
}
