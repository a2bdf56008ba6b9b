import { userAgent } from '../platform/package.ts';
import { UnaddressableError } from './errors.ts';

/**
 * A page of 100 records of 160 KB each, far more than the largest seen. Decompressed bytes count, so that a small
 * compressed answer cannot fill the memory.
 */
export const MAX_RESPONSE_BYTES = 16 * 1024 * 1024;

/**
 * Values in an answer, counted by `[`, `{` and `,`. In the largest answer a value still has 16 bytes. Millions of smaller values
 * would take seconds to parse, while no delivery is answered, and a hundred times their bytes in memory.
 */
export const MAX_RESPONSE_VALUES = 1_000_000;
const [COMMA, OPENS_LIST, OPENS_OBJECT] = Buffer.from(',[{');

const AGENT = userAgent();

/** How much of an error answer's body is kept: enough to recognise it, too little to fill a table. */
export const EXCERPT_BYTES = 2048;

export interface Answer {
  status: number;
  headers: Headers;
  /** The whole body of a 2xx; otherwise only its first `EXCERPT_BYTES` or a little more. */
  body: Uint8Array;
}

/**
 * The absolute URL of `path`, which starts with a slash, is percent-encoded and may have a query.
 * @throws UnaddressableError when URL parsing would change the path.
 */
export function urlFor(baseUrl: URL, path: string): URL {
  const mark = path.indexOf('?');
  const pathname = mark === -1 ? path : path.slice(0, mark);
  const url = new URL(baseUrl);
  const intended = baseUrl.pathname.replace(/^(.*[^/])?\/*$/s, '$1') + pathname;
  url.pathname = intended;
  url.search = mark === -1 ? '' : path.slice(mark);
  url.hash = '';
  if (!pathname.startsWith('/') || url.pathname !== intended) {
    throw new UnaddressableError(`the path ${JSON.stringify(pathname)} would be sent as ${url.pathname}`);
  }
  return url;
}

/** An HTTP exchange without a complete answer. Thrown only within this file; `exchange` returns it. */
export class ExchangeFailure extends Error {
  readonly kind: 'unreachable' | 'malformed' | 'no_json';
  /** False only when it is certain that no byte of the request left us. */
  readonly maybeSent: boolean;

  constructor(kind: ExchangeFailure['kind'], message: string, maybeSent = true, cause?: unknown) {
    super(message, { cause });
    this.kind = kind;
    this.maybeSent = maybeSent;
  }
}

/**
 * Sends one request and reads its answer, both within `timeoutMs`. Never rejects, never follows a redirect, and never sends
 * again, except that fetch repeats a GET once after a 421, which cannot be switched off.
 */
export async function exchange(
  url: URL,
  { method, authorization, body: text }: { method: string; authorization?: string; body: string | null },
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Answer | ExchangeFailure> {
  const late = AbortSignal.timeout(timeoutMs);
  try {
    const headers = {
      accept: 'application/json',
      // By default fetch also offers brotli, whose decoder has had a security flaw.
      'accept-encoding': 'gzip',
      'user-agent': AGENT,
      ...(authorization === undefined ? {} : { authorization }),
    };
    const response = await fetch(url, {
      method,
      ...(text === null ? { headers } : sentOnce(headers, text)),
      redirect: 'error',
      // A repair must not read from a cache.
      cache: 'no-store',
      signal: AbortSignal.any([signal, late]),
    });
    return { status: response.status, headers: response.headers, body: await readBody(response) };
  } catch (error) {
    if (error instanceof ExchangeFailure) return error;
    if (signal.aborted) return new ExchangeFailure('unreachable', 'cancelled', true, error);
    if (late.aborted)
      return new ExchangeFailure('unreachable', `no answer within ${timeoutMs} ms`, true, error);
    return failureOf(error);
  }
}

/** After a 421 fetch would send a text again, even as an empty one. A stream can be sent only once. */
function sentOnce(headers: Record<string, string>, body: string) {
  const length = String(Buffer.byteLength(body));
  return {
    headers: { ...headers, 'content-type': 'application/json', 'content-length': length },
    body: new Blob([body]).stream(),
    duplex: 'half' as const,
  };
}

/** Of an answer that is no success, only the beginning is read. Throws ExchangeFailure. */
async function readBody(response: Response): Promise<Uint8Array> {
  const encoding = response.headers.get('content-encoding')?.trim().toLowerCase() ?? '';
  if (!['identity', 'gzip', 'x-gzip', ''].includes(encoding)) {
    // No other decoder gets it.
    await response.body?.cancel();
    throw new ExchangeFailure('malformed', 'the answer has a Content-Encoding that we did not ask for');
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  let values = 1;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    size += chunk.length;
    if (!response.ok && size > EXCERPT_BYTES) break;
    if (size > MAX_RESPONSE_BYTES) throw tooLarge(`is larger than ${MAX_RESPONSE_BYTES} bytes`);
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at];
      if (byte === COMMA || byte === OPENS_LIST || byte === OPENS_OBJECT) values += 1;
    }
    if (values > MAX_RESPONSE_VALUES) throw tooLarge(`holds more than ${MAX_RESPONSE_VALUES} values`);
  }
  return Buffer.concat(chunks);
}

const tooLarge = (what: string) =>
  new ExchangeFailure(
    'malformed',
    `the answer ${what}; if it is a page of a list, set COMPLIANCE_PAGE_SIZE to less`,
  );

/** Errors before the connection was made, so no byte of the request has left. */
const NEVER_SENT: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'UND_ERR_CONNECT_TIMEOUT',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
]);
const NEVER_SENT_FAMILIES = /^(EAI|CERT|ERR_TLS_CERT|UNABLE_TO)_/;

function failureOf(error: unknown): ExchangeFailure {
  if (!(error instanceof Error) || error.cause === undefined) {
    // fetch refused to build the request. Its own message would quote the header or URL with its secrets.
    return new ExchangeFailure('unreachable', 'the request could not be built', false);
  }
  let { cause } = error;
  // What a proxy on the way answers to be asked for a tunnel is wrapped once more.
  while (cause instanceof Error && cause.cause !== undefined) cause = cause.cause;
  const text = cause instanceof Error ? cause.message : String(cause);
  // fetch reports a redirect only by these words.
  if (text === 'unexpected redirect')
    return new ExchangeFailure('no_json', 'the answer is a redirect, which is never followed');
  const code = String((cause as { code?: unknown } | null)?.code ?? '');
  if (code.startsWith('Z_')) return new ExchangeFailure('malformed', 'the answer is no valid gzip');
  const maybeSent = !NEVER_SENT.has(code) && !NEVER_SENT_FAMILIES.test(code);
  return new ExchangeFailure('unreachable', text || code, maybeSent, error);
}
