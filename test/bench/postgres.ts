import { type ChildProcess, fork } from 'node:child_process';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { askOperators, NAIVE, portIn, type ServerProcess, startMirror, startProcess } from './processes.ts';
import { CONNECTIONS, fire, prepare, RECORDS } from './ratios.ts';
import { median } from './statistics.ts';

/** The same on both sides of the ratio. */
const POOL_SIZE = 8;
/** How many deliveries wait at a time: as with SQLite, and as many as a few senders behind a load balancer keep open. */
const CROWDS = [CONNECTIONS, 256] as const;
/**
 * Besides on a disk that takes its time, as many that are rented do: what waits for it is then what tells, where on a fast one
 * it is the processors. Every flush takes at least so long, and all that commits meanwhile shares it.
 */
const SLOW_FLUSH_MS = 5;
/** Shorter than on SQLite: each is a few seconds of a server that commits for real. */
const WARM_UP = 6_000;
const MEASURED = 18_000;
const TARGET = 2;
const LOAD = fileURLToPath(new URL('./load.ts', import.meta.url));

type Contender = 'naive' | 'accept' | 'accept + mirror' | 'two replicas';
const CONTENDERS: readonly Contender[] = ['naive', 'accept', 'accept + mirror', 'two replicas'];

interface Figures {
  perSecond: number;
  /** Of the server processes together, PostgreSQL's own not counted. */
  cpuUs: number;
  p50Ms: number;
  p99Ms: number;
}

interface Subject {
  contender: Contender;
  crowd: number;
  flushMs: number;
}

/** Deliveries per second, against one transaction a request on the same server, in rounds that alternate. */
export async function measurePostgres(options: {
  rounds: number;
  main?: string;
  say: (line: string) => void;
}): Promise<void> {
  const { say, rounds } = options;
  const server = await startPostgres(['-c', 'shared_buffers=128MB', '-c', 'commit_siblings=0']);
  const cases = [
    ...CROWDS.map((crowd) => ({ crowd, flushMs: 0 })),
    { crowd: CONNECTIONS, flushMs: SLOW_FLUSH_MS },
  ];
  const subjects = cases.flatMap((each) => CONTENDERS.map((contender): Subject => ({ contender, ...each })));
  const runs = new Map<Subject, Figures[]>(subjects.map((subject) => [subject, []]));
  say(`\nPostgreSQL: pools of ${POOL_SIZE}, synchronous_commit=on, events only.`);
  say('Naive: Hono, signature, one transaction for each request, on the same server.\n');
  try {
    for (let round = 1; round <= rounds; round += 1) {
      for (const subject of subjects) {
        const figures = await measure(subject, server, options.main);
        runs.get(subject)!.push(figures);
        say(`  round ${round} ${shown(subject, figures)}`);
      }
    }
  } finally {
    await server.stop();
  }
  const of = (subject: Subject): Figures => {
    const middle = (pick: (figures: Figures) => number) => median(runs.get(subject)!.map(pick));
    return {
      perSecond: middle(({ perSecond }) => perSecond),
      cpuUs: middle(({ cpuUs }) => cpuUs),
      p50Ms: middle(({ p50Ms }) => p50Ms),
      p99Ms: middle(({ p99Ms }) => p99Ms),
    };
  };
  say(`\nMedians of ${rounds} rounds, and per second as a ratio to the naive receiver:\n`);
  for (const subject of subjects) {
    const { contender, crowd, flushMs } = subject;
    const isPlain = (other: Subject) =>
      other.crowd === crowd && other.flushMs === flushMs && other.contender === 'naive';
    const ratio = of(subject).perSecond / of(subjects.find(isPlain)!).perSecond;
    const isJudged = contender === 'accept + mirror';
    const verdict = isJudged ? `  at least ${TARGET}: ${ratio >= TARGET ? 'met' : 'MISSED'}` : '';
    say(`  ${shown(subject, of(subject))}${ratio.toFixed(2).padStart(8)}${verdict}`);
  }
}

