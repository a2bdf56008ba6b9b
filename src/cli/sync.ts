import { setTimeout as sleep } from 'node:timers/promises';
import { Argument, Command } from 'commander';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { idInPath } from '../ops/api/ids.ts';
import type { Differences, Problem, Status } from '../ops/api/schemas.ts';
import { codeWords, count } from '../ops/words.ts';
import { MirrorError } from '../platform/errors.ts';
import { PAGE_LIMIT_MAX, type ShownRecord, type SyncRunReport } from '../store/reports.ts';
import { type Cli, type Screen, writeRows, writeTable, writeText } from './cli.ts';
import { DifferenceFound } from './exit.ts';
import { listCommand, notFound, type Row, showCommand, writeOne } from './lists.ts';
import { found, type Service, withService } from './service.ts';
import { printable } from './text.ts';
import { SYNCS } from './things.ts';

/** How often `--wait` looks. Milliseconds. */
const LOOK_EVERY_MS = 500;
/** How many of the newest sync runs are read at each look: enough to reach back to the request. */
const NEWEST_SYNC_RUNS = 100;
/** `--wait` gives up after so many failed requests in a row: in an outage, assessments are tried ever more slowly, for hours. */
const FAILURES_WAITED_FOR = 5;

type SyncRun = SyncRunReport & Row;

export function syncCommand(cli: Cli): Command {
  const sync = new Command('sync')
    .description('read from the API now, and repair what differs')
    .addArgument(new Argument('[kind]', 'default: all').choices(KINDS))
    .argument('[ids...]', 'only these records, known to the mirror or not')
    .option('--wait', 'wait for the end; exits 1 if it failed, 3 if anything differed')
    .action((kind: Kind | undefined, ids: string[], { wait }: { wait?: true }) =>
      withService(cli, async (service) => {
        const { at, problems } = await service.get<Status>('status');
        const isPaused = problems.some(({ reason }) => reason === 'paused');
        const before = (await newestRuns(service, 1))[0]?.id ?? 0;
        const known = await problemsOf(service);
        const kinds = kind === undefined ? [...KINDS] : [kind];
        await service.post('syncs', kind !== undefined && ids.length > 0 ? { kind, ids } : { kinds });
        const when = isPaused ? 'after “resume”: the mirror is paused' : 'now';
        const what = ids.length > 0 ? `${kind} ${ids.join(', ')}` : kinds.join(', ');
        writeText(cli.out, `Asked for: ${what}. It is read ${when}.`);
        if (!wait) return;
        if (isPaused) throw new MirrorError('paused', 'the mirror is paused, so there is no end to wait for');
        if (ids.length > 0) await waitForRecords(cli, service, kind!, ids, at, known);
        else await waitForKinds(cli, service, kinds, before);
      }),
    );
  sync.addCommand(listCommand(cli, 'list', 'full syncs, newest first', [], () => SYNCS, SYNCS));
  const show = showCommand<[string]>(
    cli,
    'one full sync, and what differed',
    [new Argument('<id>', 'as listed')],
    async (service, id) => {
      const run = await found(service.get<SyncRun>(`syncs/${idInPath(id)}`));
      if (run !== null) return run;
      throw notFound(`there is no full sync ${id}`, 'sync list');
    },
    (row) => {
      const { differences, ...figures } = row as SyncRun;
      writeOne(cli, figures);
      writeDifferences(cli, differences as Differences | null);
    },
  );
  return sync.addCommand(show);
}

const newestRuns = async (service: Service, limit: number) =>
  (await service.get<{ items: SyncRun[] }>('syncs', { limit })).items;

const problemsOf = async (service: Service, state: 'open' | 'all' = 'open') =>
  (await service.get<{ items: Problem[] }>('problems', { state, limit: PAGE_LIMIT_MAX })).items;

async function waitForKinds(
  cli: Cli,
  service: Service,
  kinds: readonly Kind[],
  before: number,
): Promise<void> {
  const ended = new Map<Kind, SyncRun>();
  using progress = progressOn(cli.err);
  /** Consecutive failures at the first look, or fewer: those of an outage that is over do not end the wait. */
  let failuresBefore: number | undefined;
  for (;;) {
    for (const run of (await newestRuns(service, NEWEST_SYNC_RUNS)).toReversed()) {
      if (run.id <= before || run.finished_at === null) continue;
      if (kinds.includes(run.kind) && !ended.has(run.kind)) ended.set(run.kind, run);
    }
    if (ended.size === kinds.length) break;
    const { sync_runs, upstream } = await service.get<Status>('status');
    const { consecutive_failures: failures, last_error: lastError, waits_until: until } = upstream;
    failuresBefore = Math.min(failuresBefore ?? failures, failures);
    if (failures >= FAILURES_WAITED_FOR && failures > failuresBefore) {
      throw new MirrorError('sync_run_failed', `the API gives no usable answer: ${lastError}`, {
        remedy: 'it goes on by itself; see “status”',
      });
    }
    const running = sync_runs.running.map(({ kind, seen, estimated_total: total }) =>
      total === null ? `${kind}: ${seen} read` : `${kind}: ${seen} of ${total} read`,
    );
    progress.show(() => (until === null ? running.join(', ') : `compliance service: ${pauseWords(until)}`));
    await sleep(LOOK_EVERY_MS);
  }
  progress.end();
  const runs = [...ended.values()];
  writeRows(cli.out, runs, SYNCS.columns, SYNCS.kept);
  for (const { differences } of runs) writeDifferences(cli, differences as Differences | null);
  const failed = runs.filter(({ outcome }) => outcome !== 'complete').map(({ kind }) => kind);
  if (failed.length > 0) {
    throw new MirrorError('sync_run_failed', `not complete: ${failed.join(', ')}`, {
      remedy: 'see “problems”',
    });
  }
  const pending = (await problemsOf(service)).find(
    ({ reason, kind }) => reason === 'pending_deletions' && kinds.includes(kind!),
  );
  if (pending !== undefined) {
    throw new DifferenceFound('deletions wait for approval', `see “problems approve ${pending.id}”`);
  }
  const differing = runs.filter(({ differences }) => countOf(differences as Differences | null) > 0);
  if (differing.length > 0) {
    throw new DifferenceFound(
      `the mirror differed from the API: ${differing.map(({ kind }) => kind).join(', ')}`,
    );
  }
}

