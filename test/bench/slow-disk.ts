import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { OPEN_LOOP_HEADS, type OpenLoopFigures, offer, openLoopCells } from './open-loop.ts';
import { startMirror } from './processes.ts';

const HINDERED = fileURLToPath(new URL('../support/hindered-database.ts', import.meta.url));

const FLUSHES_MS = [0, 20, 100, 400];
const PER_SECOND = [40, 200, 1_000];
const SECONDS = 10;
/** Offered before, and not counted: what runs for the first time is compiled first. */
const WARM_UP_SECONDS = 2;

/**
 * How deliveries and probes fare where each flush to the disk takes long.
 */
export async function measureSlowDisk({
  say,
  main,
}: {
  say: (line: string) => void;
  main?: string;
}): Promise<void> {
  say(`\nA disk that is slow to flush, ${SECONDS} s each; probes beside them:`);
  const row = (cells: readonly (string | number)[]) =>
    say(`  ${cells.map((cell) => `${cell}`.padStart(17)).join('')}`);
  row(['ms a flush', 'offered/s', ...OPEN_LOOP_HEADS]);
  for (const flushMs of FLUSHES_MS) {
    for (const perSecond of PER_SECOND) {
      const found = await measure(flushMs, perSecond, main);
      row([flushMs, perSecond, ...openLoopCells(found)]);
    }
  }
}

async function measure(
  flushMs: number,
  perSecond: number,
  main: string | undefined,
): Promise<OpenLoopFigures> {
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-slow-disk-'));
  const mirror = await startMirror(
    join(directory, 'mirror.db'),
    { SLOW_FLUSH_MS: String(flushMs) },
    { ...(main === undefined ? {} : { main }), nodeArgs: ['--import', HINDERED] },
  );
  try {
    await offer(mirror, { run: 'warm', perSecond, seconds: WARM_UP_SECONDS });
    return await offer(mirror, { run: 'main', perSecond, seconds: SECONDS });
  } finally {
    // It may have much left to work off, at a flush each time.
    mirror.kill('SIGKILL');
    await mirror.exited;
    rmSync(directory, { recursive: true, force: true });
  }
}
