import { isUtf8 } from 'node:buffer';
import type { ComplianceSettings } from '../platform/config.ts';
import { userAgent } from '../platform/package.ts';
import { MalformedAnswer } from './envelope.ts';
import {
  UnaddressableError,
  UpstreamError,
  type UpstreamErrorDetails,
  type UpstreamErrorKind,
} from './errors.ts';
import { parseJson } from './json.ts';
import { reasonIn } from './registration.ts';

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
const EXCERPT_BYTES = 2048;

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
 * Sends one request and reads its answer, both within `timeoutMs`. Never rejects, never follows a redirect, and never sends
 * again, except that fetch repeats a GET once after a 421, which cannot be switched off.
 */
export async function exchange(
  url: URL,
  { method, authorization, body: text }: { method: string; authorization?: string; body: string | null },
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Answer | ExchangeFailure> {
  // Not AbortSignal.any, because the listener on the caller's long-lived signal must be removed again.
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

/** After a 421 fetch would send a text again, even as an empty one. A stream can be sent only once. */
function sentOnce(headers: Record<string, string>, body: string) {
  const length = String(Buffer.byteLength(body));
  return {
    headers: { ...headers, 'content-type': 'application/json', 'content-length': length },
    body: new Blob([body]).stream(),
    duplex: 'half' as const,
  };
}

/** Refuses every encoding but gzip, so that no other decoder gets the answer. */
function checkEncoding(response: Response): void {
  const encoding = response.headers.get('content-encoding')?.trim().toLowerCase() ?? 'identity';
  if (['identity', 'gzip', 'x-gzip', ''].includes(encoding)) return;
  throw new ExchangeFailure('malformed', 'the answer has a Content-Encoding that we did not ask for', {
    status: response.status,
  });
}

async function readBody(response: Response, limitBytes: number, whenOver: 'refuse' | 'cut') {
  const chunks: Uint8Array[] = [];
  let size = 0;
  let values = 1;
  const refuse = (what: string) =>
    new ExchangeFailure(
      'malformed',
      `the answer ${what}; if it is a page of a list, set COMPLIANCE_PAGE_SIZE to less`,
      { status: response.status },
    );
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > limitBytes && whenOver === 'cut') break;
    if (size > limitBytes) throw refuse(`is larger than ${limitBytes} bytes`);
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at];
      if (byte === COMMA || byte === OPENS_LIST || byte === OPENS_OBJECT) values += 1;
    }
    if (values > MAX_RESPONSE_VALUES) throw refuse(`holds more than ${MAX_RESPONSE_VALUES} values`);
  }
  return Buffer.concat(chunks);
}

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

function failureOf(error: unknown, status: number | null): ExchangeFailure {
  if (!(error instanceof Error) || error.cause === undefined) {
    // fetch refused to build the request. Its own message would quote the header or URL with its secrets.
    return new ExchangeFailure('network', 'the request could not be built', { status, maybeSent: false });
  }
  // What a proxy on the way answers to be asked for a tunnel is wrapped once more.
  const isTunnel = error.cause instanceof DOMException && error.cause.cause !== undefined;
  const cause = isTunnel ? (error.cause as DOMException).cause : error.cause;
  const text = cause instanceof Error ? cause.message : String(cause);
  // fetch reports a redirect only by these words.
  if (text === 'unexpected redirect') {
    return new ExchangeFailure('malformed', 'the answer is a redirect, which is never followed', { status });
  }
  // These too: of a port that it never asks, as of another protocol.
  if (text === 'bad port')
    return new ExchangeFailure('network', 'no request goes to this port', { status, maybeSent: false });
  const code = String((cause as { code?: unknown } | null)?.code ?? '');
  if (code.startsWith('Z_'))
    return new ExchangeFailure('malformed', 'the answer is no valid gzip', { status });
  const maybeSent = !NEVER_SENT.has(code) && !NEVER_SENT_FAMILIES.test(code);
  return new ExchangeFailure('network', isTunnel ? text : code || text, { status, maybeSent, cause: error });
}

