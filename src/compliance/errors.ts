import { MirrorError } from '../platform/errors.ts';

/**
 * Why a request brought no usable answer.
 * `failed`, `partial`: a success by its status that says itself that it is none, or shows only a part of what was asked for.
 * `no_json`: a page, or a redirect to one. The API is not there, whatever was asked for.
 * `malformed`: the answer may not be the one asked for (no usable envelope, another id, too large).
 * `unexpected_status`: a status without a meaning here, such as a 404 for a list.
 * `cancelled`: only for a POST that we gave up after it was sent.
 */
export type UpstreamErrorKind =
  | 'unauthorized'
  | 'forbidden'
  | 'rate_limited'
  | 'server'
  | 'failed'
  | 'partial'
  | 'no_json'
  | 'timeout'
  | 'network'
  | 'malformed'
  | 'unexpected_status'
  | 'cancelled';

// biome-ignore format: names side by side
const RETRYABLE: ReadonlySet<UpstreamErrorKind> = new Set([
  'rate_limited', 'server', 'partial', 'no_json', 'timeout', 'network',
]);
// biome-ignore format: names side by side
const UNREADABLE: ReadonlySet<UpstreamErrorKind> = new Set([
  'failed', 'partial', 'no_json', 'malformed', 'unexpected_status',
]);

export interface UpstreamErrorDetails {
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
  /** How long the service asks us to wait, at most `MAX_RETRY_AFTER_MS`; null: it named no time. */
  readonly retryAfterMs: number | null;
  /** The start of the answer's body, without our credentials. */
  readonly excerpt: string | null;
  /** A POST that may have taken effect. Never send it again without looking. */
  readonly outcomeUnknown: boolean;

  constructor(kind: UpstreamErrorKind, message: string, details: UpstreamErrorDetails = {}) {
    const { status = null, retryAfterMs = null, excerpt = null, outcomeUnknown = false } = details;
    super(`upstream_${kind}`, message, {
      retryable: RETRYABLE.has(kind) && !outcomeUnknown,
      remedy: details.remedy,
      cause: details.cause,
    });
    this.kind = kind;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
    this.excerpt = excerpt;
    this.outcomeUnknown = outcomeUnknown;
  }
}

/** A request with this path or id would address another resource, so it was not sent. */
export class UnaddressableError extends MirrorError {
  constructor(message: string) {
    super('unaddressable', message, {
      remedy: 'No request can name this record, so its row shows only what events and lists have shown.',
    });
  }
}

/** The service does not accept our credentials, or they may not do this. */
export const isRefusal = ({ kind }: UpstreamError): boolean =>
  kind === 'unauthorized' || kind === 'forbidden';

/** The service does not take what was asked for: a parameter, or the form of an id. */
export const isNotTaken = ({ status }: UpstreamError): boolean => [400, 413, 422].includes(status ?? 0);

/** The service fails by itself at what was asked for. Any other 5xx may come from a proxy. */
export const isOwnFailure = ({ status }: UpstreamError): boolean => status === 500;

/** A web page, which may come from a proxy. */
export const isWebPage = ({ excerpt }: UpstreamError): boolean => /^\s*</.test(excerpt ?? '');

/** The service answered, without a refusal and without a status of its own failure, but we cannot use the answer. */
export const isUnreadable = ({ kind }: UpstreamError): boolean => UNREADABLE.has(kind);

/** How much of an unusable answer is shown to people. */
const SHOWN_CHARACTERS = 200;

/** The request, what is wrong with its answer, and the beginning of the answer. One line without control characters. */
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