/** A problem that was open before may only end with this read. Afterwards it counts: of an unknown id nothing else would ever come. */
const OLD_PROBLEM_MS = 30_000;

/** Until each was read after `asked`. */
async function waitForRecords(
  cli: Cli,
  service: Service,
  kind: Kind,
  ids: readonly string[],
  asked: string,
  known: readonly Problem[],
): Promise<void> {
  const left = new Set(ids);
  using progress = progressOn(cli.err);
  const begun = performance.now();
  for (; left.size > 0; await sleep(LOOK_EVERY_MS)) {
    const isOld = (one: Problem) =>
      performance.now() - begun < OLD_PROBLEM_MS &&
      known.some(({ id, times }) => id === one.id && times === one.times);
    // A list may have resolved it already.
    const isNow = ({ resolved_at }: Problem) => resolved_at === null || resolved_at > asked;
    const problems = (await problemsOf(service, 'all')).filter((one) => isNow(one) && !isOld(one));
    for (const id of left) {
      const record = await found(service.get<ShownRecord>(`records/${kind}/${idInPath(id)}`));
      const problem = problems.find((one) => one.kind === kind && one.record_id === id);
      if ((record?.verified_at ?? '') > asked) cli.out.write(`${printable(id)}: confirmed by the API\n`);
      else if ((record?.deleted_at ?? '') > asked) cli.out.write(`${printable(id)}: deleted\n`);
      else if (problem !== undefined)
        throw new DifferenceFound(`${id}: ${problem.sentence}`, `see “problems show ${problem.id}”`);
      else continue;
      left.delete(id);
    }
    progress.show(() => `waiting for ${count(left.size, 'record')}`);
  }
}

/** For a terminal that does not say how wide it is. */
const USUAL_COLUMNS = 80;
/** On a terminal one line is redrawn. Elsewhere every line stays, so there are fewer. Milliseconds. */
const REDRAW_EVERY_MS = 100;
const LINE_EVERY_MS = 10_000;

/** Shows one line that is redrawn on a terminal, and a line now and then elsewhere. */
function progressOn(screen: Screen) {
  let shownAt = performance.now();
  let isOpen = false;
  const end = () => {
    if (isOpen) screen.write('\r\u001b[K');
    isOpen = false;
  };
  return {
    /** Clears the terminal's line, as disposing does. */
    end,
    [Symbol.dispose]: end,
    /** Asks for the text only when it is time to show one. */
    show(text: () => string): void {
      if (performance.now() - shownAt < (screen.isTerminal ? REDRAW_EVERY_MS : LINE_EVERY_MS)) return;
      shownAt = performance.now();
      end();
      const shown = text();
      if (shown === '') return;
      // A line that wraps could not be redrawn.
      screen.write(screen.isTerminal ? shown.slice(0, (screen.columns ?? USUAL_COLUMNS) - 1) : `${shown}\n`);
      isOpen = screen.isTerminal;
    },
  };
}

/** While a Retry-After runs. */
export const pauseWords = (until: string) => `waits until ${until}, as the service asked (Retry-After)`;

const countOf = (differences: Differences | null) =>
  differences === null ? 0 : differences.new + differences.deleted_upstream + differences.different;

function writeDifferences(cli: Cli, differences: Differences | null): void {
  if (countOf(differences) === 0) return;
  const { new: fresh, deleted_upstream, different, repaired, examples } = differences!;
  cli.out.write('\n');
  const counted = `${fresh} new, ${deleted_upstream} deleted upstream, ${different} different; ${repaired} repaired`;
  writeText(cli.out, `What no event had announced: ${counted}`);
  const rows = examples.map((one) => [
    one.id,
    codeWords(one.what),
    one.fields.join(', '),
    one.repaired ? 'yes' : 'not yet',
  ]);
  writeTable(cli.out, ['ID', 'WHAT', 'FIELDS', 'REPAIRED'], rows);
  const unnamed = countOf(differences) - examples.length;
  if (unnamed > 0) cli.out.write(`and ${unnamed} more\n`);
}

const switched = (cli: Cli, name: 'pause' | 'resume', description: string, done: string) =>
  new Command(name).description(description).action(() =>
    withService(cli, async (service) => {
      await service.post(name);
      writeText(cli.out, done);
    }),
  );

export const pauseCommand = (cli: Cli): Command =>
  switched(
    cli,
    'pause',
    'stop processing and repairs; deliveries are still kept',
    'Paused, across restarts too. Deliveries are still received and kept. “resume” ends it.',
  );

export const resumeCommand = (cli: Cli): Command => switched(cli, 'resume', 'end a pause', 'Resumed.');
