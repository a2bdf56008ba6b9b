import { setTimeout as sleep } from 'node:timers/promises';
import type { MiddlewareHandler } from 'hono';
import type { FaultSwitch } from './faults.ts';
import { Problem } from './problems.ts';
import type { Random } from './random.ts';

/** A hung request is let go after this, so that a client without a timeout of its own gets an end. */
const HANG_MS = 120_000;

const ERROR_STATUSES = [500, 502, 503] as const;

/** Seconds in the Retry-After of a 503. */
const UNAVAILABLE_RETRY_SECONDS = 1;

/** Answers 429, 5xx or nothing at all, as the faults say, before the request has any effect. */
export function restFaults(faults: FaultSwitch, random: Random, stopping: AbortSignal): MiddlewareHandler {
  const bucket = new TokenBucket();
  return async function restFaults(context, next) {
    const { rateLimit, errorRate, hang } = faults.current;
    const waitSeconds = bucket.take(rateLimit, performance.now());
    if (waitSeconds > 0) {
      throw new Problem(429, 'rate_limited', 'Too many requests; see Retry-After.', {
        'retry-after': String(waitSeconds),
      });
    }
    if (random.chance(hang)) {
      const signal = AbortSignal.any([context.req.raw.signal, stopping]);
      await sleep(HANG_MS, undefined, { signal }).catch(() => undefined);
      throw new Problem(504, 'timed_out', 'The sandbox was told to hang.');
    }
    if (random.chance(errorRate)) {
      const status = random.pick(ERROR_STATUSES)!;
      const retry = status === 503 ? { 'retry-after': String(UNAVAILABLE_RETRY_SECONDS) } : undefined;
      throw new Problem(status, 'injected_error', 'The sandbox was told to fail.', retry);
    }
    await next();
  };
}

/** A minute's worth of requests at once, refilled evenly. The limit may change between calls. */
export class TokenBucket {
  #tokens = 0;
  #filledAtMs: number | null = null;

  /** Takes a token. Returns 0, or the whole seconds until there is one again. */
  take(perMinute: number | null, nowMs: number): number {
    if (perMinute === null) {
      this.#filledAtMs = null;
      return 0;
    }
    const perMs = perMinute / 60_000;
    const capacity = Math.max(1, perMinute);
    const refill = this.#filledAtMs === null ? capacity : (nowMs - this.#filledAtMs) * perMs;
    this.#tokens = Math.min(capacity, this.#tokens + refill);
    this.#filledAtMs = nowMs;
    if (this.#tokens >= 1) {
      this.#tokens -= 1;
      return 0;
    }
    return Math.max(1, Math.ceil((1 - this.#tokens) / perMs / 1000));
  }
}
