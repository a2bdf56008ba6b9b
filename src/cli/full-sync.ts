import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import type { Compared } from '../ops/api/changes.ts';
import { type ApiClient, answered, changed, PATIENTLY } from '../ops/api/client.ts';
import type { Differences } from '../ops/api/schemas.ts';
import { MirrorError } from '../platform/errors.ts';
import type { SyncRunReport } from '../store/reports.ts';
import { type Cli, writeJson } from './cli.ts';
import { DifferenceFound } from './exit.ts';
import { withApi } from './ops-api.ts';
import { parseKinds } from './options.ts';
import { describeSyncRuns, pauseWords, progressOn } from './progress.ts';
import { renderPairs, renderTable } from './table.ts';
import { printable } from './text.ts';

/** How often `--wait` looks at the full syncs. Milliseconds. */
const LOOK_EVERY_MS = 500;
/** How many of the newest sync runs are read at each look: enough to reach back to the request. */
const NEWEST_SYNC_RUNS = 100;
/**
 * `--wait` gives up after so many failed requests in a row. In an outage a list scan ends with its first failing page, but the
 * full sync of the assessments tries each of them, ever more slowly, for hours.
 */
const FAILURES_WAITED_FOR = 5;

export function fullSyncCommand(cli: Cli): Command {
  return new Command('sync')
    .description('compare whole kinds with the API and repair them, now')
    .option('--kind <kinds>', `${KINDS.join(', ')}; several with commas; default: all`, parseKinds)
    .option('--dry-run', 'compare and write nothing; exits 3 if anything differs')
    .option('--json', 'the comparison of --dry-run as JSON')
    .option(
      '--wait',
      'wait for the end and print what differed; exits 1 if one failed, 3 if anything differed',
    )
    .action(async (options: { kind?: Kind[]; wait?: true; dryRun?: true; json?: true }, command: Command) => {
      if (options.json && !options.dryRun) {
        command.error(
          "error: option '--json' needs '--dry-run'; how full syncs went, 'sync-runs list --json' tells",
        );
      }
      const kinds = options.kind ?? [...KINDS];
      if (options.dryRun) return await dryRun(cli, kinds, options);
      await withApi(cli, 'change', async (api, service) => {
        const before = (await answered(api['sync-runs'].$get({ query: { limit: 1 } }))).items[0]?.id ?? 0;
        const asked = await changed(api['sync-runs'].$post({ json: { kinds } }));
        if (asked !== null && 'whyNot' in asked) {
          const start = { remedy: 'start it: with API credentials it runs full syncs at every start' };
          throw new MirrorError(asked.code, asked.whyNot, asked.code === 'not_running' ? start : {});
        }
        const { paused } = (await answered(api.status.$get())).service;
        cli.out.write(`Asked for: ${kinds.join(', ')}${paused ? '; it begins after "resume"' : ''}\n`);
        if (!options.wait) return;
        if (paused) {
          throw new MirrorError('paused', 'the mirror is paused, so there is no end to wait for', {
            remedy: 'see "resume": what was asked for begins by itself then',
          });
        }
        // Without `service` several may share the database, and another one may take the full syncs over.
        await waitFor(cli, api, { kinds, before, hasOneService: service !== null });
      });
    });
}

/**
 * Compares with the API and writes nothing. A running service does the comparing, because it owns the request budget. Rejects with
 * DifferenceFound if anything differs, and with MirrorError if nothing differs but a list was incomplete.
 */
async function dryRun(cli: Cli, kinds: readonly Kind[], options: { json?: true }): Promise<void> {
  await withApi(cli, 'compare', async (api, service) => {
    const compared: Compared[] = [];
    for (const kind of kinds) {
      if (cli.err.isTerminal) cli.err.write(`Comparing ${kind} …\n`);
      const json = { dry_run: true, kinds: [kind] };
      const asked = answered(api['sync-runs'].$post({ json }, PATIENTLY));
      const answer = await (service === null ? asked : showingPauses(cli, api, asked));
      if (answer.status === 'compared') compared.push(...answer.kinds);
    }
    const incomplete = compared.filter((one) => one.incomplete !== null);
    const isInSync = !compared.some(differs) && incomplete.length === 0;
    if (options.json) writeJson(cli.out, { in_sync: isInSync, kinds: compared });
    else for (const one of compared) cli.out.write(describeDifferences(one.kind, one));
    if (compared.some(differs))
      throw new DifferenceFound('the mirror differs from the API', '"sync" without --dry-run repairs it');
    if (incomplete.length > 0) {
      const kindsNamed = incomplete.map(({ kind }) => kind).join(', ');
      throw new MirrorError('incomplete', `not the whole list: ${kindsNamed}`, {
        remedy: 'nothing differs in what was read; a list that moves while it is read can be compared again',
      });
    }
  });
}

/** Waits for `reading`. Meanwhile shows any pause that the compliance service asks for: it may last a quarter of an hour. */
async function showingPauses<T>(cli: Cli, api: ApiClient, reading: Promise<T>): Promise<T> {
  using progress = progressOn(cli.err);
  const isOver = reading.then(
    () => true,
    () => true,
  );
  while (!(await Promise.race([isOver, sleep(LOOK_EVERY_MS, false, { ref: false })]))) {
    const status = await answered(api.status.$get()).catch(() => null);
    const until = status?.upstream.waits_until;
    progress.show(() => (until ? `compliance service: ${pauseWords(until)}` : ''));
  }
  return await reading;
}