/** What makes an answer a success, and its result. */
export interface Expectation<T> {
  method: 'GET' | 'POST';
  path: string;
  /** JSON text, sent as it is. */
  body?: string;
  isSuccess: (status: number) => boolean;
  /** Turns the answer's JSON (undefined: no body) into the result. Throws MalformedAnswer. */
  read: (json: unknown) => T;
  /** `read` gets the answer's text instead. */
  asText?: true;
  /** The statuses that mean "nothing is there", and their result. */
  missing?: { at: readonly number[]; read: (answer: Answer) => T } | undefined;
  /** The answer may hold a secret. Then an error shows only the reason that a 4xx gives. */
  isSecret?: boolean;
}

/** The result of a request, or its error. Pure. */
export function judge<T>(
  expected: Expectation<T>,
  reply: Answer | ExchangeFailure,
  // `authorization`: the header that was sent. It is removed from an answer that echoes it.
  sent: { auth: ComplianceSettings['auth']; authorization: string; retryAfterMs: number | null },
): { value: T } | UpstreamError {
  if (reply instanceof ExchangeFailure) {
    const { kind, message, maybeSent, status, cause } = reply;
    return failure(kind, message, maybeSent, { status, cause });
  }
  const { status } = reply;
  if (expected.missing?.at.includes(status)) return { value: expected.missing.read(reply) };
  const shown = excerptOf(reply.body, sent.authorization);
  const isRejection = status >= 400 && status < 500;
  const reason = () => (isRejection ? reasonIn(shown ?? '', expected.body ?? '') : null);
  const excerpt = expected.isSecret ? reason() : shown;
  if (!expected.isSuccess(status)) {
    const details = { status, excerpt, retryAfterMs: sent.retryAfterMs };
    // Only a 4xx is certain to have done nothing.
    return failure(kindOfStatus(status), `answered ${status}`, !isRejection, details);
  }
  try {
    return { value: expected.read(expected.asText ? textOf(reply.body) : jsonIn(reply.body)) };
  } catch (error) {
    if (!(error instanceof MalformedAnswer)) throw error;
    return failure('malformed', error.message, true, { status, excerpt, cause: error });
  }

  function failure(
    kind: UpstreamErrorKind,
    what: string,
    mayHaveWorked: boolean,
    details: UpstreamErrorDetails,
  ) {
    const { method, path, isSecret } = expected;
    const outcomeUnknown = mayHaveWorked && method === 'POST';
    const warning = outcomeUnknown ? '; whether it took effect is unknown, so it was not sent again' : '';
    const ofSecret = details.excerpt ? REMEDY_OF_REASON : REMEDY_OF_HIDDEN_ANSWER;
    const remedy =
      isSecret && kind === 'unexpected_status' && !outcomeUnknown
        ? ofSecret
        : remedyFor(outcomeUnknown ? 'cancelled' : kind, sent.auth);
    return new UpstreamError(kind, `${method} ${path}: ${what}${warning}`, {
      ...details,
      outcomeUnknown,
      remedy,
    });
  }
}

function kindOfStatus(status: number): UpstreamErrorKind {
  if (status === 401) return 'unauthorized';
  if (status === 403) return 'forbidden';
  if (status === 429) return 'rate_limited';
  return status >= 500 ? 'server' : 'unexpected_status';
}

