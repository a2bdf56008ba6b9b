import { MirrorError } from '../platform/errors.ts';
import { parseJson } from './json.ts';
import type { JsonObject } from './pointers.ts';

/**
 * Why a request brought no usable answer.
 * `no_credentials`: none that can be used, so nothing was sent. `unauthorized`, `forbidden`: the service refuses them.
 * `unreachable`: no whole answer in time, or one of whatever stands in between. `server`: the service itself fails.
 * `no_json`: a page, or a redirect to one. The API is not there, whatever was asked for.
 * `failed`, `partial`: a success by its status that says itself that it is none, or shows only a part of what was asked for.
 * `malformed`: the answer may not be the one asked for (no usable envelope, another id, too large).
 * `not_taken`: the service does not take what was asked for: a parameter, or the form of an id.
 * `unexpected_status`: a status without a meaning here, such as a 404 for a list.
 */
export type UpstreamErrorKind =
  | 'no_credentials'
  | 'unauthorized'
  | 'forbidden'
  | 'rate_limited'
  | 'unreachable'
  | 'server'
  | 'no_json'
  | 'failed'
  | 'partial'
  | 'malformed'
  | 'not_taken'
  | 'unexpected_status';

// biome-ignore format: names side by side
const RETRYABLE: ReadonlySet<UpstreamErrorKind> = new Set([
  'rate_limited', 'unreachable', 'server', 'no_json', 'partial',
]);
// biome-ignore format: names side by side
const REFUSALS: ReadonlySet<UpstreamErrorKind> = new Set(['no_credentials', 'unauthorized', 'forbidden']);
// biome-ignore format: names side by side
const UNREADABLE: ReadonlySet<UpstreamErrorKind> = new Set([
  'no_json', 'failed', 'partial', 'malformed', 'not_taken', 'unexpected_status',
]);

export interface UpstreamErrorDetails {
  retryAfterMs?: number | null;
  excerpt?: string | null;
  isPage?: boolean;
  outcomeUnknown?: boolean;
  remedy?: string;
  cause?: unknown;
}

/** A request to the compliance service that brought no usable answer. */
export class UpstreamError extends MirrorError {
  readonly kind: UpstreamErrorKind;
  /** How long the service asks us to wait, at most `MAX_RETRY_AFTER_MS`; null: it named no time. */
  readonly retryAfterMs: number | null;
  /** The start of the answer's body, without our credentials. */
  readonly excerpt: string | null;
  /** The answer is a web page, which may come from a proxy. */
  readonly isPage: boolean;
  /** A POST that may have taken effect. Never send it again without looking. */
  readonly outcomeUnknown: boolean;

  constructor(kind: UpstreamErrorKind, message: string, details: UpstreamErrorDetails = {}) {
    const { retryAfterMs = null, excerpt = null, isPage = false, outcomeUnknown = false } = details;
    super(`upstream_${kind}`, message, {
      retryable: RETRYABLE.has(kind) && !outcomeUnknown,
      remedy: details.remedy,
      cause: details.cause,
    });
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
    this.excerpt = excerpt;
    this.isPage = isPage;
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

/** We have no credentials that the service accepts, or they may not do this. */
export const isRefusal = ({ kind }: UpstreamError): boolean => REFUSALS.has(kind);

/** The service answered, without a refusal and without a failure of its own, but we cannot use the answer. */
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

/** Fields of an error that hold text for people, the most telling first. */
const MESSAGE_FIELDS = [
  ...['detail', 'message', 'error_description', 'errorMessage', 'error', 'errors', 'title'],
  ...['msg', 'errmsg', 'faultstring', 'fault', 'reason'],
];

/** May be a secret: no signing secret is shorter, and few words are longer. */
const LONG_RUN = /[\w+/=-]{16,}/g;

const MAX_MESSAGE_LENGTH = 200;
/** Nobody writes a message deeper. */
const MESSAGE_DEPTH = 8;

/**
 * The one message that an error answer has for people, without what may be a secret in it. `asked`: our own request, whose words
 * are none. Null: the answer has no message, or is a web page. Pure.
 */
export function messageIn(answer: string, asked = ''): string | null {
  try {
    return messageOf(parseJson(answer), asked);
  } catch {
    return /^\s*[<{[]/.test(answer) ? null : messageOf(answer, asked);
  }
}

/** The same, of an answer's JSON. */
export function messageOf(answer: unknown, asked = ''): string | null {
  const text = wordsIn(answer)?.replace(/\s+/g, ' ').trim();
  if (!text) return null;
  const shown = text.replace(LONG_RUN, (run) => (asked.includes(run) ? run : '[hidden]'));
  return shown.slice(0, MAX_MESSAGE_LENGTH);
}

function wordsIn(value: unknown, levels = MESSAGE_DEPTH): string | null {
  if (typeof value === 'string') return value === '' ? null : value;
  if (typeof value !== 'object' || value === null || levels === 0) return null;
  const inner = Array.isArray(value) ? value : MESSAGE_FIELDS.map((name) => (value as JsonObject)[name]);
  for (const each of inner) {
    const words = wordsIn(each, levels - 1);
    if (words !== null) return words;
  }
  return null;
}