function shown({ contender, crowd, flushMs }: Subject, { perSecond, cpuUs, p50Ms, p99Ms }: Figures): string {
  const latency = `p50 ${p50Ms.toFixed(1).padStart(5)} ms, p99 ${p99Ms.toFixed(1).padStart(5)} ms`;
  return `${String(crowd).padStart(4)} connections, ${flushMs} ms a flush, ${contender.padEnd(16)}${String(Math.round(perSecond)).padStart(7)}/s, ${cpuUs.toFixed(0).padStart(4)} µs CPU each, ${latency}`;
}

/** One server process, or two, from the start to the end, on a database of its own. */
async function measure(
  { contender, crowd, flushMs }: Subject,
  postgres: PostgresServer,
  main: string | undefined,
): Promise<Figures> {
  const url = await postgres.createDatabase();
  await postgres.query(`ALTER SYSTEM SET commit_delay = ${flushMs * 1000}`);
  await postgres.reload();
  const servers: ServerProcess[] = [];
  const loads: ChildProcess[] = [];
  const ports: number[] = [];
  try {
    if (contender === 'naive') {
      const plain = startProcess(NAIVE, [], { DATABASE_URL: url, POOL_SIZE: String(POOL_SIZE) });
      servers.push(plain);
      ports.push(portIn(await plain.line('Baseline: ')));
    } else {
      for (let n = 0; n < (contender === 'two replicas' ? 2 : 1); n += 1) {
        const settings = { DATABASE_URL: url };
        const mirror = await startMirror('', settings, main === undefined ? {} : { main });
        servers.push(mirror);
        ports.push(mirror.port);
        if (contender === 'accept') await askOperators(mirror, '/api/pause', {});
      }
    }
    for (const _ of ports) loads.push(fork(LOAD));
    await run(loads, ports, { name: 'warm', count: WARM_UP, crowd });
    const cpuMs = async () =>
      (await Promise.all(servers.map((each) => each.usage()))).reduce((sum, usage) => sum + usage.cpuMs, 0);
    const before = await cpuMs();
    const figures = await run(loads, ports, { name: 'main', count: MEASURED, crowd });
    if (contender === 'accept + mirror' || contender === 'two replicas') {
      const seconds = MEASURED / figures.perSecond + (await secondsUntilEmpty(url));
      figures.perSecond = MEASURED / seconds;
    }
    return { ...figures, cpuUs: (((await cpuMs()) - before) * 1000) / MEASURED };
  } finally {
    for (const load of loads) load.disconnect();
    for (const server of servers) server.kill('SIGTERM');
    await Promise.all(servers.map((server) => server.exited));
  }
}

async function secondsUntilEmpty(url: string): Promise<number> {
  const began = performance.now();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const isEmpty = async () => {
    const { rows } = await client.query("SELECT 1 FROM events WHERE state = 'pending' LIMIT 1");
    return rows.length === 0;
  };
  while (!(await isEmpty())) await setTimeout(POLL_MS);
  await client.end();
  return (performance.now() - began) / 1_000;
}

const POLL_MS = 10;

/** The same number of requests and connections in all, however many take them. */
async function run(
  loads: readonly ChildProcess[],
  ports: readonly number[],
  { name, count, crowd }: { name: string; count: number; crowd: number },
): Promise<Omit<Figures, 'cpuUs'>> {
  const share = { connections: crowd / ports.length, count: count / ports.length, records: RECORDS };
  await Promise.all(loads.map((load, n) => prepare(load, { ...share, port: ports[n]!, run: `${name}${n}` })));
  const reports = await Promise.all(loads.map(fire));
  const good = reports.reduce((sum, { statuses }) => sum + (statuses['202'] ?? 0), 0);
  if (good !== count) throw new Error(`not every request was accepted: ${JSON.stringify(reports)}`);
  return {
    perSecond: count / Math.max(...reports.map(({ seconds }) => seconds)),
    p50Ms: Math.max(...reports.map(({ p50Ms }) => p50Ms)),
    p99Ms: Math.max(...reports.map(({ p99Ms }) => p99Ms)),
  };
}