function jsonIn(body: Uint8Array): unknown {
  if (body.length === 0) return undefined;
  try {
    return parseJson(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    // The parser's own message quotes the document, which may hold a registration's secret.
    throw new MalformedAnswer('the answer is not JSON');
  }
}

const REMEDY_OF_HIDDEN_ANSWER =
  'Check what was asked for, and COMPLIANCE_BASE_URL. The answer is not shown: it may hold a signing secret.';

const REMEDY_OF_REASON = 'Change what was asked for as the reason says, or check COMPLIANCE_BASE_URL.';

const REMEDIES: Readonly<Record<Exclude<UpstreamErrorKind, 'unauthorized'>, string>> = {
  forbidden: 'The credentials are known but may not do this: check their permissions and COMPLIANCE_SCOPES.',
  rate_limited: 'The service wants fewer requests: lower COMPLIANCE_REQUESTS_PER_MINUTE.',
  server: 'The service itself fails; nothing to do here unless it lasts.',
  timeout: 'The service is slow or unreachable; COMPLIANCE_TIMEOUT_SECONDS allows it more time.',
  network: 'Check COMPLIANCE_BASE_URL, name resolution, certificates and the way to the service.',
  malformed: 'Check that COMPLIANCE_BASE_URL is the API itself and that ID_POINTERS_* fit its records.',
  unexpected_status: 'Check COMPLIANCE_BASE_URL, and the request if it was your own.',
  cancelled: 'Look in the service whether the request took effect before you repeat it.',
};

function remedyFor(kind: UpstreamErrorKind, auth: ComplianceSettings['auth']): string {
  if (kind !== 'unauthorized') return REMEDIES[kind];
  return auth === 'api_key'
    ? 'The service refuses the API key: check COMPLIANCE_API_KEY and whether the key was revoked.'
    : 'The service refuses our token: check the COMPLIANCE_CLIENT_* settings, or sign in again.';
}

/** Keeps every byte, because a service may show an answer only once. */
function textOf(body: Uint8Array): string {
  return Buffer.from(body).toString(isUtf8(body) ? 'utf8' : 'latin1');
}

/** The start of a body, for people. Credentials of `authorization` that the answer echoes are removed. */
function excerptOf(body: Uint8Array, authorization: string): string | null {
  if (body.length === 0) return null;
  const token = authorization.slice(authorization.indexOf(' ') + 1);
  // As it was sent, as some libraries write it in JSON, and as in a URL.
  const spellings = [...new Set([token, token.replaceAll('/', '\\/'), encodeURIComponent(token)])];
  const longest = Math.max(...spellings.map((spelling) => spelling.length));
  // Replaced before the cut, which could leave a part of a spelling.
  let text = new TextDecoder().decode(body.subarray(0, EXCERPT_BYTES + longest));
  for (const spelling of spellings) {
    text = text.replaceAll(spelling, '[credentials]');
    // Replacing shortens the text, so a spelling that was cut by the limit above may move into the part that is shown.
    if (body.length > EXCERPT_BYTES) text = withoutBeginning(text, spelling);
  }
  return text.slice(0, EXCERPT_BYTES);
}

/** Removes the longest end of `text` that is a beginning of `secret`. */
function withoutBeginning(text: string, secret: string): string {
  for (let length = Math.min(secret.length, text.length); length > 0; length -= 1) {
    if (text.endsWith(secret.slice(0, length))) return text.slice(0, -length);
  }
  return text;
}

/** A longer wait is cut to this, so that a wrong header does not stop all repairs for a day. */
export const MAX_RETRY_AFTER_MS = 15 * 60_000;

/** Milliseconds that an answer asks us to wait; null: it names no readable time. `wallMs`: when the answer was read. */
export function retryAfterIn({ status, headers }: Answer, wallMs: number): number | null {
  if (status !== 429 && status !== 503) return null;
  return parseRetryAfter(headers.get('retry-after'), parseHttpDate(headers.get('date')) ?? wallMs);
}

/**
 * Milliseconds that a Retry-After header asks us to wait, 0 … `MAX_RETRY_AFTER_MS`; null: absent, or neither whole seconds nor
 * an HTTP date. A date is compared with `nowMs`: pass the same answer's Date header if it has one, so that the two machines'
 * clocks need not agree.
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
  // Date.parse accepts nearly anything, 30 February too. Only a text that prints back the same is a date.
  return Number.isFinite(at) && new Date(at).toUTCString() === text ? at : null;
}

/** How far the service's clock is ahead of ours: 0 within the second of its Date header. Null: no header, or a cached answer. */
export function clockSkewMs(headers: Headers, wallMs: number): number | null {
  const date = parseHttpDate(headers.get('date'));
  if (date === null || headers.has('age')) return null;
  if (wallMs < date) return date - wallMs;
  return Math.min(0, date + 999 - wallMs);
}
