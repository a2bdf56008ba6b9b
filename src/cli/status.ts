import { Command } from 'commander';
import { pointersToSet } from '../compliance/pointers.ts';
import { type Cycle, cycleOf, cycleWords } from '../ops/cycle.ts';
import { bytes } from '../ops/words.ts';
import { loadConfig } from '../platform/config.ts';
import { MirrorError } from '../platform/errors.ts';
import type { StoreSummary } from '../store/reports.ts';
import { type Cli, writeJson, writeTable } from './cli.ts';
import { databasePath, holderOfDatabase, withStore } from './database.ts';
import { DifferenceFound } from './exit.ts';
import { clockOf } from './local-clock.ts';
import { livingReplicas, runningService } from './operator.ts';
import { jsonOption } from './options.ts';
import { type Reports, withReports } from './reports.ts';
import { renderPairs } from './table.ts';
import { printable } from './text.ts';

export function statusCommand(cli: Cli): Command {
  return new Command('status')
    .description('how far the mirror can be trusted, kind by kind')
    .option('--check', 'exit with 3 unless every kind is in sync, for scripts')
    .addOption(jsonOption())
    .action((options: { json?: true; check?: true }) =>
      withReports(cli, async (reports) => {
        const summary = await reports.summary();
        await show(reports, summary, options);
        if (options.check) assertInSync(summary);
      }),
    );

  async function show(reports: Reports, summary: StoreSummary, options: { json?: true }): Promise<void> {
    const { remote, databaseUrl } = loadConfig(cli.env);
    if (remote !== null) {
      const verdict = await verdictOf(cli);
      if (options.json) {
        writeJson(cli.out, { service: { ops_url: remote.url.href, ...verdict }, ...summary });
      } else {
        cli.out.write(`Service at ${remote.url.href}\n${sentenceOf(verdict)}\n`);
        writeSummary(cli, summary, await cycle(reports, summary, true));
      }
      return;
    }
    const holder = await holderOfDatabase(databaseUrl);
    const verdict = holder && (await verdictOf(cli));
    if (options.json) {
      const { pid, opsUrl, startedAt } = holder ?? {};
      const service = holder && { pid, ops_url: opsUrl, started_at: startedAt, ...verdict };
      writeJson(cli.out, { service, ...summary });
      return;
    }
    cli.out.write(
      holder
        ? `Service running: process ${holder.pid}, operators' page at ${holder.opsUrl ?? 'an address not known yet'}\n${sentenceOf(verdict)}\n`
        : await othersRunning(cli, databaseUrl),
    );
    writeSummary(cli, summary, await cycle(reports, summary, holder !== null));
  }
}

/** Throws DifferenceFound, which exits with 3. */
function assertInSync({ kinds }: StoreSummary): void {
  const others = kinds.filter(({ verdict }) => verdict !== 'in_sync');
  if (others.length === 0) return;
  const named = others.map(({ kind, verdict }) => `${kind}: ${verdict}`).join(', ');
  throw new DifferenceFound(`not in sync: ${named}`, 'see "gaps list --open" and "doctor"');
}

interface Verdict {
  verdict: string;
  sentence: string;
  remedy: string | null;
  since: string | null;
}

/** As the page says it. Null: the service beside us cannot be asked, and the tables must do. */
async function verdictOf(cli: Cli): Promise<Verdict | null> {
  const config = loadConfig(cli.env);
  try {
    const service = await runningService(config);
    if (service === null) return null;
    const { verdict, sentence, remedy, since } = (await service.get('/api/status')) as Verdict;
    return { verdict, sentence, remedy, since };
  } catch (error) {
    if (config.remote === null && error instanceof MirrorError) return null;
    throw error;
  }
}

function sentenceOf(verdict: Verdict | null): string {
  if (verdict === null) return '';
  const { sentence, remedy, since } = verdict;
  return `${printable(sentence)}${since === null ? '' : ` Since ${since}.`}\n${remedy === null ? '' : `What to do: ${printable(remedy)}\n`}`;
}

/** Of a PostgreSQL database, which several services may share. */
async function othersRunning(cli: Cli, databaseUrl: string): Promise<string> {
  const none = 'No service is running on this database.\n\n';
  if ((await databasePath(databaseUrl)) !== null) return none;
  return await withStore(cli, async (store) => {
    const living = await livingReplicas(store, await clockOf(store));
    return living === 0 ? none : `Services running on this database: ${living}\n\n`;
  });
}

/** Sync runs that may be newer than a cycle under way. */
const NEWEST_SYNC_RUNS = 50;

/** From the database, so that it is told beside a service and without one; without one, none is under way. */
async function cycle(reports: Reports, summary: StoreSummary, isServed: boolean): Promise<Cycle> {
  const held = summary.kinds.find(({ kind }) => kind === 'risk_assessment');
  const last = held?.last_full_sync_seconds ?? null;
  const syncRuns = isServed ? await reports.listSyncRuns({ limit: NEWEST_SYNC_RUNS }) : [];
  const running = syncRuns.find(
    (fullSync) => fullSync.kind === 'risk_assessment' && fullSync.finished_at === null,
  );
  if (running === undefined) return cycleOf(last, null, 0);
  const { started_at, seen } = running;
  const total = held?.known ?? null;
  return cycleOf(last, { startedAt: Date.parse(started_at), seen, total }, Date.now());
}

function writeSummary(cli: Cli, summary: StoreSummary, cycle: Cycle): void {
  writeTable(
    cli.out,
    [
      ...['KIND', 'VERDICT', 'IN SYNC SINCE', 'RECORDS', 'UNVERIFIED'],
      ...['LAST FULL SYNC', 'COMPLETE THROUGH', 'OPEN GAPS', 'COVERAGE'],
    ],
    summary.kinds.map((kind) => [
      kind.kind,
      kind.verdict,
      kind.in_sync_since,
      kind.records,
      kind.records - kind.verified,
      kind.last_full_sync_at,
      kind.complete_through,
      kind.open_gaps,
      kind.coverage,
    ]),
  );
  const { pending, processed, ignored, failed, discarded } = summary.events;
  cli.out.write('\n');
  cli.out.write(
    renderPairs([
      [
        'events',
        `${pending} pending, ${processed} processed, ${ignored} ignored, ${failed} failed, ${discarded} discarded`,
      ],
      ['assessments’ cycle', cycleWords(cycle)],
      ['oldest pending', summary.oldest_pending_at],
      ['last delivery', summary.last_delivery_at],
      ['quarantined', summary.quarantined],
      ['open gaps', summary.open_gaps],
      ...pointersToSet(summary.learned_pointers, loadConfig(cli.env).idPointers).map(
        ({ kind, path, setting }): [string, string] => [
          `ids of ${kind}`,
          `found at ${printable(path)}, where no setting looks: set ${printable(setting)}`,
        ],
      ),
      ['database', `${bytes(summary.database_bytes)}, and ${bytes(summary.wal_bytes)} in its log`],
    ]),
  );
}
