import type { Clock } from './clock.ts';
import type { Logger } from './logger.ts';

/** The window of the limit: a minute, as in alerts, and short enough to read a summary while it happens. */
const WINDOW_MS = 60_000;
/** Lines of one sort in a window: enough to see a real sender's trouble. With 300 bytes each, a flood writes 9 MB a day. */
const FIRST_LINES = 20;
/** Sorts that are counted apart. There are fewer, unless a caller passes a sender's text as a sort. */
const MAX_SORTS = 200;

type Level = 'info' | 'warn' | 'error';

/** Lines with the same sort and message are alike. */
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
  const sorts = new Map<string, { log: Logger; level: Level; message: string; sort: Sort; count: number }>();
  let openedAt = 0;
  let window: AbortController | null = null;

  function open(): void {
    const own = new AbortController();
    window = own;
    openedAt = clock.steady();
    void clock.sleep(WINDOW_MS, own.signal).then(() => {
      if (window === own) flush();
    });
  }

  function flush(): void {
    if (window === null) return;
    const seconds = Math.max(1, Math.round((clock.steady() - openedAt) / 1000));
    const over = [...sorts.values()].filter(({ count }) => count > FIRST_LINES);
    sorts.clear();
    const ended = window;
    window = null;
    ended.abort();
    for (const { log, level, message, sort, count } of over) {
      const left = count - FIRST_LINES;
      log[level]({ ...sort, count: left }, `${message}: … ${left} more like this in ${seconds} s`);
    }
  }

  return {
    /** Whether to write this line. False: it is only counted. */
    admits(log: Logger, level: Level, message: string, sort: Sort): boolean {
      // The timer may be late, but the minute ends in time.
      if (window !== null && clock.steady() - openedAt >= WINDOW_MS) flush();
      if (window === null) open();
      const name = `${message} ${sort.outcome} ${sort.reason}`;
      const key = sorts.has(name) || sorts.size < MAX_SORTS ? name : 'other';
      let held = sorts.get(key);
      if (held === undefined) {
        held = { log, level, message, sort, count: 0 };
        sorts.set(key, held);
      }
      held.count += 1;
      return held.count <= FIRST_LINES;
    },
    /** Logs the counts so far. Called at a stop. */
    flush,
  };
}
