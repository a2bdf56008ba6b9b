import type { ComplianceSettings } from '../platform/config.ts';
import { MirrorError } from '../platform/errors.ts';
import { MalformedAnswer } from './envelope.ts';
import { parseJson } from './json.ts';
import { reasonIn } from './registration.ts';
import { type Answer, ExchangeFailure, excerptOf, textOf } from './transport.ts';

/**
 * Why the upstream's answer could not be used.
 * `malformed`: it may not be what was asked for (bad JSON, no usable envelope, another id, too large, a redirect).
 * `unexpected_status`: a status without a meaning here, such as a 404 on a list.
 * `cancelled`: only for a POST that we gave up while it was under way.
 */
export type UpstreamErrorKind =
  | 'unauthorized'
  | 'forbidden'
  | 'rate_limited'
  | 'server'
  | 'timeout'
  | 'network'
  | 'malformed'
  | 'unexpected_status'
  | 'cancelled';

const RETRYABLE: ReadonlySet<UpstreamErrorKind> = new Set(['rate_limited', 'server', 'timeout', 'network']);

interface UpstreamErrorDetails {
  status?: number | null;
  retryAfterMs?: number | null;
  excerpt?: string | null;
  outcomeUnknown?: boolean;
  remedy?: string;
  cause?: unknown;
}

/** A request to the compliance service that brought no usable answer. */
export class UpstreamError extends MirrorError {
  readonly kind: UpstreamErrorKind;
  /** Null: no answer arrived. */
  readonly status: number | null;
  /** What the service asked us to wait, capped; null: it named no time. */
  readonly retryAfterMs: number | null;
  /** The start of the answer's body, without our credentials. */
  readonly excerpt: string | null;
  /** A POST that may have taken effect. Never send it again without looking. */
  readonly outcomeUnknown: boolean;

  constructor(kind: UpstreamErrorKind, message: string, details: UpstreamErrorDetails = {}) {
    const { status = null, retryAfterMs = null, excerpt = null, outcomeUnknown = false } = details;
    super(`upstream_${kind}`, message, {
      retryable: RETRYABLE.has(kind) && !outcomeUnknown,
      ...(details.remedy === undefined ? {} : { remedy: details.remedy }),
      ...(details.cause === undefined ? {} : { cause: details.cause }),
    });
    this.kind = kind;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
    this.excerpt = excerpt;
    this.outcomeUnknown = outcomeUnknown;
  }
}

/** The path or id would reach another resource than the one it names; nothing was sent. */
export class UnaddressableError extends MirrorError {
  constructor(message: string) {
    super('unaddressable', message, {
      remedy: 'No request can name this record. Its mirror row can only ever be what events showed of it.',
    });
  }
}

/** The service answered without a refusal or a failure, and we cannot use the answer. Only a person can repair that. */
export function isUnreadable(error: UpstreamError): boolean {
  return error.kind === 'malformed' || error.kind === 'unexpected_status';
}

/** So much of an unusable answer is shown to people. */
const SHOWN_CHARACTERS = 200;

/** The request, what is wrong with its answer, and how the answer begins. One line, without control characters. */
export function unreadableText(error: UpstreamError): string {
  if (error.excerpt === null) return error.message;
  const plain = error.excerpt
    .slice(0, SHOWN_CHARACTERS)
    .replace(/\s+/g, ' ')
    .replace(
      /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Surrogate}]/gu,
      (unit) => `\\u{${unit.codePointAt(0)!.toString(16)}}`,
    );
  return `${error.message}; it begins: ${plain.trim()}`;
}

/** What makes an answer a success, and its result. */
export interface Expectation<T> {
  method: 'GET' | 'POST';
  path: string;
  /** JSON text, sent as it is. */
  body?: string;
  isSuccess: (status: number) => boolean;
  /** Turns the JSON answer (undefined: an empty one) into the result; throws MalformedAnswer. */
  read: (json: unknown) => T;
  /** `read` is given the answer's text instead. */
  asText?: true;
  /** The result of these statuses, which say that nothing is there. */
  missing?: { at: readonly number[]; read: (answer: Answer) => T };
  /** The answer may hold a secret: an error shows only the reason that a 4xx gives. */
  isSecret?: boolean;
}

/** The result of a request, or why there is none. Pure. */
export function judge<T>(
  expected: Expectation<T>,
  reply: Answer | ExchangeFailure,
  // `authorization`: the header that was sent, to be removed from an answer that echoes it.
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
    // A 4xx says that nothing was done; a 5xx or another 2xx says nothing certain.
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
    // The parser's own message quotes the document, which for a registration may be its secret.
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
