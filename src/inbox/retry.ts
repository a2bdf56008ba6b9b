/**
 * When a failed attempt is made again. Exponential, because what fails for long is rarely back soon, and
 * jittered, so that what failed together does not come back together.
 */
export interface Backoff {
  firstMs: number;
  longestMs: number;
}

/** Failures of our own processing: a locked database passes in seconds, a bug never does. */
export const EVENT_BACKOFF: Backoff = { firstMs: 1_000, longestMs: 10 * 60_000 };

/**
 * Milliseconds to wait before the attempt that follows `failures` failed ones. `random` is in [0, 1): the wait
 * lies between half and the whole of the exponential step.
 */
export function backoffMs(backoff: Backoff, failures: number, random: number): number {
  const step = Math.min(backoff.longestMs, backoff.firstMs * 2 ** Math.max(0, failures - 1));
  return Math.round(step / 2 + (step / 2) * random);
}

/** What becomes of an event after `attempts` failed attempts, this one included. */
export function nextAttempt(
  attempts: number,
  limits: { maxAttempts: number; backoff: Backoff },
  random: number,
): { failed: true } | { failed: false; delayMs: number } {
  if (attempts >= limits.maxAttempts) return { failed: true };
  return { failed: false, delayMs: backoffMs(limits.backoff, attempts, random) };
}
