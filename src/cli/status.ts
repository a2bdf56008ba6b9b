import { Command } from 'commander';
import { pointersToSet } from '../compliance/pointers.ts';
import { type Cycle, cycleOf, cycleWords } from '../ops/cycle.ts';
import { bytes } from '../ops/words.ts';
import { type Config, loadConfig } from '../platform/config.ts';
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
        const summary = await summaryOf(reports, loadConfig(cli.env));
        await show(reports, summary, options);
        if (options.check) assertInSync(summary);
      }),
    );

  async function show(reports: Reports, summary: Summary, options: { json?: true }): Promise<void> {
    const { remote, databaseUrl } = loadConfig(cli.env);
    const holder = remote === null ? await holderOfDatabase(databaseUrl) : null;
    const isServed = remote !== null || holder !== null;
    const told = isServed ? await toldBy(cli) : null;
    const address = remote?.url.href ?? holder?.opsUrl ?? null;
    if (options.json) {
      const { pid = null, startedAt = null } = holder ?? {};
      const service = { pid, ops_url: address, started_at: told?.startedAt ?? startedAt, ...verdictOf(told) };
      writeJson(cli.out, { service: isServed ? service : null, ...summary });
      return;
    }
    const where =
      remote !== null
        ? `Service at ${address}`
        : `Service running: process ${holder?.pid}, operators' page at ${address ?? 'an address not known yet'}`;
    cli.out.write(isServed ? `${where}\n${sentenceOf(told)}\n` : await othersRunning(cli, databaseUrl));
    writeSummary(cli, summary, await cycle(reports, summary, isServed));
  }
}

interface Summary extends StoreSummary {
  /** With the setting that each would have to be put into. */
  learned_pointers: PointerToSet[];
}

type PointerToSet = StoreSummary['learned_pointers'][number] & { setting: string };

/** A service tells by its own settings which pointers are to be set; of the database here, ours do. */
async function summaryOf(reports: Reports, { remote, idPointers }: Config): Promise<Summary> {
  const summary = await reports.summary();
  const learned = summary.learned_pointers;
  const toSet = remote === null ? pointersToSet(learned, idPointers) : (learned as PointerToSet[]);
  return { ...summary, learned_pointers: toSet };
}

/** Throws DifferenceFound, which exits with 3. */
function assertInSync({ kinds }: StoreSummary): void {
  const others = kinds.filter(({ verdict }) => verdict !== 'in_sync');
  if (others.length === 0) return;
  const named = others.map(({ kind, verdict }) => `${kind}: ${verdict}`).join(', ');
  throw new DifferenceFound(`not in sync: ${named}`, 'see "gaps list --open" and "doctor"');
}

interface Told {
  startedAt: string;
  verdict: string;
  sentence: string;
  remedy: string | null;
  since: string | null;
}

/** As the page says it. Null: the service beside us cannot be asked, and the tables must do. */
async function toldBy(cli: Cli): Promise<Told | null> {
  const config = loadConfig(cli.env);
  try {
    const service = await runningService(config);
    if (service === null) return null;
    const told = (await service.get('/api/status')) as Told & { service: { started_at: string } };
    const { verdict, sentence, remedy, since } = told;
    return { verdict, sentence, remedy, since, startedAt: told.service.started_at };
  } catch (error) {
    if (config.remote === null && error instanceof MirrorError) return null;
    throw error;
  }
}

function verdictOf(told: Told | null) {
  const { verdict = null, sentence = null, remedy = null, since = null } = told ?? {};
  return { verdict, sentence, remedy, since };
}

function sentenceOf(told: Told | null): string {
  if (told === null) return '';
  const { sentence, remedy, since } = told;
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
  const assessments = summary.kinds.find(({ kind }) => kind === 'risk_assessment');
  const last = assessments?.last_full_sync_seconds ?? null;
  const syncRuns = isServed ? await reports.listSyncRuns({ limit: NEWEST_SYNC_RUNS }) : [];
  const running = syncRuns.find(
    (fullSync) => fullSync.kind === 'risk_assessment' && fullSync.finished_at === null,
  );
  if (running === undefined) return cycleOf(last, null, 0);
  const { started_at, seen } = running;
  const total = assessments?.known ?? null;
  return cycleOf(last, { startedAt: Date.parse(started_at), seen, total }, Date.now());
}

function writeSummary(cli: Cli, summary: Summary, cycle: Cycle): void {
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
      ...summary.learned_pointers.map(({ kind, path, setting }): [string, string] => [
        `ids of ${kind}`,
        `found at ${printable(path)}, where no setting looks: set ${printable(setting)}`,
      ]),
      ['database', `${bytes(summary.database_bytes)}, and ${bytes(summary.wal_bytes)} in its log`],
    ]),
  );
}
