import type { Clock } from './clock.ts';
import type { Logger } from './logger.ts';

/** The window of the limit. A minute: what an alert looks at, and short enough to read a summary while it happens. */
const WINDOW_MS = 60_000;
/** Lines of one sort in a window: enough to see a real sender's trouble. At 300 bytes a flood of one reason writes 9 MB a day. */
const FIRST_LINES = 20;
/** Sorts that are counted apart. They are our own words; the limit guards against a caller that passes a sender's text. */
const MAX_SORTS = 200;

type Level = 'info' | 'warn' | 'error';

/** What makes two lines alike. */
interface Sort {
  outcome: string;
  reason: string | null;
}

export type LogLimit = ReturnType<typeof createLogLimit>;

/**
 * For lines that a stranger can cause: of each sort the first ones of a minute are written at once, the others are
 * counted, and the minute's end says how many there were, whether or not anything more comes.
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
      // The timer may be late; the period is not longer for that.
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
    /** Logs what has been left out so far. For a stop. */
    flush,
  };
}
