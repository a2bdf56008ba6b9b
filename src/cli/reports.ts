import { loadConfig } from '../platform/config.ts';
import type { Cli } from './cli.ts';
import { withStore } from './database.ts';
import { createOpsClient } from './ops-client.ts';
import { type Reports, remoteReports } from './remote-reports.ts';

export type { Reports };

/** Runs `work` on the configured database, beside a service or without one; with OPS_URL, on that service's. */
export async function withReports<T>(cli: Cli, work: (reports: Reports) => Promise<T>): Promise<T> {
  const { remote } = loadConfig(cli.env);
  if (remote === null) return await withStore(cli, work);
  return await work(remoteReports(createOpsClient({ url: remote.url.href, token: remote.token() })));
}
