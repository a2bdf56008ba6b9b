import { type Row, waitOf } from './play.ts';

const HEADS = [
  'attack',
  'size',
  'slowest answer for others',
  'others served',
  'memory',
  'attacker served / rejected / unanswered',
  'log',
  'verdict',
];
const RIGHT: ReadonlySet<number> = new Set([3, 4, 5, 6]);

export const isHeld = (row: Row): boolean => row.faults.length + row.late.length === 0;

/**
 * The whole table as text. `12 of 40 ms`: of the 40 that somebody waited, 28 went by in the queue for a processor. What broke a bound stands
 * below it.
 */
export function renderRows(rows: readonly Row[]): string {
  const cells = rows.map((row) => [
    row.name,
    row.size,
    `${waitOf(row.slowest).toFixed(0)} of ${row.slowest.worst.ms.toFixed(0)} ms (${row.slowest.name})`,
    `${row.others.served} of ${row.others.served + row.others.failed}`,
    `+${row.grownMb.toFixed(0)} MB`,
    `${row.counts.served} / ${row.counts.rejected} / ${row.counts.unanswered}`,
    `${(row.logBytes / 1024).toFixed(0)} KiB`,
    isHeld(row) ? 'held' : 'BROKEN',
  ]);
  const widths = HEADS.map((head, column) =>
    Math.max(head.length, ...cells.map((row) => row[column]!.length)),
  );
  const lines = [HEADS, ...cells].map((row) =>
    row
      .map((cell, column) =>
        RIGHT.has(column) ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
      )
      .join('  ')
      .trimEnd(),
  );
  const notes = rows.flatMap((row) => [
    ...(row.counts.note === '' ? [] : [`${row.name}: ${row.counts.note}`]),
    ...[...row.faults, ...row.late].map((fault) => `${row.name}: BROKEN: ${fault}`),
  ]);
  return `${[...lines, ...notes].join('\n')}\n`;
}
