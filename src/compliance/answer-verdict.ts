import { isUtf8 } from 'node:buffer';
import type { ComplianceSettings } from '../platform/config.ts';
import { MalformedAnswer } from './envelope.ts';
import { EXCERPT_BYTES, UpstreamError, type UpstreamErrorKind } from './errors.ts';
import { type Answer, ExchangeFailure } from './transport.ts';

/** What the verdict on an answer depends on, besides the answer. */
export interface Expectation<T> {
  method: 'GET' | 'POST';
  path: string;
  /** Which statuses are success. */
  accepts: (status: number) => boolean;
  /** What is sent: JSON text, as it is. */
  body?: string;
  /** Turns the JSON answer (undefined: an empty one) into the result; throws MalformedAnswer. */
  read: (json: unknown) => T;
  /** `read` is given the answer's text instead, whatever it is. */
  asText?: true;
  /** The result of a 404, where that is an answer. */
  missing?: (answer: Answer) => T;
  /** Keeps the answer's text out of errors, but for the reason that a 4xx gives. */
  isSecret?: boolean;
}

interface Context {
  auth: ComplianceSettings['auth'];
  /** The Authorization header that was sent, so that an answer that echoes it is not passed on. */
  authorization: string;
  retryAfterMs: number | null;
}

/** The result, or why there is none. Reads nothing but its arguments. */
export function judge<T>(
  expected: Expectation<T>,
  reply: Answer | ExchangeFailure,
  context: Context,
): { value: T } | UpstreamError {
  if (reply instanceof ExchangeFailure) {
    return upstreamError(reply.kind, reply.message, reply.maybeSent, {
      status: reply.status,
      cause: reply.cause,
    });
  }
  const { status } = reply;
  if (status === 404 && expected.missing !== undefined) return { value: expected.missing(reply) };
  const shown = excerptOf(reply.body, context.authorization);
  const isRejection = status >= 400 && status < 500;
  const reason = expected.isSecret && isRejection ? reasonIn(shown ?? '', expected.body ?? '') : null;
  const excerpt = expected.isSecret ? reason : shown;
  if (!expected.accepts(status)) {
    const details = { status, excerpt, retryAfterMs: context.retryAfterMs };
    return upstreamError(kindOfStatus(status), `answered ${status}`, isAmbiguous(status), details);
  }
  try {
    return { value: expected.read(expected.asText ? textOf(reply.body) : parseJson(reply.body)) };
  } catch (error) {
    if (!(error instanceof MalformedAnswer)) throw error;
    return upstreamError('malformed', error.message, true, { status, excerpt, cause: error });
  }

  function upstreamError(
    kind: UpstreamErrorKind,
    what: string,
    isUncertain: boolean,
    details: {
      status: number | null;
      excerpt?: string | null;
      retryAfterMs?: number | null;
      cause?: unknown;
    },
  ): UpstreamError {
    const outcomeUnknown = isUncertain && expected.method === 'POST';
    const message = `${expected.method} ${expected.path}: ${what}`;
    const warning = '; whether it took effect is unknown, so it was not sent again';
    const remedy =
      expected.isSecret && kind === 'unexpected_status' && !outcomeUnknown
        ? details.excerpt
          ? REMEDY_OF_REASON
          : REMEDY_OF_HIDDEN_ANSWER
        : remedyFor(outcomeUnknown ? 'cancelled' : kind, context.auth);
    return new UpstreamError(kind, message + (outcomeUnknown ? warning : ''), {
      ...details,
      outcomeUnknown,
      remedy,
    });
  }
}

/** What a status means when it is neither the success asked for nor a 404 where that is an answer. */
function kindOfStatus(status: number): UpstreamErrorKind {
  if (status === 401) return 'unauthorized';
  if (status === 403) return 'forbidden';
  if (status === 429) return 'rate_limited';
  return status >= 500 ? 'server' : 'unexpected_status';
}

/**
 * Whether a POST answered with this status may have taken effect although it did not report success plainly.
 * A 4xx says that it was refused; a 5xx or another 2xx says nothing certain.
 */
function isAmbiguous(status: number): boolean {
  return status < 400 || status >= 500;
}

const REMEDY_OF_HIDDEN_ANSWER =
  'Check what was asked for, and COMPLIANCE_BASE_URL. The answer is not shown: it may hold a signing secret.';

const REMEDY_OF_REASON = 'Change what was asked for as the reason says, or check COMPLIANCE_BASE_URL.';

