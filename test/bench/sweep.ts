import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { type BusyOptions, PAGE_SIZE, startReading, VENDORS_API } from './busy.ts';
import { askOperators, type Mirror, type ServerProcess, startProcess, stopMirror } from './processes.ts';
import { median } from './statistics.ts';

/**
 * A full sync of vendors beside a loop that only fetches and parses the same pages: of new ones, and of unchanged ones. Each is
 * compared with a pass of the loop just before it in a process as old: its first pass, and one after others. The service works
 * on several threads, so that its speed and its processor time are told apart.
 */

const ROUNDS = 5;
const POLL_MS = 5;
const FETCH_LOOP = fileURLToPath(new URL('./fetch-loop.ts', import.meta.url));

interface Took {
  seconds: number;
  cpuSeconds: number;
}

export async function measureSweep({ size, latencyMs, say, main }: BusyOptions): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-sweep-'));
  const api = startProcess(VENDORS_API, [String(size), String(latencyMs)], {});
  try {
    const url = (await api.line('Vendors: ')).replace('Vendors: ', '');
    // The API's own first pass is slower than all that follow.
    await (await startLoop(url)).end();
    const loop = await startLoop(url);
    const firstPass = await loop.pass();
    const database = join(folder, 'mirror.db');
    const mirror = await startReading(database, url, main);
    const first = await filled(mirror, database, size);
    say(
      `\nFull syncs of ${size} vendors in pages of ${PAGE_SIZE}, ${latencyMs} ms an answer, beside a loop that fetches and parses them:`,
    );
    report('the loop, first pass', firstPass, firstPass, say);
    report('of new ones', first, firstPass, say);
    const passes: Took[] = [];
    const syncs: Took[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      await ended(database, round);
      passes.push(await loop.pass());
      const { cpuMs } = await mirror.usage();
      await askOperators(mirror, '/api/syncs', { kinds: ['vendor'] });
      const seconds = await ended(database, round + 1);
      syncs.push({ seconds, cpuSeconds: ((await mirror.usage()).cpuMs - cpuMs) / 1_000 });
    }
    report('the loop, later', medians(passes), medians(passes), say);
    report('of unchanged ones', medians(syncs), medians(passes), say);
    const { maxRssBytes } = await mirror.usage();
    say(`  medians of ${ROUNDS}; largest RSS: ${Math.round(maxRssBytes / 2 ** 20)} MiB`);
    await stopMirror(mirror);
    await loop.end();
  } finally {
    api.kill('SIGTERM');
    await api.exited;
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startLoop(url: string): Promise<{ pass(): Promise<Took>; end(): Promise<unknown> }> {
  const loop: ServerProcess = startProcess(FETCH_LOOP, [url, String(PAGE_SIZE)], {});
  await loop.line('Ready');
  let passes = 0;
  return {
    async pass() {
      passes += 1;
      loop.child.send('pass');
      return JSON.parse((await loop.line(`Pass ${passes}: `)).replace(/^.*?: /, '')) as Took;
    },
    end() {
      loop.kill('SIGKILL');
      return loop.exited;
    },
  };
}

/** Until the last is held. What follows is a wait: whether an event tells of a deletion that may have moved the list. */
async function filled(mirror: Mirror, database: string, size: number): Promise<Took> {
  const { cpuMs } = await mirror.usage();
  const seconds = await asked(
    database,
    `SELECT (julianday('now') - julianday(started_at)) * 86400 FROM sync_runs
     WHERE kind = 'vendor' AND (SELECT count(*) FROM vendors) >= ?`,
    size,
  );
  return { seconds, cpuSeconds: ((await mirror.usage()).cpuMs - cpuMs) / 1_000 };
}

const ended = (database: string, number: number): Promise<number> =>
  asked(
    database,
    `SELECT (julianday(finished_at) - julianday(started_at)) * 86400 FROM sync_runs
     WHERE kind = 'vendor' AND outcome = 'complete' ORDER BY id LIMIT 1 OFFSET ?`,
    number,
  );

/** Looks until there is a figure. */
async function asked(database: string, sql: string, parameter: number): Promise<number> {
  const db = new Database(database, { readonly: true });
  try {
    const statement = db.prepare(sql).pluck();
    for (;;) {
      const found = statement.get(parameter) as number | undefined;
      if (found !== undefined) return found;
      await setTimeout(POLL_MS);
    }
  } finally {
    db.close();
  }
}

const medians = (took: readonly Took[]): Took => ({
  seconds: median(took.map(({ seconds }) => seconds)),
  cpuSeconds: median(took.map(({ cpuSeconds }) => cpuSeconds)),
});

function report(what: string, took: Took, bare: Took, say: (line: string) => void): void {
  const ratios = `×${(bare.seconds / took.seconds).toFixed(2)} of its speed, ×${(bare.cpuSeconds / took.cpuSeconds).toFixed(2)} by processor time`;
  say(
    `  ${what.padEnd(22)}${took.seconds.toFixed(2).padStart(7)} s ${took.cpuSeconds.toFixed(2).padStart(7)} s CPU   ${ratios}`,
  );
}
