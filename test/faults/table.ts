import type { Row } from './row.ts';

const HEADS = ['fault', 'rounds', 'acknowledged', 'found after', 'lost', '503', 'verdict', 'note'];

export function isGood(row: Row): boolean {
  if (row.skipped !== undefined || row.faults.length > 0) return false;
  return row.isControl ? row.lost > 0 : row.lost === 0;
}

/** The whole table as text, what went wrong below it. */
export function renderRows(rows: readonly Row[]): string {
  const cells = rows.map((row) =>
    row.skipped !== undefined
      ? [row.fault, '-', '-', '-', '-', '-', 'skipped', row.skipped]
      : [
          row.fault,
          ...[row.rounds, row.acknowledged, row.found, row.lost, row.turnedAway].map(String),
          isGood(row) ? (row.isControl ? 'loses' : 'good') : 'BAD',
          row.note,
        ],
  );
  const widths = HEADS.map((head, column) =>
    Math.max(head.length, ...cells.map((row) => row[column]!.length)),
  );
  const lines = [HEADS, ...cells].map((row) =>
    row
      .map((cell, column) =>
        column >= 1 && column <= 5 ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
      )
      .join('  ')
      .trimEnd(),
  );
  const faults = rows.flatMap((row) => row.faults.map((fault) => `${row.fault}: ${fault}`));
  return `${[...lines, ...faults].join('\n')}\n`;
}
