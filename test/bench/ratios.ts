import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import type { LoadOrder, LoadReport } from './load.ts';
import {
  askOperators,
  BASELINE,
  NAIVE,
  portIn,
  type ServerProcess,
  startMirror,
  startProcess,
} from './processes.ts';
import { median } from './statistics.ts';

export const CONNECTIONS = 64;
export const RECORDS = 1_000;

/** Sent before the clock starts: half of what a function costs at first is its being compiled. */
const WARM_UP = 20_000;
/** Two seconds or so of load, in which a run sees dozens of batches, and a checkpoint. */
const MEASURED = 30_000;

/** `accept`: the processor is paused, so nothing but taking deliveries in is counted. */
export type Contender = 'baseline' | 'naive' | 'accept' | 'mirror';
const CONTENDERS: readonly Contender[] = ['baseline', 'naive', 'accept', 'mirror'];

export interface Run {
  /** User and system time of the whole server process, per request. */
  cpuUs: number;
  perSecond: number;
  /** Until the backlog is empty. */
  processedPerSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** What was still to be mirrored when the last answer came, as seconds of arrivals. */
  backlogSeconds: number;
  maxRssMiB: number;
}

export interface RatioOptions {
  rounds: number;
  main?: string;
  say: (line: string) => void;
}

/** Rounds interleaved, so that what else the machine does meets all of them alike. */
export async function measureRatios(options: RatioOptions): Promise<Record<Contender, Run>> {
  const runs: Record<Contender, Run[]> = { baseline: [], naive: [], accept: [], mirror: [] };
  for (let round = 1; round <= options.rounds; round++) {
    for (const contender of CONTENDERS) {
      const run = await measure(contender, options.main === undefined ? {} : { main: options.main });
      runs[contender].push(run);
      const figures = `${run.cpuUs.toFixed(1)} µs/request, ${Math.round(run.perSecond)}/s, p99 ${run.p99Ms.toFixed(1)} ms`;
      options.say(`  round ${round} ${contender.padEnd(8)} ${figures}`);
    }
  }
  return {
    baseline: medians(runs.baseline),
    naive: medians(runs.naive),
    accept: medians(runs.accept),
    mirror: medians(runs.mirror),
  };
}

/** One server from its start to its end. */
export async function measure(
  contender: Contender,
  options: { main?: string; nodeArgs?: readonly string[] } = {},
): Promise<Run> {
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-bench-'));
  const database = join(directory, 'mirror.db');
  const load = fork(fileURLToPath(new URL('./load.ts', import.meta.url)));
  let server: ServerProcess | null = null;
  try {
    let port: number;
    const isOurs = contender === 'accept' || contender === 'mirror';
    if (!isOurs) {
      const script = contender === 'naive' ? NAIVE : BASELINE;
      server = startProcess(script, [], { DATABASE_URL: `file:${database}` });
      port = portIn(await server.line('Baseline: '));
    } else {
      const mirror = await startMirror(database, {}, options);
      server = mirror;
      port = mirror.port;
      if (contender === 'accept') await askOperators(mirror, '/api/pause', {});
    }
    const backlog = isOurs ? new Backlog(database) : null;
    const order = { port, connections: CONNECTIONS, records: RECORDS };

    await prepare(load, { ...order, run: 'warm', count: WARM_UP });
    await fire(load);
    if (contender === 'mirror') await backlog?.empty();

    await prepare(load, { ...order, run: 'main', count: MEASURED });
    const before = await server.usage();
    const report = await fire(load);
    const left = backlog?.count() ?? 0;
    const answeredAt = performance.now();
    if (contender === 'mirror') await backlog?.empty();
    const emptySeconds = (performance.now() - answeredAt) / 1_000;
    const after = await server.usage();
    backlog?.close();

    const good = report.statuses['202'] ?? 0;
    if (good !== MEASURED)
      throw new Error(`not every request was accepted: ${JSON.stringify(report.statuses)}`);
    const perSecond = MEASURED / report.seconds;
    return {
      cpuUs: ((after.cpuMs - before.cpuMs) * 1000) / MEASURED,
      perSecond,
      processedPerSecond: MEASURED / (report.seconds + emptySeconds),
      p50Ms: report.p50Ms,
      p99Ms: report.p99Ms,
      backlogSeconds: left / perSecond,
      maxRssMiB: after.maxRssBytes / 2 ** 20,
    };
  } finally {
    load.disconnect();
    server?.kill('SIGTERM');
    await server?.exited;
    rmSync(directory, { recursive: true, force: true });
  }
}

/** How many events wait, asked of the file: the server's own answer would cost the time that is being measured. */
export class Backlog {
  readonly #db: Database.Database;
  readonly #count: Database.Statement;

  constructor(path: string) {
    this.#db = new Database(path, { readonly: true });
    this.#count = this.#db.prepare("SELECT count(*) FROM events WHERE state = 'pending'").pluck();
  }

  count(): number {
    return this.#count.get() as number;
  }

  async empty(): Promise<void> {
    while (this.count() > 0) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }

  close(): void {
    this.#db.close();
  }
}

const POLL_MS = 10;

export async function prepare(load: ChildProcess, order: LoadOrder): Promise<void> {
  load.send(order);
  await message<'ready'>(load);
}

export async function fire(load: ChildProcess): Promise<LoadReport> {
  load.send('go');
  return await message<LoadReport>(load);
}

function message<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    child.once('message', (value) => {
      child.off('exit', failed);
      resolve(value as T);
    });
    const failed = (code: number | null) => reject(new Error(`the load generator ended with ${code}`));
    child.once('exit', failed);
  });
}

function medians(runs: readonly Run[]): Run {
  const of = (field: keyof Run) => median(runs.map((run) => run[field]));
  return {
    cpuUs: of('cpuUs'),
    perSecond: of('perSecond'),
    processedPerSecond: of('processedPerSecond'),
    p50Ms: of('p50Ms'),
    p99Ms: of('p99Ms'),
    backlogSeconds: of('backlogSeconds'),
    maxRssMiB: of('maxRssMiB'),
  };
}
