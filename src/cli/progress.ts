import type { Screen } from './cli.ts';

/** A running full sync as `/api/status` shows it. */
export interface Progress {
  id: number;
  kind: string;
  pages: number;
  seen: number;
  estimated_total: number | null;
  records_per_second: number | null;
  seconds_left: number | null;
}

const BAR_WIDTH = 20;
/** Of a terminal that does not say, or says 0. */
const USUAL_COLUMNS = 80;

/** One line about one full sync. Pure. */
export function describeProgress(syncRun: Progress, budgetLeft: number, options: { bar: boolean }): string {
  const { kind, pages, seen, estimated_total: total, records_per_second: rate, seconds_left: left } = syncRun;
  const share = total === null || total === 0 ? null : Math.min(1, seen / total);
  const filled = Math.floor((share ?? 0) * BAR_WIDTH);
  const bar =
    options.bar && share !== null ? `[${'#'.repeat(filled)}${'.'.repeat(BAR_WIDTH - filled)}] ` : '';
  return [
    `${bar}${kind}: ${seen}${total === null ? '' : ` of ${total}`} records`,
    `${pages} pages`,
    ...(rate === null ? [] : [`${rate} records/s`]),
    `budget ${budgetLeft}`,
    ...(left === null ? [] : [`${duration(left)} left`]),
  ].join(', ');
}

function duration(seconds: number): string {
  if (seconds < 60) return `${Math.ceil(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.ceil(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.ceil((seconds % 3600) / 60)} min`;
}

/** What is shown of several: beside each other in one line that is drawn over, and else a line each. */
export function describeSyncRuns(
  syncRuns: readonly Progress[],
  budgetLeft: number,
  inOneLine: boolean,
): string {
  return syncRuns
    .map((syncRun) => describeProgress(syncRun, budgetLeft, { bar: inOneLine }))
    .join(inOneLine ? ' | ' : '\n');
}

/** A terminal's line is drawn anew this often; elsewhere, where each is kept, a line comes more rarely. Milliseconds. */
const REDRAW_EVERY_MS = 100;
const LINE_EVERY_MS = 5_000;
const BAR_CELLS = 24;

interface ProgressLine {
  /** Asks for the text only when it is time for one. */
  show(text: () => string): void;
  /** Leaves a terminal's line empty. */
  end(): void;
}

/** One line that is drawn over on a terminal, lines now and then elsewhere. */
export function progressOn(screen: Screen, lineEveryMs = LINE_EVERY_MS): ProgressLine {
  let shownAt = performance.now();
  let isOpen = false;
  const end = () => {
    if (isOpen) screen.write('\r\u001b[K');
    isOpen = false;
  };
  return {
    end,
    show(text) {
      const now = performance.now();
      if (now - shownAt < (screen.isTerminal ? REDRAW_EVERY_MS : lineEveryMs)) return;
      shownAt = now;
      end();
      const shown = text();
      if (shown === '') return;
      // A line that wraps could not be drawn over.
      screen.write(screen.isTerminal ? shown.slice(0, (screen.columns ?? USUAL_COLUMNS) - 1) : `${shown}\n`);
      isOpen = screen.isTerminal;
    },
  };
}

/** Pure. With a bar where it is drawn over, and where the total is known. */
export function progressText(
  label: string,
  unit: string,
  done: number,
  total: number | null,
  withBar: boolean,
): string {
  const count = `${done.toLocaleString('en-US')} ${unit}`;
  if (total === null || total === 0) return `${label}: ${count}`;
  // A total is a count of before; what came since must not push the bar past its end.
  const share = Math.min(1, done / total);
  const filled = Math.round(share * BAR_CELLS);
  const bar = withBar ? `[${'#'.repeat(filled)}${'-'.repeat(BAR_CELLS - filled)}] ` : '';
  return `${label}: ${bar}${Math.floor(share * 100)} %, ${count}`;
}
