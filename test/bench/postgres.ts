import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { askOperators, portIn, type ServerProcess, startMirror, startProcess } from './processes.ts';
import { CONNECTIONS, fire, prepare, RECORDS } from './ratios.ts';
import { median } from './statistics.ts';

/** The same on both sides of the ratio. */
const POOL_SIZE = 8;
/** Shorter than on SQLite: each is a few seconds of a server that commits for real. */
const WARM_UP = 4_000;
const MEASURED = 12_000;
const TARGET = 2;
const INSERT_BASELINE = fileURLToPath(new URL('./insert-baseline.ts', import.meta.url));
const LOAD = fileURLToPath(new URL('./load.ts', import.meta.url));

type Contender = 'one insert each' | 'accept' | 'accept + mirror' | 'two replicas';
const CONTENDERS: readonly Contender[] = ['one insert each', 'accept', 'accept + mirror', 'two replicas'];

interface Figures {
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
}

/** Accepted deliveries per second, against one INSERT a request on the same server, in rounds that alternate. */
export async function measurePostgres(options: {
  rounds: number;
  main?: string;
  say: (line: string) => void;
}): Promise<void> {
  const { say, rounds } = options;
  const server = await startPostgres(['-c', 'shared_buffers=128MB']);
  const runs = new Map<Contender, Figures[]>(CONTENDERS.map((contender) => [contender, []]));
  say(`\nPostgreSQL: ${CONNECTIONS} connections, pools of ${POOL_SIZE}, synchronous_commit=on, events only.`);
  say('Baseline: Hono does one INSERT … ON CONFLICT DO NOTHING for each request, on the same server.\n');
  try {
    for (let round = 1; round <= rounds; round += 1) {
      for (const contender of CONTENDERS) {
        const figures = await measure(contender, server, options.main);
        runs.get(contender)!.push(figures);
        say(
          `  round ${round} ${contender.padEnd(16)} ${Math.round(figures.perSecond)}/s, p50 ${figures.p50Ms.toFixed(1)} ms, p99 ${figures.p99Ms.toFixed(1)} ms`,
        );
      }
    }
  } finally {
    await server.stop();
  }
  const of = (contender: Contender) => median(runs.get(contender)!.map(({ perSecond }) => perSecond));
  const plain = of('one insert each');
  say(`\nMedians of ${rounds} rounds, accepted per second, and as a ratio to one INSERT each:\n`);
  for (const contender of CONTENDERS) {
    const ratio = of(contender) / plain;
    const target =
      contender === 'accept' ? `  at least ${TARGET}: ${ratio >= TARGET ? 'met' : 'MISSED'}` : '';
    say(
      `  ${contender.padEnd(16)}${String(Math.round(of(contender))).padStart(10)}${ratio.toFixed(2).padStart(10)}${target}`,
    );
  }
}

/** One server process, or two, from the start to the end, on a database of its own. */
async function measure(
  contender: Contender,
  postgres: PostgresServer,
  main: string | undefined,
): Promise<Figures> {
  const url = await postgres.createDatabase();
  const servers: ServerProcess[] = [];
  const loads: ChildProcess[] = [];
  const ports: number[] = [];
  try {
    if (contender === 'one insert each') {
      const plain = startProcess(INSERT_BASELINE, [], { DATABASE_URL: url, POOL_SIZE: String(POOL_SIZE) });
      servers.push(plain);
      ports.push(portIn(await plain.line('Baseline: ')));
    } else {
      for (let n = 0; n < (contender === 'two replicas' ? 2 : 1); n += 1) {
        const settings = { DATABASE_URL: url, DATABASE_POOL_SIZE: String(POOL_SIZE) };
        const mirror = await startMirror('', settings, main === undefined ? {} : { main });
        servers.push(mirror);
        ports.push(mirror.port);
        if (contender === 'accept') await askOperators(mirror, '/api/pause', {});
      }
    }
    for (const _ of ports) loads.push(fork(LOAD));
    await run(loads, ports, 'warm', WARM_UP);
    return await run(loads, ports, 'main', MEASURED);
  } finally {
    for (const load of loads) load.disconnect();
    for (const server of servers) server.kill('SIGTERM');
    await Promise.all(servers.map((server) => server.exited));
  }
}

/** The same number of requests and connections in all, however many take them. */
async function run(
  loads: readonly ChildProcess[],
  ports: readonly number[],
  name: string,
  count: number,
): Promise<Figures> {
  const share = { connections: CONNECTIONS / ports.length, count: count / ports.length, records: RECORDS };
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
