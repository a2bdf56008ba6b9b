import type { Screen } from '../cli.ts';

/** A terminal's line is drawn anew this often; elsewhere, where each is kept, a line comes more rarely. Milliseconds. */
const REDRAW_EVERY_MS = 100;
const LINE_EVERY_MS = 5_000;
const BAR_CELLS = 24;

export interface Progress {
  show(done: number, total: number | null): void;
  /** Leaves a terminal's line empty. */
  end(): void;
}

/** One line that is drawn over on a terminal, a line now and then elsewhere. */
export function progressOn(screen: Screen, label: string, unit: string): Progress {
  let shownAt = performance.now();
  let isOpen = false;
  return {
    show(done, total) {
      const now = performance.now();
      if (now - shownAt < (screen.isTerminal ? REDRAW_EVERY_MS : LINE_EVERY_MS)) return;
      shownAt = now;
      const text = progressText(label, unit, done, total, screen.isTerminal);
      screen.write(screen.isTerminal ? `\r\u001b[K${text}` : `${text}\n`);
      isOpen = screen.isTerminal;
    },
    end() {
      if (isOpen) screen.write('\r\u001b[K');
      isOpen = false;
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