async function waitFor(
  cli: Cli,
  api: ApiClient,
  { kinds, before, hasOneService }: { kinds: readonly Kind[]; before: number; hasOneService: boolean },
): Promise<void> {
  const ended = new Map<Kind, SyncRunReport>();
  using progress = progressOn(cli.err);
  /** Consecutive failures at the first look, or fewer: those of an outage that is over do not end the wait. */
  let failuresBefore: number | undefined;
  while (ended.size < kinds.length) {
    const { items } = await answered(api['sync-runs'].$get({ query: { limit: NEWEST_SYNC_RUNS } }));
    for (const syncRun of items.reverse()) {
      if (syncRun.id <= before || syncRun.finished_at === null) continue;
      if (!kinds.includes(syncRun.kind) || ended.has(syncRun.kind)) continue;
      ended.set(syncRun.kind, syncRun);
      progress.end();
      cli.out.write(`${printable(describe(syncRun))}\n`);
      if (syncRun.differences !== null)
        cli.out.write(describeDifferences('  differences', differencesOf(syncRun)));
    }
    if (ended.size === kinds.length) break;
    await sleep(LOOK_EVERY_MS);
    if (!hasOneService) continue;
    // A service that has stopped will not finish a full sync, so an error of this request ends the wait.
    const { sync_runs, upstream } = await answered(api.status.$get());
    const { consecutive_failures: failures, last_error: lastError } = upstream;
    failuresBefore = Math.min(failuresBefore ?? failures, failures);
    if (failures >= FAILURES_WAITED_FOR && failures > failuresBefore) {
      const missing = kinds.filter((kind) => ended.get(kind)?.outcome !== 'complete');
      throw new MirrorError('sync_run_failed', `not complete: ${missing.join(', ')}: ${lastError}`, {
        remedy: 'it goes on by itself; see "status"',
      });
    }
    const ours = sync_runs.running.filter(({ id, kind }) => id > before && kinds.includes(kind));
    progress.show(() =>
      upstream.waits_until === null
        ? describeSyncRuns(ours, upstream.budget_left, cli.err.isTerminal)
        : `compliance service: ${pauseWords(upstream.waits_until)}`,
    );
  }
  await judge(api, kinds, [...ended.values()]);
}

/** Throws if a full sync failed, deletions wait, or anything differed. */
async function judge(api: ApiClient, kinds: readonly Kind[], ended: readonly SyncRunReport[]): Promise<void> {
  const kindsOf = (syncRuns: readonly SyncRunReport[]) => syncRuns.map(({ kind }) => kind).join(', ');
  const failed = ended.filter((syncRun) => syncRun.outcome !== 'complete');
  if (failed.length > 0) {
    const remedy = 'see "sync-runs show NUMBER"';
    throw new MirrorError('sync_run_failed', `not complete: ${kindsOf(failed)}`, { remedy });
  }
  const gaps = await answered(api.gaps.$get({ query: { open: 'true', limit: NEWEST_SYNC_RUNS } }));
  const pending = gaps.items.filter(
    (gap) => gap.reason === 'deletion_pending' && gap.kind !== null && kinds.includes(gap.kind),
  );
  if (pending.length > 0) throw new DifferenceFound('deletions wait for approval', 'see "deletions list"');
  const differing = ended.filter(
    (syncRun) => syncRun.differences !== null && differs(differencesOf(syncRun)),
  );
  if (differing.length > 0) {
    const what = `the mirror differed from the API: ${kindsOf(differing)}`;
    throw new DifferenceFound(what, 'see "sync-runs show NUMBER"');
  }
}

const differencesOf = (syncRun: SyncRunReport) => syncRun.differences as unknown as Differences;
const differs = ({ missing, extra, different }: Pick<Differences, 'missing' | 'extra' | 'different'>) =>
  missing + extra + different > 0;

function describe(syncRun: SyncRunReport): string {
  const figures = `${syncRun.seen} seen, ${syncRun.inserted} inserted, ${syncRun.updated} updated, ${syncRun.deleted} deleted`;
  return `Sync run ${syncRun.id} of ${syncRun.kind}: ${syncRun.outcome}, ${figures}${syncRun.error ? `: ${syncRun.error}` : ''}`;
}

/** The differences of a full sync or a dry run, as commands print them. Ends with a newline. */
export function describeDifferences(
  title: string,
  differences: Differences & { incomplete?: string | null },
): string {
  const { missing, extra, different, repaired, fields, examples, incomplete = null } = differences;
  const figures = `${title}: ${missing} missing, ${extra} extra, ${different} different, ${repaired} repaired\n`;
  const unnamed = missing + extra + different - examples.length;
  const byField = Object.entries(fields).map(
    ([name, count]) => [`  ${name}`, `differs in ${count}`] as const,
  );
  const rows = examples.map((one) => [one.id, one.what, one.fields.join(', '), one.repaired ? 'yes' : 'no']);
  return [
    figures,
    incomplete === null ? '' : `  not the whole list, so nothing absent counts: ${printable(incomplete)}\n`,
    byField.length === 0 ? '' : renderPairs(byField),
    rows.length === 0 ? '' : renderTable(['ID', 'WHAT', 'FIELDS', 'REPAIRED'], rows),
    rows.length > 0 && unnamed > 0 ? `  and ${unnamed} more\n` : '',
  ].join('');
}
