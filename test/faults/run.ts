import { corruptFile } from './corrupt-file.ts';
import { diskFull, noSpace } from './disk-full.ts';
import { flushError } from './flush-error.ts';
import { foreignLock } from './foreign-lock.ts';
import { killAtFlush } from './kill-at-flush.ts';
import { failingMigration, killInMigration } from './migration.ts';
import { powerLoss } from './power-loss.ts';
import type { Row } from './row.ts';
import { isGood, renderRows } from './table.ts';

/** `node test/faults/run.ts`: every fault of the disk and every crash, at full length. Takes some minutes. */
const upTo = (count: number, step = 1, from = 1) =>
  Array.from({ length: count }, (_, index) => from + index * step);
const AFTER = upTo(20, 17, 3);

const CHECKS: Readonly<Record<string, () => Promise<Row>>> = {
  kill: () => killAtFlush(upTo(100)),
  'power-loss': () => powerLoss({ after: AFTER, keepPercent: 0 }),
  'power-loss-some': () => powerLoss({ after: AFTER, keepPercent: 50 }),
  'power-loss-processed': () => powerLoss({ after: AFTER, keepPercent: 0, once: 'processed' }),
  'power-loss-shown': () => powerLoss({ after: AFTER, keepPercent: 0, once: 'asked' }),
  'power-loss-control': () => powerLoss({ after: AFTER.slice(0, 5), keepPercent: 0, control: true }),
  eio: () => flushError([...upTo(20), ...upTo(20, 7, 24)]),
  enospc: () => noSpace([...upTo(10, 23, 400)].map((from) => [from, from + 40] as const)),
  'disk-full': diskFull,
  damage: () => corruptFile(),
  lock: foreignLock,
  'migration-kill': () => killInMigration(upTo(50, 10)),
  'migration-fails': failingMigration,
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in CHECKS));
if (unknown.length > 0) {
  process.stderr.write(
    `No such check: ${unknown.join(', ')}. There are: ${Object.keys(CHECKS).join(', ')}.\n`,
  );
  process.exit(2);
}
const rows: Row[] = [];
for (const [name, check] of Object.entries(CHECKS)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const startedAt = performance.now();
  rows.push(await check());
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
  process.stderr.write(`${name}: ${seconds} s\n`);
}
process.stdout.write(renderRows(rows));
process.exitCode = rows.every((row) => row.skipped !== undefined || isGood(row)) ? 0 : 1;
