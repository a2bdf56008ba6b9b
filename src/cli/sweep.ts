import { Command, Option } from 'commander';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { MirrorError } from '../errors.ts';
import type { Drift } from '../ops/context.ts';
import type { SweepReport } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { describeDrift } from './drift.ts';
import { DifferenceFound } from './exit.ts';
import { withOperator } from './operator.ts';
import type { OpsClient } from './ops-client.ts';
import { parseKinds } from './options.ts';
import { createProgressLine, type Progress } from './progress.ts';
import { withReports } from './reports.ts';

/** How often a sweep is looked at that a person waits for. Milliseconds. */
const LOOK_EVERY_MS = 500;
/** Sweeps that may be newer than the one waited for: a page of them is always enough to see back to the request. */
const NEWEST_SWEEPS = 100;
/**
 * Requests failed one after the other, the last of them under our eyes, after which nobody is kept waiting. A walk ends
 * with its first failing page; the cycle over the assessments tries each of them, ever more slowly: hours, in an outage.
 */
const FAILURES_WAITED_FOR = 5;

export function sweepCommand(cli: Cli): Command {
  return new Command('sweep')
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
          "error: option '--json' needs '--dry-run'; how sweeps went, 'sweeps list --json' tells",
        );
      }
      const kinds = options.kind ?? [...KINDS];
      if (options.dryRun) return await (await import('./sweep-dry-run.ts')).dryRun(cli, kinds, options);
      await withOperator(cli, async ({ service, requestSweeps, isPaused }) => {
        const before = await newestSweep(cli);
        if (!(await requestSweeps(kinds))) {
          throw new MirrorError(
            'not_running',
            'no service is running on this database, and it is what sweeps',
            {
              hint: 'start it: it sweeps at every start',
            },
          );
        }
        const paused = await isPaused();
        cli.out.write(`Asked for: ${kinds.join(', ')}${paused ? '; it begins after "resume"' : ''}\n`);
        if (!options.wait) return;
        if (paused) {
          throw new MirrorError('paused', 'the mirror is paused, so there is no end to wait for', {
            hint: 'see "resume": what was asked for begins by itself then',
          });
        }
        await waitFor(cli, service, kinds, before);
      });
    });
}

async function newestSweep(cli: Cli): Promise<number> {
  return await withReports(cli, async (store) => (await store.listSweeps({ limit: 1 }))[0]?.id ?? 0);
}

async function waitFor(
  cli: Cli,
  service: OpsClient | null,
  kinds: readonly Kind[],
  before: number,
): Promise<void> {
  const ended = new Map<Kind, SweepReport>();
  const line = createProgressLine(cli.err, () => performance.now());
  /** As it was when first looked at: an outage that is over by then is no reason to go. */
  let failuresBefore: number | undefined;
  await withReports(cli, async (store) => {
    while (ended.size < kinds.length) {
      for (const sweep of (await store.listSweeps({ limit: NEWEST_SWEEPS })).reverse()) {
        if (sweep.id <= before || sweep.finished_at === null) continue;
        if (!kinds.includes(sweep.kind) || ended.has(sweep.kind)) continue;
        ended.set(sweep.kind, sweep);
        line.clear();
        cli.out.write(`${describe(sweep)}\n`);
        if (sweep.drift !== null) cli.out.write(describeDrift('  drift', driftOf(sweep)));
      }
      if (ended.size < kinds.length) {
        await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
        // Several share the database, and whoever sweeps may change on the way.
        if (service === null) continue;
        // A service that has stopped will end no sweep: its silence is an error here.
        const status = (await service.get('/api/status')) as {
          sweeps: { running: (Progress & { kind: Kind })[] };
          upstream: { budget_left: number; consecutive_failures: number; last_error: string | null };
        };
        const { consecutive_failures: failures, last_error: lastError } = status.upstream;
        failuresBefore = Math.min(failuresBefore ?? failures, failures);
        if (failures >= FAILURES_WAITED_FOR && failures > failuresBefore) {
          line.clear();
          const missing = kinds.filter((kind) => ended.get(kind)?.outcome !== 'complete');
          throw new MirrorError('sweep_failed', `not complete: ${missing.join(', ')}: ${lastError}`, {
            hint: 'it goes on by itself; see "gaps list --open"',
          });
        }
        const ours = status.sweeps.running.filter(({ id, kind }) => id > before && kinds.includes(kind));
        line.show(ours, status.upstream.budget_left);
      }
    }
    line.clear();
    const failed = [...ended.values()].filter((sweep) => sweep.outcome !== 'complete');
    if (failed.length > 0) {
      throw new MirrorError('sweep_failed', `not complete: ${failed.map((sweep) => sweep.kind).join(', ')}`, {
        hint: 'see "gaps list --open"',
      });
    }
    const held = (await store.listGaps({ open: true }, { limit: NEWEST_SWEEPS })).filter(
      (gap) => gap.reason === 'deletion_held' && gap.kind !== null && kinds.includes(gap.kind),
    );
    if (held.length > 0) {
      throw new DifferenceFound('deletions wait for an operator', 'see "gaps list --open"');
    }
    const differing = [...ended.values()].filter((sweep) => sweep.drift !== null && differs(driftOf(sweep)));
    if (differing.length > 0) {
      const kindsNamed = differing.map((sweep) => sweep.kind).join(', ');
      throw new DifferenceFound(
        `the mirror differed from the API: ${kindsNamed}`,
        'see "sweeps show NUMBER"',
      );
    }
  });
}

const driftOf = (sweep: SweepReport) => sweep.drift as unknown as Drift;
const differs = ({ missing, extra, different }: Drift) => missing + extra + different > 0;

function describe(sweep: SweepReport): string {
  const figures = `${sweep.seen} seen, ${sweep.inserted} inserted, ${sweep.updated} updated, ${sweep.deleted} deleted`;
  return `Sweep ${sweep.id} of ${sweep.kind}: ${sweep.outcome}, ${figures}${sweep.error ? `: ${sweep.error}` : ''}`;
}
