import { Command, Option } from 'commander';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import type { Differences } from '../ops/context.ts';
import { MirrorError } from '../platform/errors.ts';
import type { SyncRunReport } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { describeDifferences } from './differences.ts';
import { DifferenceFound } from './exit.ts';
import { withOperator } from './operator.ts';
import type { OpsClient } from './ops-client.ts';
import { parseKinds } from './options.ts';
import { createProgressLine, type Progress } from './progress.ts';
import { withReports } from './reports.ts';

/** How often a full sync is looked at that a person waits for. Milliseconds. */
const LOOK_EVERY_MS = 500;
/** Sync runs that may be newer than the one waited for: a page of them is always enough to see back to the request. */
const NEWEST_SYNC_RUNS = 100;
/**
 * Requests failed one after the other, the last of them under our eyes, after which nobody is kept waiting. A list scan ends
 * with its first failing page; the cycle over the assessments tries each of them, ever more slowly: hours, in an outage.
 */
const FAILURES_WAITED_FOR = 5;

export function fullSyncCommand(cli: Cli): Command {
  return new Command('sync')
    .description('compare whole kinds with the API and repair them, now')
    .addOption(
      new Option('--kind <kinds>', `${KINDS.join(', ')}; several with commas; default: all`).argParser(
        parseKinds,
      ),
    )
    .option('--dry-run', 'compare and write nothing; exits 3 if anything differs')
    .option('--json', 'the comparison of --dry-run as JSON')
    .option(
      '--wait',
      'until they have ended, with what differed; exits 1 if one failed, 3 if anything differed',
    )
    .action(async (options: { kind?: Kind[]; wait?: true; dryRun?: true; json?: true }, command: Command) => {
      if (options.json && !options.dryRun) {
        command.error(
          "error: option '--json' needs '--dry-run'; how full syncs went, 'sync-runs list --json' tells",
        );
      }
      const kinds = options.kind ?? [...KINDS];
      if (options.dryRun) return await (await import('./full-sync-dry-run.ts')).dryRun(cli, kinds, options);
      await withOperator(cli, async ({ service, requestSyncRuns, isPaused }) => {
        const before = await newestSyncRun(cli);
        if (!(await requestSyncRuns(kinds))) {
          throw new MirrorError(
            'not_running',
            'no service is running on this database, and it is what runs full syncs',
            {
              remedy: 'start it: it runs full syncs at every start',
            },
          );
        }
        const paused = await isPaused();
        cli.out.write(`Asked for: ${kinds.join(', ')}${paused ? '; it begins after "resume"' : ''}\n`);
        if (!options.wait) return;
        if (paused) {
          throw new MirrorError('paused', 'the mirror is paused, so there is no end to wait for', {
            remedy: 'see "resume": what was asked for begins by itself then',
          });
        }
        await waitFor(cli, service, kinds, before);
      });
    });
}

async function newestSyncRun(cli: Cli): Promise<number> {
  return await withReports(cli, async (store) => (await store.listSyncRuns({ limit: 1 }))[0]?.id ?? 0);
}

async function waitFor(
  cli: Cli,
  service: OpsClient | null,
  kinds: readonly Kind[],
  before: number,
): Promise<void> {
  const ended = new Map<Kind, SyncRunReport>();
  const line = createProgressLine(cli.err, () => performance.now());
  /** As it was when first looked at: an outage that is over by then is no reason to go. */
  let failuresBefore: number | undefined;
  await withReports(cli, async (store) => {
    while (ended.size < kinds.length) {
      for (const syncRun of (await store.listSyncRuns({ limit: NEWEST_SYNC_RUNS })).reverse()) {
        if (syncRun.id <= before || syncRun.finished_at === null) continue;
        if (!kinds.includes(syncRun.kind) || ended.has(syncRun.kind)) continue;
        ended.set(syncRun.kind, syncRun);
        line.clear();
        cli.out.write(`${describe(syncRun)}\n`);
        if (syncRun.differences !== null)
          cli.out.write(describeDifferences('  differences', differencesOf(syncRun)));
      }
      if (ended.size < kinds.length) {
        await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
        // Several share the database, and whoever runs full syncs may change on the way.
        if (service === null) continue;
        // A service that has stopped will end no full sync: its silence is an error here.
        const status = (await service.get('/api/status')) as {
          sync_runs: { running: (Progress & { kind: Kind })[] };
          upstream: { budget_left: number; consecutive_failures: number; last_error: string | null };
        };
        const { consecutive_failures: failures, last_error: lastError } = status.upstream;
        failuresBefore = Math.min(failuresBefore ?? failures, failures);
        if (failures >= FAILURES_WAITED_FOR && failures > failuresBefore) {
          line.clear();
          const missing = kinds.filter((kind) => ended.get(kind)?.outcome !== 'complete');
          throw new MirrorError('sync_run_failed', `not complete: ${missing.join(', ')}: ${lastError}`, {
            remedy: 'it goes on by itself; see "gaps list --open"',
          });
        }
        const ours = status.sync_runs.running.filter(({ id, kind }) => id > before && kinds.includes(kind));
        line.show(ours, status.upstream.budget_left);
      }
    }
    line.clear();
    const failed = [...ended.values()].filter((syncRun) => syncRun.outcome !== 'complete');
    if (failed.length > 0) {
      throw new MirrorError(
        'sync_run_failed',
        `not complete: ${failed.map((syncRun) => syncRun.kind).join(', ')}`,
        {
          remedy: 'see "gaps list --open"',
        },
      );
    }
    const pending = (await store.listGaps({ open: true }, { limit: NEWEST_SYNC_RUNS })).filter(
      (gap) => gap.reason === 'deletion_pending' && gap.kind !== null && kinds.includes(gap.kind),
    );
    if (pending.length > 0) {
      throw new DifferenceFound('deletions wait for approval', 'see "deletions list"');
    }
    const differing = [...ended.values()].filter(
      (syncRun) => syncRun.differences !== null && differs(differencesOf(syncRun)),
    );
    if (differing.length > 0) {
      const kindsNamed = differing.map((syncRun) => syncRun.kind).join(', ');
      throw new DifferenceFound(
        `the mirror differed from the API: ${kindsNamed}`,
        'see "sync-runs show NUMBER"',
      );
    }
  });
}

const differencesOf = (syncRun: SyncRunReport) => syncRun.differences as unknown as Differences;
const differs = ({ missing, extra, different }: Differences) => missing + extra + different > 0;

function describe(syncRun: SyncRunReport): string {
  const figures = `${syncRun.seen} seen, ${syncRun.inserted} inserted, ${syncRun.updated} updated, ${syncRun.deleted} deleted`;
  return `Sync run ${syncRun.id} of ${syncRun.kind}: ${syncRun.outcome}, ${figures}${syncRun.error ? `: ${syncRun.error}` : ''}`;
}
