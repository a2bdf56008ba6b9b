import { MirrorError } from '../platform/errors.ts';
import { parseJson } from './json.ts';
import type { JsonObject } from './pointers.ts';

interface Meaning {
  /** `refused`: we have no credentials that are accepted. `unusable`: the service answered, and nobody can use the answer. */
  is: 'refused' | 'unusable' | 'failing';
  /** Asked again, it may bring an answer. */
  passes?: true;
  remedy: string;
}

/** Why a request brought no usable answer. */
const MEANINGS = {
  /** None that can be used, so nothing was sent. */
  no_credentials: {
    is: 'refused',
    remedy:
      'Sign in with `compliance-mirror login`: the running service uses it with its next request, and nothing is deleted meanwhile.',
  },
  unauthorized: {
    is: 'refused',
    remedy:
      'The service refuses our credentials: check COMPLIANCE_API_KEY or COMPLIANCE_CLIENT_*, and whether they were revoked. With OAuth, sign in again.',
  },
  forbidden: {
    is: 'refused',
    remedy:
      'The credentials are known but may not do this: check their permissions and COMPLIANCE_SCOPES. With OAuth, what writes needs `compliance-mirror login --write`.',
  },
  rate_limited: {
    is: 'failing',
    passes: true,
    remedy: 'The service wants fewer requests: lower COMPLIANCE_REQUESTS_PER_MINUTE.',
  },
  /** No whole answer in time, or one of whatever stands in between. */
  unreachable: {
    is: 'failing',
    passes: true,
    remedy: 'Check COMPLIANCE_BASE_URL, name resolution, certificates and the way to the service.',
  },
  server: {
    is: 'failing',
    passes: true,
    remedy: 'The service itself fails; nothing to do here unless it lasts.',
  },
  /** A page, or a redirect to one. The API is not there, whatever was asked for. */
  no_json: {
    is: 'unusable',
    passes: true,
    remedy:
      'Check that COMPLIANCE_BASE_URL is the API itself, and what stands in between: a proxy, a sign-in.',
  },
  /** A success by its status that says itself that it is none. */
  failed: {
    is: 'unusable',
    remedy: 'Do as the service’s message says: often the credentials lack a permission or a scope.',
  },
  /** It says itself that it shows only a part of what was asked for. */
  partial: {
    is: 'unusable',
    passes: true,
    remedy: 'The service itself could not show everything; it is asked again.',
  },
  /** It may not be the answer to this: no usable envelope, another id, too large. */
  malformed: {
    is: 'unusable',
    remedy: 'Check that COMPLIANCE_BASE_URL is the API itself and that ID_POINTERS_* fit its records.',
  },
  /** A parameter, or the form of an id. */
  not_taken: {
    is: 'unusable',
    remedy: 'The service does not take what was asked for: change it as its message says.',
  },
  /** A status without a meaning here, such as a 404 for a list. */
  unexpected_status: {
    is: 'unusable',
    remedy: 'Check COMPLIANCE_BASE_URL, and the request if it was your own.',
  },
} as const satisfies Record<string, Meaning>;

export type UpstreamErrorKind = keyof typeof MEANINGS;

const meaningOf = (kind: UpstreamErrorKind): Meaning => MEANINGS[kind];

const REMEDY_OF_UNKNOWN = 'Look in the service whether the request took effect before you repeat it.';

export interface UpstreamErrorDetails {
  retryAfterMs?: number | null;
  excerpt?: string | null;
  isPage?: boolean;
  outcomeUnknown?: boolean;
  remedy?: string | undefined;
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
    const { passes = false, remedy } = meaningOf(kind);
    super(`upstream_${kind}`, message, {
      retryable: passes && !outcomeUnknown,
      remedy: outcomeUnknown ? REMEDY_OF_UNKNOWN : (details.remedy ?? remedy),
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

export const isRefusal = ({ kind }: UpstreamError): boolean => meaningOf(kind).is === 'refused';
export const isUnreadable = ({ kind }: UpstreamError): boolean => meaningOf(kind).is === 'unusable';

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
