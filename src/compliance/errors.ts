import { MirrorError } from '../platform/errors.ts';

/**
 * Why the upstream's answer could not be used.
 * `malformed`: it cannot be trusted to be what was asked for (bad JSON, no usable envelope, another id, too
 * large, a redirect). `unexpected_status`: any status that has no meaning here, a 404 on a list among them.
 * `cancelled`: only for a POST that our own side gave up on while it was under way.
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

/** An error answer's body is kept up to here: enough to recognise it, too little to fill a table. */
export const EXCERPT_BYTES = 2048;

/** A request to the compliance service that ended in neither a usable answer nor, where that is one, a 404 or 410. */
export class UpstreamError extends MirrorError {
  readonly kind: UpstreamErrorKind;
  /** The answer's status; null when none arrived. */
  readonly status: number | null;
  /** What the service asked us to wait, in milliseconds and capped; null when it named no time. */
  readonly retryAfterMs: number | null;
  /** The start of the answer's body, at most `EXCERPT_BYTES`, credentials blotted out; null without one. */
  readonly excerpt: string | null;
  /** True for a POST that may have taken effect. It must not be sent again without looking. */
  readonly outcomeUnknown: boolean;

  constructor(
    kind: UpstreamErrorKind,
    message: string,
    details: {
      status?: number | null;
      retryAfterMs?: number | null;
      excerpt?: string | null;
      outcomeUnknown?: boolean;
      remedy?: string;
      cause?: unknown;
    } = {},
  ) {
    const outcomeUnknown = details.outcomeUnknown ?? false;
    super(`upstream_${kind}`, message, {
      retryable: RETRYABLE.has(kind) && !outcomeUnknown,
      ...(details.remedy === undefined ? {} : { remedy: details.remedy }),
      ...(details.cause === undefined ? {} : { cause: details.cause }),
    });
    this.kind = kind;
    this.status = details.status ?? null;
    this.retryAfterMs = details.retryAfterMs ?? null;
    this.excerpt = details.excerpt ?? null;
    this.outcomeUnknown = outcomeUnknown;
  }
}

/** Of an answer that cannot be used, so much is shown to people. */
const SHOWN_CHARACTERS = 200;

/**
 * The service answered, and not with a refusal or a failure of its own; and still nobody can tell what it says. Only a
 * person can mend that.
 */
export function isUnreadable(error: UpstreamError): boolean {
  return error.kind === 'malformed' || error.kind === 'unexpected_status';
}

/** Which request it was, what is wrong with its answer, and how that begins. One line, without control characters. */
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

/** The path or id would reach another resource than the one it names; nothing was sent. */
export class UnaddressableError extends MirrorError {
  constructor(message: string) {
    super('unaddressable', message, {
      remedy: 'No request can name this record. Its mirror row can only ever be what events showed of it.',
    });
  }
}
