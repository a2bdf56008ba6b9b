import { Command } from 'commander';
import { answered, remoteApi } from '../ops/api/client.ts';
import type { Status } from '../ops/api/schemas.ts';
import { assessmentSyncWords } from '../ops/status-report.ts';
import { bytes } from '../ops/words.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { MirrorError } from '../platform/errors.ts';
import { type Cli, writeJson, writeRows } from './cli.ts';
import { holderOfDatabase, livingReplicas, withStore } from './database.ts';
import { DifferenceFound, explain } from './exit.ts';
import { runningService, withApi } from './ops-api.ts';
import { jsonOption } from './options.ts';
import { pauseWords } from './progress.ts';
import { type Cell, renderPairs } from './table.ts';
import { printable } from './text.ts';

export function statusCommand(cli: Cli): Command {
  return new Command('status')
    .description('how far the mirror can be trusted, kind by kind')
    .option('--check', 'exit with 3 unless the mirror is in sync, for scripts')
    .addOption(jsonOption())
    .action(async (options: { json?: true; check?: true }) => {
      const config = loadConfig(cli.env);
      const { remote } = config;
      const served = await statusOfService(cli, config);
      const status = served ?? (await withApi(cli, 'read', (api) => answered(api.status.$get())));
      if (status.kinds === null) {
        const what = `the service cannot read its database: ${status.sentence}`;
        throw new MirrorError('store_unavailable', what, { remedy: 'its log says more' });
      }
      const holder = remote === null ? await holderOfDatabase(config.databaseUrl) : null;
      const isServed = remote !== null || holder !== null;
      const replicas = isServed ? 0 : await withStore(cli, 'read', livingReplicas);
      const address = remote?.url.href ?? holder?.opsUrl ?? null;
      if (options.json) {
        const { pid = null, startedAt = null } = holder ?? {};
        const { verdict = null, sentence = null, remedy = null, since = null } = served ?? {};
        const started_at = served?.service.started_at ?? startedAt;
        const service = { pid, ops_url: address, started_at, verdict, sentence, remedy, since };
        writeJson(cli.out, { service: isServed ? service : null, ...summaryOf(status) });
      } else {
        const where =
          remote === null
            ? `Service running: process ${holder?.pid}, operators' page at ${address ?? 'an address not known yet'}`
            : `Service at ${address}`;
        const others = replicas === 0 ? '' : `Services running on this database: ${replicas}\n`;
        cli.out.write(isServed ? `${where}\n${sentenceOf(served)}\n` : `${others}${sentenceOf(status)}\n`);
        writeSummary(cli, status);
      }
      if (!options.check) return;
      assertInSync(status);
      // The tables show only after a minute that no service runs.
      if (!isServed && replicas === 0) {
        throw new DifferenceFound(
          'no service is running on this database',
          'start it with "serve" (npm start)',
        );
      }
    });
}

/** The service's own answer. Null: no service runs, or the one on this machine does not answer; then it says why. */
async function statusOfService(cli: Cli, config: Config): Promise<Status | null> {
  try {
    const service = await runningService(config);
    return service === null ? null : await answered(remoteApi(service).status.$get());
  } catch (error) {
    if (config.remote !== null || !(error instanceof MirrorError)) throw error;
    cli.err.write(explain(error));
    return null;
  }
}

/** Flat, for scripts. */
function summaryOf(status: Status) {
  return {
    kinds: status.kinds ?? [],
    events: status.events ?? { pending: 0, processed: 0, ignored: 0, failed: 0, discarded: 0 },
    oldest_pending_at: status.backlog?.oldest_at ?? null,
    last_delivery_at: status.last_delivery_at,
    quarantined: status.quarantined ?? 0,
    open_gaps: status.gaps?.open ?? 0,
    open_gaps_by: status.gaps?.by ?? [],
    learned_pointers: status.learned_pointers ?? [],
    resolved_gaps_last_day: status.gaps?.resolved_last_day ?? 0,
    database_bytes: status.database?.bytes ?? 0,
    wal_bytes: status.database?.wal_bytes ?? 0,
  };
}

/** @throws DifferenceFound, which exits with 3. */
function assertInSync({ kinds, verdict, sentence }: Status): void {
  const others = (kinds ?? []).filter(({ verdict }) => verdict !== 'in_sync');
  // The verdict of a kind may be a moment older than the service's own.
  if (others.length === 0 && verdict === 'in_sync') return;
  if (others.length === 0) throw new DifferenceFound(`not in sync: ${sentence}`, 'see "doctor"');
  const named = others.map(({ kind, verdict }) => `${kind}: ${verdict}`).join(', ');
  throw new DifferenceFound(`not in sync: ${named}`, 'see "gaps list --open" and "doctor"');
}

function sentenceOf(served: Status | null): string {
  if (served === null) return '';
  const { sentence, remedy, since } = served;
  return `${printable(sentence)}${since === null ? '' : ` Since ${since}.`}\n${remedy === null ? '' : `What to do: ${printable(remedy)}\n`}`;
}

function writeSummary(cli: Cli, status: Status): void {
  const summary = summaryOf(status);
  writeRows(cli.out, summary.kinds, [
    'kind',
    'verdict',
    'records',
    'verified',
    ['GAPS', 'open_gaps'],
    'complete_through',
    'in_sync_since',
    'last_full_sync_at',
    'coverage',
  ]);
  const { pending, processed, ignored, failed, discarded } = summary.events;
  const events = `${pending} pending, ${processed} processed, ${ignored} ignored, ${failed} failed, ${discarded} discarded`;
  const { waits_until: until } = status.upstream;
  const waits = until && pauseWords(until);
  const learned = summary.learned_pointers.map(({ kind, path, setting }): [string, string] => [
    `ids of ${kind}`,
    `found at ${printable(path)}, where no setting looks: set ${printable(setting)}`,
  ]);
  const pairs: [string, Cell][] = [
    ['events', events],
    ...(status.upstream.configured
      ? [['reading assessments', assessmentSyncWords(status.assessment_sync)] as [string, string]]
      : []),
    ['oldest pending', summary.oldest_pending_at],
    ['last delivery', summary.last_delivery_at],
    ...(waits === null ? [] : [['compliance service', waits] as [string, string]]),
    ['quarantined', summary.quarantined],
    ['open gaps', summary.open_gaps],
    ...learned,
    [
      'database',
      // PostgreSQL has one log for all its databases.
      `${bytes(summary.database_bytes)}${summary.wal_bytes > 0 ? `, and ${bytes(summary.wal_bytes)} in its log` : ''}`,
    ],
  ];
  cli.out.write(`\n${renderPairs(pairs)}`);
}
