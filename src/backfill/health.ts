import { type Backoff, backoffMs, type Moment } from '../platform/clock.ts';
import type { Context } from './context.ts';

/** After this many failures in a row all reads wait, so that an outage gets no storm of requests. */
const PATIENCE_FAILURES = 3;
const OUTAGE_BACKOFF: Backoff = { firstMs: 1_000, longestMs: 60_000 };

/**
 * The upstream counts as unreachable after this time without a useful answer: longer than one failed answer among good ones, and
 * together with a request's timeout and a heartbeat less than 15 s.
 */
export const UNREACHABLE_AFTER_MS = 5_000;

/** A service that only limits us, and says for how long, has not failed for so long. */
const LIMITED_AT_MOST_MS = 5 * 60_000;

export interface UpstreamHealth {
  ok: boolean | null;
  lastOkWall: number | null;
  lastError: string | null;
  consecutiveFailures: number;
  /** When the first of the requests without a useful answer was sent; null: the last request got one. */
  silentSince: Moment | null;
}

export const NOTHING_KNOWN: Readonly<UpstreamHealth> = {
  ok: null,
  lastOkWall: null,
  lastError: null,
  consecutiveFailures: 0,
  silentSince: null,
};

/** Since when (wall) the upstream is unreachable; null: it is not. Pure. */
export function unreachableSince(
  { silentSince: since }: Pick<UpstreamHealth, 'silentSince'>,
  steady: number,
): number | null {
  return since !== null && steady - since.steady >= UNREACHABLE_AFTER_MS ? since.wall : null;
}

export interface HealthWatch {
  /** The service counts as unreachable until it answers. */
  wasUnreachable?: boolean;
  /** `unreachableSince` may return something else now. */
  onReachability?: () => void;
}

/** Whether the service as a whole answers, whatever it is asked for, and the pause of all requests while it does not. */
export function createHealth({
  clock,
  random,
  signal,
  wasUnreachable = false,
  onReachability,
}: Pick<Context, 'clock' | 'random' | 'signal'> & HealthWatch) {
  const health = { ...NOTHING_KNOWN };
  if (wasUnreachable)
    health.silentSince = { wall: clock.wall(), steady: clock.steady() - UNREACHABLE_AFTER_MS };
  /** Requests in a row without a useful answer. */
  let uselessInARow = 0;
  let waitUntil = 0;
  let waiting = new AbortController();
  /** When the first of the requests in a row that the service has only limited was sent. Steady. */
  let limitedSince: number | null = null;

  function endPause(): void {
    if (waitUntil === 0) return;
    waitUntil = 0;
    waiting.abort();
    waiting = new AbortController();
  }

  function answered(): void {
    const wasSilent = health.silentSince !== null;
    health.silentSince = null;
    if (wasSilent) onReachability?.();
  }

  return {
    now: (): UpstreamHealth => ({ ...health }),
    isSilent: (): boolean => health.silentSince !== null,

    /** Waits for the end of the pause, or until `endPause`. */
    async pause(): Promise<void> {
      signal.throwIfAborted();
      const ms = waitUntil - clock.steady();
      if (ms > 0) await clock.sleep(ms, AbortSignal.any([signal, waiting.signal]));
    },
    endPause,

    succeeded(): void {
      health.ok = true;
      health.lastOkWall = clock.wall();
      health.consecutiveFailures = 0;
      uselessInARow = 0;
      limitedSince = null;
      answered();
      endPause();
    },

    /** The service does answer, whatever it says. */
    answered,

    /** The service asks us to wait for so long. False: it has done so for so long that nothing is known of it any more. */
    limited(since: Moment, forMs: number): boolean {
      limitedSince ??= since.steady;
      if (clock.steady() + forMs - limitedSince > LIMITED_AT_MOST_MS) return false;
      answered();
      return true;
    },

    /** `isAnswer`: nobody can use the answer, but it is one. */
    failed(isAnswer: boolean): void {
      uselessInARow += 1;
      if (uselessInARow >= PATIENCE_FAILURES) {
        const ms = backoffMs(OUTAGE_BACKOFF, uselessInARow - PATIENCE_FAILURES + 1, random());
        waitUntil = clock.steady() + ms;
      }
      if (isAnswer) answered();
      else health.ok = false;
      health.consecutiveFailures = isAnswer ? 0 : health.consecutiveFailures + 1;
    },

    saying(error: string): void {
      health.lastError = error;
    },

    silentFrom(since: Moment): void {
      if (health.silentSince !== null) return;
      health.silentSince = since;
      const leftMs = since.steady + UNREACHABLE_AFTER_MS - clock.steady();
      if (onReachability !== undefined) void clock.sleep(Math.max(0, leftMs), signal).then(onReachability);
    },
  };
}
