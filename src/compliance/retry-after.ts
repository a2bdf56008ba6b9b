import type { Answer } from './transport.ts';

/** A wait longer than this is taken as this: one bad header must not stop all repair for a day. */
export const MAX_RETRY_AFTER_MS = 15 * 60_000;

/** For a 429 that names no time. Everything waits, since every lane draws on the same allowance. */
const DEFAULT_PAUSE_MS = 10_000;

/** What an answer asks to wait, ms; null: nothing, or not in a way that can be read. `wallMs`: when it had been read. */
export function retryAfterIn({ status, headers }: Answer, wallMs: number): number | null {
  if (status !== 429 && status !== 503) return null;
  return parseRetryAfter(headers.get('retry-after'), parseHttpDate(headers.get('date')) ?? wallMs);
}

/** For how long nothing more is asked after an answer, ms; null: it may go on. */
export function pauseAfter({ status }: Answer, retryAfterMs: number | null): number | null {
  return retryAfterMs ?? (status === 429 ? DEFAULT_PAUSE_MS : null);
}

/**
 * Milliseconds that a Retry-After header asks to wait, 0 … `MAX_RETRY_AFTER_MS`; null when it is absent or
 * neither whole seconds nor a date in the current HTTP form.
 * A date is compared with `nowMs`: pass the instant of the same answer's Date header where there is one, so
 * that a difference between the two machines' clocks does not lengthen or swallow the wait.
 */
export function parseRetryAfter(header: string | null, nowMs: number): number | null {
  const text = header?.trim() ?? '';
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, MAX_RETRY_AFTER_MS);
  const at = parseHttpDate(text);
  return at === null ? null : Math.min(Math.max(0, at - nowMs), MAX_RETRY_AFTER_MS);
}

/** Milliseconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`, or null. */
export function parseHttpDate(text: string | null): number | null {
  const at = text === null ? Number.NaN : Date.parse(text);
  // Date.parse takes nearly anything, 30 February too; only what prints back as it came is a date.
  return Number.isFinite(at) && new Date(at).toUTCString() === text ? at : null;
}
