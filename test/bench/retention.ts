import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { systemClock } from '../../src/platform/clock.ts';
import { createTrim } from '../../src/service/upkeep.ts';
import { openStore } from '../../src/store/open.ts';
import type { RetentionStore } from '../../src/store/store.ts';
import { fillStored } from './stored.ts';

/** How fast old rows are trimmed, and how long the longest step holds the database. */

const SETTINGS = { bodyDays: 1, historyDays: 2, dedupeDays: 3 };
const SECONDS = 20;

export async function measureRetention({
  size,
  say,
}: {
  size: number;
  say: (line: string) => void;
}): Promise<void> {
  const folder = mkdtempSync(`${tmpdir()}/mirror-retention-`);
  const store = await openStore(`file:${await fillStored(folder, 'old', { events: size, records: size })}`);
  let slowestMs = 0;
  const timed: RetentionStore = {
    async trim(thing, step) {
      const started = performance.now();
      const done = await store.trim(thing, step);
      slowestMs = Math.max(slowestMs, performance.now() - started);
      return done;
    },
  };
  const trim = createTrim({ store: timed, clock: systemClock(), settings: SETTINGS });
  const started = performance.now();
  const { rows } = await trim(AbortSignal.timeout(SECONDS * 1_000));
  const seconds = (performance.now() - started) / 1_000;
  say(`\nTrimming of ${size} events that are all old, for ${seconds.toFixed(0)} s:`);
  for (const [thing, count] of Object.entries(rows))
    say(`  ${thing.padEnd(20)}${Math.round(count / seconds)}/s`);
  say(`  slowest step: ${slowestMs.toFixed(1)} ms`);
  await store.close();
  rmSync(folder, { recursive: true, force: true });
}
