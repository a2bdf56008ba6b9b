import type { Clock } from './clock.ts';
import type { Logger } from './logger.ts';

/** As in alerts, and short enough to read a summary while it happens. */
const WINDOW_MS = 60_000;
/** Lines of one sort in a window: enough to see a real sender's trouble. With 300 bytes each, a flood writes 9 MB a day. */
const FIRST_LINES = 20;

type Level = 'info' | 'warn' | 'error';

/** Lines with the same sort and message are alike. Both are words from fixed lists and never a sender's text. */
interface Sort {
  outcome: string;
  reason: string | null;
}

export type LogLimit = ReturnType<typeof createLogLimit>;

/**
 * For lines that a stranger can cause: in each minute the first lines of each sort are written at once. The others are counted,
 * and at the end of the minute one line says how many there were.
 */
export function createLogLimit(clock: Pick<Clock, 'steady' | 'sleep'>) {
  /** Of the present minute, which begins with the first line. */
  const sorts = new Map<string, { log: Logger; level: Level; message: string; sort: Sort; count: number }>();
  let openedAt = 0;
  let minute = new AbortController();

  function open(): void {
    openedAt = clock.steady();
    minute = new AbortController();
    const { signal } = minute;
    void clock.sleep(WINDOW_MS, signal).then(() => {
      if (!signal.aborted) flush();
    });
  }

  function flush(): void {
    minute.abort();
    const seconds = Math.max(1, Math.round((clock.steady() - openedAt) / 1000));
    const over = [...sorts.values()].filter(({ count }) => count > FIRST_LINES);
    sorts.clear();
    for (const { log, level, message, sort, count } of over) {
      const left = count - FIRST_LINES;
      log[level]({ ...sort, count: left }, `${message}: … ${left} more like this in ${seconds} s`);
    }
  }

  return {
    /** Writes a line, or only counts it. */
    write(log: Logger, level: Level, fields: Sort & Record<string, unknown>, message: string): void {
      if (sorts.size === 0) open();
      const { outcome, reason } = fields;
      const key = `${message} ${outcome} ${reason}`;
      const held = sorts.get(key) ?? { log, level, message, sort: { outcome, reason }, count: 0 };
      held.count += 1;
      sorts.set(key, held);
      if (held.count <= FIRST_LINES) log[level](fields, message);
    },
    /** Logs the counts so far. Called at a stop. */
    flush,
  };
}
