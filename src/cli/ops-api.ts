import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type ApiClient, remoteApi } from '../ops/api/client.ts';
import { OPS_TOKEN_FILE } from '../ops/tokens.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import type { Store } from '../store/store.ts';
import type { Cli } from './cli.ts';
import { databasePath, holderOfDatabase, withStore } from './database.ts';

/** An operators' listener, and a token for it. */
export interface Listener {
  url: string;
  token: string;
}

/**
 * Runs `work` with the operators' API: with OPS_URL, of the service there; to change or compare, of the service that holds the SQLite
 * file, because it is the only writer and owns the request budget; otherwise the same API over the database itself, and `service` is
 * null.
 */
export async function withApi<T>(
  cli: Cli,
  purpose: 'read' | 'change' | 'compare',
  work: (api: ApiClient, service: Listener | null) => Promise<T>,
): Promise<T> {
  const config = loadConfig(cli.env);
  const service = purpose !== 'read' || config.remote !== null ? await runningService(config) : null;
  if (service !== null) return await work(remoteApi(service), service);
  // Loaded only here: help, usage errors and the API of a service need none of it.
  const { apiOver } = await import('./api-over.ts');
  const here = async (store: Store) => await work(await apiOver(store, cli, config), null);
  // Comparing may renew tokens, which are then written.
  const hasTokens = (config.compliance?.auth ?? 'api_key') !== 'api_key';
  if (purpose === 'read' || (purpose === 'compare' && !hasTokens)) return await withStore(cli, 'read', here);
  // Read-only first, which fails if there is no database: opening for writing would make one.
  await withStore(cli, 'read', async () => {});
  return await withStore(cli, 'alone', here);
}

/** The service that OPS_URL names, otherwise the one that holds the database; null: none does. */
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
      'set OPS_TOKENS to what the service was started with; if to nothing, restart it, and it makes that file again',
    );
  }
  return readFileSync(path, 'utf8').trim();
}
