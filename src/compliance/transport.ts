import { EXCERPT_BYTES } from './errors.ts';

/**
 * A page of 100 records of 160 KB each, which is far more than the largest seen; decompressed bytes count, so
 * that a small compressed answer cannot fill the memory.
 */
export const MAX_RESPONSE_BYTES = 16 * 1024 * 1024;

export interface Answer {
  status: number;
  headers: Headers;
  /** Whole for a 2xx; of anything else no more is read once `EXCERPT_BYTES` are there. */
  body: Uint8Array;
}

/** One HTTP exchange that brought no complete answer. A result, and thrown only within this file. */
export class ExchangeFailure extends Error {
  readonly kind: 'timeout' | 'network' | 'malformed' | 'cancelled';
  readonly status: number | null;
  /** False only when it is certain that no byte of the request left us. */
  readonly maybeSent: boolean;

  constructor(
    kind: ExchangeFailure['kind'],
    message: string,
    details: { status?: number | null; maybeSent?: boolean; cause?: unknown } = {},
  ) {
    super(message, { cause: details.cause });
    this.kind = kind;
    this.status = details.status ?? null;
    this.maybeSent = details.maybeSent ?? true;
  }
}

/**
 * Sends one request and reads its answer, both within `timeoutMs`. Never follows a redirect and never sends
 * again, with one exception that fetch gives no way to switch off: it repeats a GET answered with 421, twice.
 * Never rejects.
 */
export async function exchange(
  url: URL,
  request: { method: string; headers: Record<string, string>; body: string | null },
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Answer | ExchangeFailure> {
  // One controller and not AbortSignal.any: every listener on the caller's long-lived signal is taken off again.
  const own = new AbortController();
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    own.abort();
  }, timeoutMs);
  const cancel = () => own.abort();
  signal.addEventListener('abort', cancel, { once: true });
  let status: number | null = null;
  try {
    if (signal.aborted) throw new ExchangeFailure('cancelled', 'cancelled', { maybeSent: false });
    const response = await fetch(url, {
      ...request,
      redirect: 'error',
      // A read that repairs must not come out of some cache on the way.
      cache: 'no-store',
      signal: own.signal,
    });
    status = response.status;
    checkEncoding(response);
    const body = response.ok
      ? await readBody(response, MAX_RESPONSE_BYTES, 'refuse')
      : await readBody(response, EXCERPT_BYTES, 'cut');
    return { status, headers: response.headers, body };
  } catch (error) {
    if (error instanceof ExchangeFailure) return error;
    if (isLate)
      return new ExchangeFailure('timeout', `no answer within ${timeoutMs} ms`, { status, cause: error });
    if (signal.aborted) return new ExchangeFailure('cancelled', 'cancelled', { status, cause: error });
    return failureOf(error, status);
  } finally {
    own.abort();
    clearTimeout(timer);
    signal.removeEventListener('abort', cancel);
  }
}

/** gzip is all we ask for; other decoders are left out of reach of what arrives. */
function checkEncoding(response: Response): void {
  const encoding = response.headers.get('content-encoding')?.trim().toLowerCase() ?? 'identity';
  if (['identity', 'gzip', 'x-gzip', ''].includes(encoding)) return;
  throw new ExchangeFailure('malformed', 'the answer is encoded in a way we did not ask for', {
    status: response.status,
  });
}

async function readBody(response: Response, limitBytes: number, whenOver: 'refuse' | 'cut') {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    size += chunk.length;
    if (size <= limitBytes) continue;
    if (whenOver === 'cut') break;
    throw new ExchangeFailure('malformed', `the answer is larger than ${limitBytes} bytes`, {
      status: response.status,
    });
  }
  return Buffer.concat(chunks);
}

/** Failures of the connection's making: no byte of the request can have left. */
const NEVER_SENT: ReadonlySet<string> = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EHOSTUNREACH', 'ENETUNREACH', 'EADDRNOTAVAIL', 'UND_ERR_CONNECT_TIMEOUT'],
  ...['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN'],
]);
const NEVER_SENT_FAMILIES = /^(EAI|CERT|ERR_TLS_CERT|UNABLE_TO)_/;

function failureOf(error: unknown, status: number | null): ExchangeFailure {
  if (!(error instanceof Error) || error.cause === undefined) {
    // fetch refused to build the request; its message quotes the header or URL it disliked, secrets included.
    return new ExchangeFailure('network', 'the request could not be built', { status, maybeSent: false });
  }
  const { cause } = error;
  const text = cause instanceof Error ? cause.message : String(cause);
  // fetch has no other sign for a redirect than these words.
  if (text === 'unexpected redirect') {
    return new ExchangeFailure('malformed', 'the answer is a redirect, which is never followed', { status });
  }
  const code = String((cause as { code?: unknown } | null)?.code ?? '');
  const maybeSent = !NEVER_SENT.has(code) && !NEVER_SENT_FAMILIES.test(code);
  const kind = code === 'UND_ERR_CONNECT_TIMEOUT' ? 'timeout' : 'network';
  return new ExchangeFailure(kind, code || text, { status, maybeSent, cause: error });
}
