import { setTimeout as sleep } from 'node:timers/promises';
import type { MiddlewareHandler } from 'hono';
import { z } from 'zod';
import { Problem } from './problems.ts';
import { between, chance, pick } from './random.ts';
import { MAX_STALE_MS } from './state.ts';

/** Longer than any mirror's read delay, but short enough to end within minutes. */
const MAX_DELAY_MS = 600_000;

const probability = z.number().min(0).max(1);
const milliseconds = (maxMs: number) => z.number().min(0).max(maxMs);

export const faultsSchema = z.strictObject({
  /** Probability that a delivery is never sent, not even again. */
  drop: probability,
  /** Probability that a delivery is sent twice. */
  duplicate: probability,
  /** Probability that a delivery is overtaken by the next one to the same address. */
  reorder: probability,
  /** Probability that a delivery waits before its first attempt, and the bounds of that wait. */
  delay: z
    .strictObject({ probability, minMs: milliseconds(MAX_DELAY_MS), maxMs: milliseconds(MAX_DELAY_MS) })
    .refine(({ minMs, maxMs }) => minMs <= maxMs, 'minMs must not be above maxMs'),
  /** Each read shows the state at a random moment up to this long ago. */
  staleMs: milliseconds(MAX_STALE_MS),
  /** Probability that an API request is answered 5xx, before it has any effect. */
  errorRate: probability,
  /** API requests in a minute before 429; null: no limit. */
  rateLimit: z.number().positive().nullable(),
  /** Probability that an API request is not answered. */
  hang: probability,
});
export type Faults = z.infer<typeof faultsSchema>;

/** What can change while the sandbox runs. It is read for each request and event, and never copied. */
export interface Settings {
  faults: Faults;
}

export const NO_FAULTS: Faults = {
  drop: 0,
  duplicate: 0,
  delay: { probability: 0, minMs: 0, maxMs: 0 },
  reorder: 0,
  staleMs: 0,
  errorRate: 0,
  rateLimit: null,
  hang: 0,
};

/** What happens to one delivery on its way. `copies` includes the first one. */
export interface Fate {
  drop: boolean;
  copies: number;
  delayMs: number;
  overtaken: boolean;
}

export function drawFate({ drop, duplicate, delay, reorder }: Faults): Fate {
  return {
    drop: chance(drop),
    copies: chance(duplicate) ? 2 : 1,
    delayMs: chance(delay.probability) ? between(delay.minMs, delay.maxMs) : 0,
    overtaken: chance(reorder),
  };
}

const MINUTE_MS = 60_000;
/** A request that hangs ends after this, because a client may have no timeout. */
const HANG_MS = 120_000;
const ERROR_STATUSES = [500, 502, 503] as const;
/** Seconds in the Retry-After of a 503. */
const UNAVAILABLE_RETRY_SECONDS = 1;

/** As the faults say, answers 429 or 5xx or not at all, before the request has any effect. */
export function restFaults(settings: Readonly<Settings>, stopping: AbortSignal): MiddlewareHandler {
  let beganMs = 0;
  let requests = 0;
  return async function restFaults(context, next) {
    const { rateLimit, errorRate, hang } = settings.faults;
    const nowMs = performance.now();
    if (rateLimit === null || nowMs - beganMs >= MINUTE_MS) [beganMs, requests] = [nowMs, 0];
    if (rateLimit !== null && requests >= rateLimit) {
      throw new Problem(429, 'rate_limited', 'Too many requests; see Retry-After.', {
        'retry-after': String(Math.ceil((beganMs + MINUTE_MS - nowMs) / 1000)),
      });
    }
    requests += 1;
    if (chance(hang)) {
      const signal = AbortSignal.any([context.req.raw.signal, stopping]);
      await sleep(HANG_MS, undefined, { signal }).catch(() => undefined);
      throw new Problem(504, 'timed_out', 'The sandbox was told to hang.');
    }
    if (chance(errorRate)) {
      const status = pick(ERROR_STATUSES)!;
      const retry = status === 503 ? { 'retry-after': String(UNAVAILABLE_RETRY_SECONDS) } : undefined;
      throw new Problem(status, 'injected_error', 'The sandbox was told to fail.', retry);
    }
    await next();
  };
}
