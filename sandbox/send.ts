import { createHmac } from 'node:crypto';
import type { Registration } from './registrations.ts';

export const SIGNATURE_HEADER = 'X-Webhook-Signature';

export interface Attempt {
  at: string;
  /** Null: no answer; `error` says why. */
  status: number | null;
  error: string | null;
  durationMs: number;
}

/** Each wait is up to this share shorter or longer, so that retries of many deliveries do not come all at once. */
const RETRY_JITTER = 0.2;

/** `draw`: at least 0 and below 1. */
export function retryDelayMs(baseMs: number, draw: number): number {
  return baseMs * (1 + RETRY_JITTER * (2 * draw - 1));
}

/** One signed attempt. Does not reject: the result holds the error. `timeoutMs`: from connecting to the answer's last byte. */
export async function sendOnce(
  registration: Registration,
  body: string,
  timeoutMs: number,
  stopping: AbortSignal,
): Promise<Attempt> {
  const started = performance.now();
  const at = new Date().toISOString();
  const timestampSeconds = Math.floor(Date.now() / 1000);
  const ended = (status: number | null, error: string | null): Attempt => ({
    at,
    status,
    error,
    durationMs: Math.round(performance.now() - started),
  });
  try {
    const response = await fetch(registration.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'user-agent': 'compliance-sandbox',
        [SIGNATURE_HEADER]: signatureHeader(registration.secret, timestampSeconds, body),
      },
      body,
      // A redirect would take the signed event to an address that is not registered.
      redirect: 'manual',
      signal: AbortSignal.any([stopping, AbortSignal.timeout(timeoutMs)]),
    });
    // To its end, so that the connection can be used again.
    await response.arrayBuffer();
    return ended(response.status, null);
  } catch (error) {
    return ended(null, reasonOf(error));
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // fetch says only "fetch failed"; the reason is its cause.
  const cause = error.cause instanceof Error ? error.cause : error;
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.name;
  return `${code}: ${cause.message || error.message}`;
}

/** The value of the signature header for one attempt: the time and the hex HMAC over `{t}.{body}`. */
export function signatureHeader(secret: string, timestampSeconds: number, body: string): string {
  const mac = createHmac('sha256', secret).update(`${timestampSeconds}.${body}`).digest('hex');
  return `t=${timestampSeconds}, v1=${mac}`;
}