/** What an operator can do about a failure of this kind. */
function remedyFor(kind: UpstreamErrorKind, auth: ComplianceSettings['auth']): string {
  switch (kind) {
    case 'unauthorized':
      return auth === 'api_key'
        ? 'The service refuses the API key: check COMPLIANCE_API_KEY and whether the key was revoked.'
        : 'The service refuses our token: check the COMPLIANCE_CLIENT_* settings, or sign in again.';
    case 'forbidden':
      return 'The credentials are known but may not do this: check their permissions and COMPLIANCE_SCOPES.';
    case 'rate_limited':
      return 'The service wants fewer requests: lower COMPLIANCE_REQUESTS_PER_MINUTE.';
    case 'server':
      return 'The service itself fails; nothing to do here unless it lasts.';
    case 'timeout':
      return 'The service is slow or unreachable; COMPLIANCE_TIMEOUT_SECONDS allows it more time.';
    case 'network':
      return 'Check COMPLIANCE_BASE_URL, name resolution, certificates and the way to the service.';
    case 'malformed':
      return 'Check that COMPLIANCE_BASE_URL is the API itself and that ID_POINTERS_* fit its records.';
    case 'unexpected_status':
      return 'Check COMPLIANCE_BASE_URL, and the request if it was your own.';
    case 'cancelled':
      return 'Look in the service whether the request took effect before you repeat it.';
  }
}

function parseJson(body: Uint8Array): unknown {
  if (body.length === 0) return undefined;
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    // The parser's own message quotes the document, which for a registration may be its secret.
    throw new MalformedAnswer('the answer is not JSON');
  }
}

/** Every byte finds its place in it, so that nothing of what is shown only once is lost. */
function textOf(body: Uint8Array): string {
  return Buffer.from(body).toString(isUtf8(body) ? 'utf8' : 'latin1');
}

function excerptOf(body: Uint8Array, authorization: string): string | null {
  if (body.length === 0) return null;
  const token = authorization.slice(authorization.indexOf(' ') + 1);
  // Blotted out before it is cut: of credentials that lie across the cut a part would stay.
  const text = new TextDecoder().decode(body.subarray(0, EXCERPT_BYTES + token.length));
  const blotted = token === '' ? text : text.replaceAll(token, '[credentials]');
  return blotted.slice(0, EXCERPT_BYTES);
}

/** Where services put the words for people in an error. */
const WORDS = new Set(['title', 'detail', 'message', 'error', 'error_description', 'reason', 'description']);
const CODES = new Set(['code', 'type', 'field', 'path', 'param']);
const CODE = /^[a-z0-9_.-]{1,64}$/;

/** Names of what must not be shown; what stands under them is blotted out wherever it stands. */
const SECRET_NAME = /secret|token|key|password|credential/i;
/** No signing secret is shorter, and few words are longer. */
const LONG_RUN = /[\w+/=-]{16,}/g;

const MAX_REASON_LENGTH = 500;
const MAX_DEPTH = 5;

/**
 * Why a request was rejected, in the service's own words, where its answer may hold a secret as well: of JSON only the
 * fields that are for words and codes, of anything else the text, and in both nothing that could be a secret. What we asked
 * for ourselves is none. Null: it gives no reason. Pure.
 */
export function reasonIn(answer: string, asked: string): string | null {
  const words: string[] = [];
  const codes: string[] = [];
  const secrets: string[] = [];
  let document: unknown;
  try {
    document = JSON.parse(answer);
  } catch {
    // Of JSON that was cut short, or a web page, nothing tells what is for people.
    if (!/^\s*[<{[]/.test(answer)) words.push(answer);
  }
  const look = (value: unknown, name: string, depth: number) => {
    if (typeof value === 'string') {
      if (SECRET_NAME.test(name)) secrets.push(...(value === '' ? [] : [value]));
      else if (WORDS.has(name)) words.push(value);
      else if (CODES.has(name) && CODE.test(value)) codes.push(value);
    } else if (typeof value === 'object' && value !== null && depth < MAX_DEPTH) {
      const isList = Array.isArray(value);
      for (const [inner, each] of Object.entries(value)) look(each, isList ? name : inner, depth + 1);
    }
  };
  look(document, typeof document === 'string' ? 'message' : '', 0);
  const hidden = '[hidden]';
  const said = words.map((text) => text.replace(LONG_RUN, (run) => (asked.includes(run) ? run : hidden)));
  const named = [...said, ...codes].map((text) =>
    secrets.reduce((left, each) => left.replaceAll(each, hidden), text),
  );
  const text = [...new Set(named)].join('; ').replace(/\s+/g, ' ').trim();
  return text === '' ? null : text.slice(0, MAX_REASON_LENGTH);
}
