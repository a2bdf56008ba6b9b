import type { Status } from '../ops/api/schemas.ts';
import { span } from '../ops/words.ts';
import type { Screen } from './cli.ts';

/** For a terminal that does not say how wide it is. */
const USUAL_COLUMNS = 80;
/** On a terminal one line is redrawn. Elsewhere every line stays, so there are fewer. Milliseconds. */
const REDRAW_EVERY_MS = 100;
const LINE_EVERY_MS = 10_000;

/** Shows one line that is redrawn on a terminal, and a line now and then elsewhere. */
export function progressOn(screen: Screen) {
  let shownAt = performance.now();
  let isOpen = false;
  const end = () => {
    if (isOpen) screen.write('\r\u001b[K');
    isOpen = false;
  };
  return {
    /** Clears the terminal's line, as disposing does. */
    end,
    [Symbol.dispose]: end,
    /** Asks for the text only when it is time to show one. On a terminal, `isNews` is shown at once. */
    show(text: () => string, isNews = false): void {
      const now = performance.now();
      const everyMs = screen.isTerminal ? REDRAW_EVERY_MS : LINE_EVERY_MS;
      if (now - shownAt < everyMs && !(isNews && screen.isTerminal)) return;
      shownAt = now;
      end();
      const shown = text();
      if (shown === '') return;
      // A line that wraps could not be redrawn.
      screen.write(screen.isTerminal ? shown.slice(0, (screen.columns ?? USUAL_COLUMNS) - 1) : `${shown}\n`);
      isOpen = screen.isTerminal;
    },
  };
}

const BAR_CELLS = 20;

/** `share`: from 0 to 1. */
function barOf(share: number): string {
  const filled = Math.floor(share * BAR_CELLS);
  return `[${'#'.repeat(filled)}${'.'.repeat(BAR_CELLS - filled)}] `;
}

/** Null: the total is not known. At most 1, because rows may have been added since they were counted. */
const shareOf = (done: number, total: number | null) => (total ? Math.min(1, done / total) : null);

/** The bar needs a known total. Pure. */
export function progressText(label: string, done: number, total: number | null, withBar: boolean): string {
  const count = `${done.toLocaleString('en-US')} rows`;
  const share = shareOf(done, total);
  if (share === null) return `${label}: ${count}`;
  return `${label}: ${withBar ? barOf(share) : ''}${Math.floor(share * 100)} %, ${count}`;
}

/** While a Retry-After runs. */
export const pauseWords = (until: string) => `waits until ${until}, as the service asked (Retry-After)`;

type Running = Status['sync_runs']['running'][number];

/** Several full syncs, in one line or a line each. */
export function describeSyncRuns(
  syncRuns: readonly Running[],
  budgetLeft: number,
  inOneLine: boolean,
): string {
  return syncRuns
    .map((syncRun) => describeSyncRun(syncRun, budgetLeft, inOneLine))
    .join(inOneLine ? ' | ' : '\n');
}

function describeSyncRun(syncRun: Running, budgetLeft: number, withBar: boolean): string {
  const { kind, pages, seen, estimated_total: total, records_per_second: rate, seconds_left: left } = syncRun;
  const share = shareOf(seen, total);
  return [
    `${withBar && share !== null ? barOf(share) : ''}${kind}: ${seen}${total === null ? '' : ` of ${total}`} records`,
    `${pages} pages`,
    ...(rate === null ? [] : [`${rate} records/s`]),
    `budget ${budgetLeft}`,
    ...(left === null ? [] : [`${span(left)} left`]),
  ].join(', ');
}
