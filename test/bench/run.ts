import { parseArgs } from 'node:util';
import { measureBacklog, measureFullSync } from './busy.ts';
import { measureGrowth } from './growth.ts';
import { measureOneByOne } from './one-by-one.ts';
import { measurePages } from './pages.ts';
import { measurePostgres } from './postgres.ts';
import { CONNECTIONS, measureRatios, RECORDS } from './ratios.ts';
import { measureSlowDisk } from './slow-disk.ts';
import { measureSweep } from './sweep.ts';
import { measureVisible } from './visible.ts';

/**
 * `npm run bench [-- --rounds N] [--only SECTION] [--size N] [--latency MS] [--main FILE]`, sections:
 * ratios, visible, open-loop, pages, growth, slow-disk, backlog, full-sync, sweep, postgres. `--main` measures another
 * build; `--size`: events that wait or are stored, vendors that are listed; `--latency`: of each page of `sweep`.
 * Exits 0 whatever the figures are: they are for reading, and a busy machine is no reason to fail.
 */
const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    only: { type: 'string' },
    size: { type: 'string', default: '100000' },
    latency: { type: 'string', default: '0' },
    main: { type: 'string' },
  },
});

const say = (line: string) => process.stdout.write(`${line}\n`);
const main = flags.main === undefined ? {} : { main: flags.main };

const wanted = (section: string) => flags.only === undefined || flags.only === section;
if (wanted('ratios')) await ratios();
if (wanted('visible')) await measureVisible({ ...main, say });
if (wanted('open-loop')) await measureOneByOne({ ...main, say });
if (wanted('pages')) await measurePages({ size: Number(flags.size), say });
if (wanted('growth')) await measureGrowth({ size: Number(flags.size), say });
if (wanted('slow-disk')) await measureSlowDisk({ ...main, say });
const busy = { ...main, say, size: Number(flags.size), latencyMs: Number(flags.latency) };
if (wanted('backlog')) await measureBacklog(busy);
if (wanted('full-sync')) await measureFullSync(busy);
if (wanted('sweep')) await measureSweep(busy);
if (wanted('postgres')) await measurePostgres({ ...main, rounds: Math.min(3, Number(flags.rounds)), say });

async function ratios(): Promise<void> {
  const rounds = Number(flags.rounds);
  say(
    `${CONNECTIONS} connections, ${RECORDS} records, bodies of 480 bytes; LOG_LEVEL=warn, events only, synchronous=FULL.`,
  );
  say(
    'Baseline: Hono on @hono/node-server reads the same body and answers 202. Naive: one transaction a request.\n',
  );
  const { baseline, naive, accept, mirror } = await measureRatios({ rounds, say, ...main });

  say(`\nMedians of ${rounds} interleaved runs, process CPU until the backlog is empty:\n`);
  row('', 'µs CPU/request', 'requests/s', 'p50 ms', 'p99 ms', 'max RSS MiB');
  for (const [name, run] of Object.entries({ baseline, naive, accept, 'accept + mirror': mirror })) {
    row(name, run.cpuUs, Math.round(run.perSecond), run.p50Ms, run.p99Ms, Math.round(run.maxRssMiB));
  }
  say('');
  row('', 'measured', 'target', '');
  verdict('accept, ratio', baseline.cpuUs / accept.cpuUs, 0.36, 'at least');
  verdict('accept + mirror, ratio', baseline.cpuUs / mirror.cpuUs, 0.26, 'at least');
  verdict('processed a second, × naive', mirror.processedPerSecond / naive.perSecond, 3, 'at least');
  verdict('p99, × naive', mirror.p99Ms / naive.p99Ms, 1, 'at most');
  verdict('acknowledgement p99, × baseline', mirror.p99Ms / baseline.p99Ms, 5, 'at most');
  verdict('backlog at the end, s of arrivals', mirror.backlogSeconds, 1, 'at most');
}

function verdict(name: string, value: number, target: number, sense: 'at least' | 'at most'): void {
  const met = sense === 'at least' ? value >= target : value <= target;
  row(name, value, `${sense} ${target}`, met ? 'met' : 'MISSED');
}

function row(name: string, ...cells: (string | number)[]): void {
  const texts = cells.map((cell) =>
    typeof cell === 'number' && !Number.isInteger(cell) ? cell.toFixed(2) : `${cell}`,
  );
  say(`  ${name.padEnd(34)}${texts.map((text) => text.padStart(15)).join('')}`);
}
