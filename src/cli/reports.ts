import { loadConfig } from '../config.ts';
import type { ReportStore } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { withStore } from './database.ts';
import { createOpsClient } from './ops-client.ts';
import { remoteReports } from './remote-reports.ts';

/** What commands read with: all of it can be had from the database and through an operators' listener alike. */
export type Reports = Pick<
  ReportStore,
  | 'summary'
  | 'listEvents'
  | 'showEvent'
  | 'listRecords'
  | 'showRecord'
  | 'recordHistory'
  | 'listChanges'
  | 'trimmedChanges'
  | 'listGaps'
  | 'listSyncRuns'
  | 'showSyncRun'
  | 'listQuarantine'
  | 'showQuarantined'
  | 'listRejections'
  | 'showRejection'
  | 'listAudit'
>;

/** Runs `work` on the configured database, beside a service or without one; with OPS_URL, on that service's. */
export async function withReports<T>(cli: Cli, work: (reports: Reports) => Promise<T>): Promise<T> {
  const { remote } = loadConfig(cli.env);
  if (remote === null) return await withStore(cli, work);
  return await work(remoteReports(createOpsClient({ url: remote.url.href, token: remote.token() })));
}
