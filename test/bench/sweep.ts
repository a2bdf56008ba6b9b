import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { type BusyOptions, PAGE_SIZE, startReading, VENDORS_API } from './busy.ts';
import { askOperators, startProcess, stopMirror } from './processes.ts';

/** A full sync of vendors beside a loop that only fetches and parses the same pages: of new ones, and of unchanged ones. */

const POLL_MS = 20;
const FETCH_LOOP = fileURLToPath(new URL('./fetch-loop.ts', import.meta.url));

interface Took {
  seconds: number;
  cpuSeconds: number;
}

export async function measureSweep({ size, say, main }: BusyOptions): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'compliance-mirror-sweep-'));
  const api = startProcess(VENDORS_API, [String(size)], {});
  try {
    const url = (await api.line('Vendors: ')).replace('Vendors: ', '');
    await fetchLoop(url);
    const bare = await fetchLoop(url);
    const database = join(folder, 'mirror.db');
    const mirror = await startReading(database, url, main);
    const db = new Database(database, { readonly: true });
    const finished = db.prepare(
      `SELECT (julianday(finished_at) - julianday(started_at)) * 86400 AS seconds FROM sync_runs
       WHERE kind = 'vendor' AND outcome = 'complete' ORDER BY id LIMIT 1 OFFSET ?`,
    );
    const synced = async (number: number, cpuBefore: number): Promise<Took & { maxRssMiB: number }> => {
      for (;;) {
        const row = finished.get(number) as { seconds: number } | undefined;
        if (row !== undefined) {
          const { cpuMs, maxRssBytes } = await mirror.usage();
          return {
            seconds: row.seconds,
            cpuSeconds: (cpuMs - cpuBefore) / 1_000,
            maxRssMiB: maxRssBytes / 2 ** 20,
          };
        }
        await setTimeout(POLL_MS);
      }
    };
    say(
      `\nFull syncs of ${size} vendors in pages of ${PAGE_SIZE}, beside a loop that fetches and parses them:`,
    );
    report('the loop', bare, bare, say);
    const first = await synced(0, 0);
    report('of new ones', first, bare, say);
    const { cpuMs } = await mirror.usage();
    await askOperators(mirror, '/api/sync-runs', { kind: 'vendor' });
    const second = await synced(1, cpuMs);
    report('of unchanged ones', second, bare, say);
    say(`  largest RSS: ${Math.round(second.maxRssMiB)} MiB`);
    db.close();
    await stopMirror(mirror);
  } finally {
    api.kill('SIGTERM');
    await api.exited;
    rmSync(folder, { recursive: true, force: true });
  }
}

async function fetchLoop(url: string): Promise<Took> {
  const started = performance.now();
  const loop = startProcess(FETCH_LOOP, [url, String(PAGE_SIZE)], {});
  await loop.line('Fetched: ');
  const seconds = (performance.now() - started) / 1_000;
  const { cpuMs } = await loop.usage();
  loop.kill('SIGKILL');
  await loop.exited;
  return { seconds, cpuSeconds: cpuMs / 1_000 };
}

function report(what: string, took: Took, bare: Took, say: (line: string) => void): void {
  const ratios = `×${(bare.seconds / took.seconds).toFixed(2)} of its speed, ×${(bare.cpuSeconds / took.cpuSeconds).toFixed(2)} by processor time`;
  say(
    `  ${what.padEnd(20)}${took.seconds.toFixed(1).padStart(7)} s ${took.cpuSeconds.toFixed(1).padStart(7)} s CPU   ${ratios}`,
  );
}
