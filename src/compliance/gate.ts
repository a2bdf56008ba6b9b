import { hasContent, isErrorObject, isErrorStatus, MalformedAnswer, OUTCOMES } from './envelope.ts';
import {
  messageIn,
  messageOf,
  UpstreamError,
  type UpstreamErrorDetails,
  type UpstreamErrorKind,
} from './errors.ts';
import { parseJson } from './json.ts';
import { isObject, type JsonObject, plainName } from './pointers.ts';
import { type Answer, EXCERPT_BYTES, ExchangeFailure } from './transport.ts';

/**
 * The gate: what an HTTP exchange comes to. Nobody behind it looks at a status or a body. A value, with the moment at which it was true;
 * or an error that says which it is: failed, partial, limited, refused, or no answer of this API. Pure.
 */

/** What makes an answer a success, and its result. */
export interface Expectation<T> {
  method: 'GET' | 'POST';
  path: string;
  /** JSON text, sent as it is. */
  body?: string;
  isSuccess: (status: number) => boolean;
  /** Turns the answer's JSON (undefined: no body) into the result. Throws MalformedAnswer. */
  read: (json: unknown, headers: Headers) => T;
  /** `read` gets the answer's text instead. */
  asText?: true;
  /** The statuses that mean "nothing is there", and their result. */
  missing?: { at: readonly number[]; read: (answer: Answer) => T } | undefined;
  /** The result that an error answer means here; null: it is an error. */
  refusal?: (error: UpstreamError, reply: Answer | ExchangeFailure) => T | null;
  /** Has the id of a record. Then its fields are the record's, whatever their names. */
  isRecord?: (body: JsonObject) => boolean;
  /** The answer may hold a secret. Then an error shows only the reason that it gives. */
  isSecret?: boolean;
}

interface Value<T> {
  value: T;
  /** How old the answer was when it arrived: a cache may have given it. */
  agedMs: number;
}

/** What was sent, as far as its answer is judged by it. */
interface Request {
  /** The header. It is removed from an answer that echoes it. */
  authorization: string;
  /** When the answer had been read. */
  wallMs: number;
}

/** The result of a request, or its error. */
export function judge<T>(
  expected: Expectation<T>,
  reply: Answer | ExchangeFailure,
  sent: Request,
): Value<T> | UpstreamError {
  const verdict = verdictOn(expected, reply, sent);
  if (!(verdict instanceof UpstreamError)) return verdict;
  const value = expected.refusal?.(verdict, reply) ?? null;
  if (value === null) return verdict;
  return { value, agedMs: reply instanceof ExchangeFailure ? 0 : ageIn(reply.headers) };
}

function verdictOn<T>(
  expected: Expectation<T>,
  reply: Answer | ExchangeFailure,
  sent: Request,
): Value<T> | UpstreamError {
  if (reply instanceof ExchangeFailure) {
    const { kind, message, maybeSent, cause } = reply;
    return failure(kind, message, maybeSent, { cause });
  }
  const { status, headers } = reply;
  const agedMs = ageIn(headers);
  if (expected.missing?.at.includes(status)) return { value: expected.missing.read(reply), agedMs };
  const shown = excerptOf(reply.body, sent.authorization);
  const isPage = isWebPage(reply);
  if (!expected.isSuccess(status)) {
    const retryAfterMs = waitIn(reply, sent.wallMs);
    const reason = messageIn(shown ?? '', expected.body);
    const kind = isAboutPageSize(reason) ? 'not_taken' : kindOf(reply, retryAfterMs);
    // Only a 4xx is certain to have done nothing.
    const isRejection = status >= 400 && status < 500;
    const excerpt = expected.isSecret ? (isRejection ? reason : null) : shown;
    // Whoever reads this has credentials to mend.
    const why = reason !== null && (kind === 'forbidden' || kind === 'unauthorized') ? `: ${reason}` : '';
    return failure(kind, `answered ${status}${why}`, !isRejection, { excerpt, isPage, retryAfterMs });
  }
  const details = { excerpt: expected.isSecret ? null : shown, isPage };
  const json = jsonIn(reply.body);
  // What is asked for as text may be any, but no page.
  if (json === NO_JSON && (isPage || !expected.asText)) {
    // The parser's own message quotes the document, which may hold a registration's secret.
    return failure('no_json', 'the answer is not JSON', true, details);
  }
  const report = reportIn(json, expected.isRecord) ?? (status === 207 ? partsIn(json) : null);
  // What a POST has made in spite of a warning is made.
  if (report !== null && !(report.kind === 'partial' && expected.method === 'POST')) {
    const message = messageOf(report.fields, expected.body);
    const what = report.kind === 'partial' ? 'is only a part' : 'is a failure';
    const text = `says itself that it ${what} (${report.field})${message === null ? '' : `: ${message}`}`;
    const kind = report.kind === 'partial' ? 'partial' : kindOfFailure(reply, message);
    const retryAfterMs =
      kind === 'rate_limited'
        ? waitIn({ ...reply, status: 429 }, sent.wallMs)
        : parseRetryAfter(headers.get('retry-after'), dateOf(headers, sent.wallMs));
    const excerpt = expected.isSecret ? message : shown;
    return failure(kind, `answered ${status}, and the answer ${text}`, false, { excerpt, retryAfterMs });
  }
  try {
    return {
      value: expected.read(expected.asText ? new TextDecoder().decode(reply.body) : json, headers),
      agedMs,
    };
  } catch (error) {
    if (!(error instanceof MalformedAnswer)) throw error;
    return failure('malformed', error.message, true, { ...details, cause: error });
  }

  function failure(
    kind: UpstreamErrorKind,
    what: string,
    mayHaveWorked: boolean,
    more: UpstreamErrorDetails,
  ): UpstreamError {
    const { method, path, isSecret } = expected;
    const outcomeUnknown = mayHaveWorked && method === 'POST';
    const warning = outcomeUnknown ? '; whether it took effect is unknown, so it was not sent again' : '';
    const hidden =
      isSecret && more.excerpt === null
        ? ', in words that are not shown: they may hold a signing secret'
        : '';
    return new UpstreamError(kind, `${method} ${path}: ${what}${hidden}${warning}`, {
      ...more,
      outcomeUnknown,
    });
  }
}

/** The kind of a status that is no success. `waitMs`: how long the answer asks us to wait. */
export function kindOf(reply: Answer, waitMs: number | null): UpstreamErrorKind {
  const { status } = reply;
  // To a plain GET only something in between answers so.
  if (status === 304) return 'no_json';
  if (status === 401 || isTokenInvalid(reply)) return 'unauthorized';
  if (status === 429 || (status === 403 && waitMs !== null)) return 'rate_limited';
  // A page is that of a gateway.
  if (status === 403) return isWebPage(reply) ? 'no_json' : 'forbidden';
  // Any other of these may come from a proxy.
  if (status >= 500) return status === 500 ? 'server' : 'unreachable';
  return [400, 413, 422].includes(status) ? 'not_taken' : 'unexpected_status';
}

/** The kind of a success that says itself that it is none. */
function kindOfFailure(reply: Answer, message: string | null): UpstreamErrorKind {
  if (isTokenInvalid(reply)) return 'unauthorized';
  if (isAboutPageSize(message)) return 'not_taken';
  return isSpent(reply.headers) || LIMIT_WORDS.test(startOf(reply.body)) ? 'rate_limited' : 'failed';
}

/** The service says so, whatever its status (RFC 6750, section 3.1). Not `unauthorized`: some say so of what we may not see. */
const TOKEN_CODES =
  /"\w*(?:error|code|status)"\s*:\s*"?(?:401|unauthenticated|(?:invalid|expired)_?token|token_?expired)\b/i;
const isTokenInvalid = ({ headers, body }: Answer): boolean =>
  /error="?invalid_token\b/i.test(headers.get('www-authenticate') ?? '') || TOKEN_CODES.test(startOf(body));

/** Whatever its status, the service says that the size of a page is why. */
const isAboutPageSize = (message: string | null): boolean => /per.?page|page.?size/i.test(message ?? '');

export const isWebPage = ({ headers, body }: Answer): boolean =>
  /^\s*text\/html\b/i.test(headers.get('content-type') ?? '') || /^\s*</.test(startOf(body));

// ─── a 2xx that reports failure ─────────────────────────────────────────────────────────────────────────────

/** `fields`: where it says so, with the message if there is one. */
interface Report {
  kind: 'failed' | 'partial';
  field: string;
  fields: JsonObject;
}

/** Objects beside `data` that tell of the answer itself. Others count, filter or link what failed elsewhere. Names as `plainName` writes them. */
const ABOUT_ANSWER = /^(meta|metadata|status|result|response|outcome|shards)$/;
const STATUSES = /^(http|api|response|return|result)?(status|state|result|outcome|ack|code)(code)?$/;
/** Under any name of its own: `userErrors`, `errcode`, `faultstring`, `errorCount`. Several exceptions are those to a policy. */
const ERRORS =
  /(?:error|exception|failure|(?<!de)fault|^err)(?:(?<!exception)s)?(?:codes?|no|num(?:ber)?|msg|messages?|strings?|text|types?|details?|desc(?:ription)?|reasons?|info|(?<!exception)count)?$/;
const FAILED_WORDS =
  /^(err|errors?|fail|failed|failure|denied|forbidden|unauthorized|unavailable|maintenance)$/;
const UNFINISHED_WORDS = /^(pending|processing|queued|running|in_progress|accepted)$/;
/** That all is well, in a field for what is not: a word, or a sentence of success that denies nothing. Codes of success are 0, 1, 200, and these with zeros. */
const FINE =
  /^([a-z]?0+|ok(ay)?|succe(ss|eded)|none|na|null|nil|false|no(error|fault|exception|failure)s?|)$/;
const FINE_SENTENCE =
  /^(?!.*(?:\b(?:not?|un|without|fail|error|partial)|[不未没]))(?=.*(?:\bsuccess|成功))/is;
const FINE_CODES = /^([12]0*|20[0-6])$/;
/** A word of failing, and perhaps a part of an answer: `isPartial`, `failedShards`, `sourcesUnavailable`. `failedControls` are the service's subject. */
const SHORT =
  'partial|incomplete|timedout|terminatedearly|degraded|unreachable|unavailable|failed|skipped|omitted|unprocessed';
const PARTS_OF_ANSWER =
  '(?:results?|data|success|count|(?:shard|source|region|partition|node|backend|service|page|row|item|record|key)s?)';
const PARTS = new RegExp(`^(?:is|has)?(?:${SHORT})${PARTS_OF_ANSWER}?$|^${PARTS_OF_ANSWER}(?:${SHORT})$`);
const PART_WORDS = new RegExp(`^(?:${SHORT})`);
const WARNED_OF_PARTS = /\b(?:partial|incomplete|truncated|timed.?out)/i;

/**
 * What an answer says of itself at its top level, in `meta`, or beside `data` in another object about itself; null: nothing, or that all is
 * well. Of a record that is not wrapped, fields are its own, unless they are all those of an error.
 */
export function reportIn(body: unknown, isRecord: Expectation<unknown>['isRecord']): Report | null {
  if (Array.isArray(body)) {
    // As Salesforce has it.
    const isFailure = body.length > 0 && body.every((one) => isObject(one) && isErrorObject(one));
    return isFailure ? { kind: 'failed', field: 'all of it', fields: body[0] } : null;
  }
  if (!isObject(body)) return null;
  const isWrapped = Object.hasOwn(body, 'data');
  if (!isWrapped && isRecord?.(body)) {
    const field = isErrorObject(body) ? 'all of it' : Object.keys(body).find((name) => isErrorIn(body, name));
    return field === undefined ? null : { kind: 'failed', field, fields: body };
  }
  const { data, ...beside } = body;
  const reports = Object.entries(isWrapped ? beside : { meta: body['meta'] })
    .flatMap(([place, fields]) =>
      isObject(fields) && ABOUT_ANSWER.test(plainName(place)) ? reportsIn(fields, `${place}.`, data) : [],
    )
    .concat(reportsIn(beside, '', data));
  return reports.find(({ kind }) => kind === 'failed') ?? reports[0] ?? null;
}

/** Of an answer with a status for each of its parts: those that failed. */
function partsIn(answer: unknown): Report | null {
  const whole = isObject(answer)
    ? { ...answer, ...(isObject(answer['data']) ? answer['data'] : {}) }
    : { answer };
  for (const [field, value] of Object.entries(whole)) {
    const parts = Array.isArray(value) ? value.filter(isObject) : [];
    const failed = parts.filter((part) => isErrorStatus(part['status']) || isErrorObject(part));
    if (failed.length === 0) continue;
    return { kind: failed.length === parts.length ? 'failed' : 'partial', field, fields: failed[0]! };
  }
  return null;
}

function reportsIn(fields: JsonObject, place: string, data: unknown): Report[] {
  const hasRows = holdsContent(data);
  return Object.entries(fields).flatMap(([name, value]) => {
    const kind = kindOfField(plainName(name), value, hasRows) ?? (hasRows ? null : codeOf(name, fields));
    return kind === null ? [] : [{ kind, field: place + name, fields }];
  });
}

/** Whether there is anything in `data`, or in what it holds: `{ items: [] }` is as empty as `[]`. */
const holdsContent = (data: unknown): boolean =>
  isObject(data) ? Object.values(data).some(hasContent) : hasContent(data);

function kindOfField(name: string, value: unknown, isBesideData: boolean): Report['kind'] | null {
  const word = typeof value === 'object' ? '' : String(value).toLowerCase();
  const isFlag = /^(is|has)/.test(name);
  const isSaid = isFlag ? /^(true|1)$/.test(word) : hasContent(value) && !isFine(name, value);
  if (ERRORS.test(name) && isSaid) return isBesideData ? 'partial' : 'failed';
  const isDenied = /^(false|0)$/.test(word);
  if (OUTCOMES.test(name)) return isDenied ? 'failed' : PART_WORDS.test(plainName(word)) ? 'partial' : null;
  if (/^(is)?exhaustive$/.test(name)) return isDenied ? 'partial' : null;
  if (/^warnings?$/.test(name)) return WARNED_OF_PARTS.test(JSON.stringify(value)) ? 'partial' : null;
  if (STATUSES.test(name)) {
    if (isObject(value)) return isErrorStatus(value['code'] ?? value['status']) ? 'failed' : null;
    if (isErrorStatus(value) || FAILED_WORDS.test(word)) return 'failed';
    if (PART_WORDS.test(plainName(word))) return 'partial';
    return !isBesideData && UNFINISHED_WORDS.test(word) ? 'failed' : null;
  }
  // Also parts of the service that did not answer, by their names or their number.
  return PARTS.test(name) && isSaid ? 'partial' : null;
}

function isFine(name: string, value: unknown): boolean {
  if (typeof value === 'object') return false;
  const text = String(value);
  // Letters of other scripts are words too.
  const plain = /[^\x00-\x7f]/.test(text) ? text : plainName(text);
  return FINE.test(plain) || FINE_SENTENCE.test(text) || (name.endsWith('code') && FINE_CODES.test(text));
}

/** A code of its own, beside a message and no rows, that is none of success. */
function codeOf(name: string, fields: JsonObject): Report['kind'] | null {
  if (plainName(name) !== 'code' || !hasContent(fields[name])) return null;
  const message = fields['message'] ?? fields['msg'];
  return message === undefined || isFine('code', fields[name]) || isFine('', message) ? null : 'failed';
}

/** An object under a name that no record has for a field of its own. A list of errors, or an exception, may be its own. */
const isErrorIn = (record: JsonObject, name: string): boolean =>
  /^(error|fault)$/.test(plainName(name)) && isObject(record[name]) && hasContent(record[name]);

// ─── limits, and the age of an answer ─────────────────────────────────────────────────────────────────────

/** A longer wait is cut to this, so that a wrong header does not stop all repairs for a day. */
export const MAX_RETRY_AFTER_MS = 15 * 60_000;
/** After a rate limit that names no time, nothing is sent for so long. */
const DEFAULT_PAUSE_MS = 10_000;

/** Nothing is left of a rate limit. Services name it `X-RateLimit-Remaining`, and much like it, or write it into one header with the rest. */
const isSpent = (headers: Headers): boolean =>
  [...headers].some(
    ([name, value]) =>
      /rate-?limit/.test(name) &&
      (name.includes('remaining')
        ? value.trim() === '0'
        : /(?:^|[;,])\s*(?:r|remaining)=0\s*(?:[;,]|$)/.test(value)),
  );

/** Also an amount that is used up: `REQUEST_LIMIT_EXCEEDED`, `QuotaViolation`, “out of call volume quota”, “over qps”. */
const LIMIT_WORDS =
  /rate.?limit|too many requests|throttl|(?:limit|quota).{0,9}(?:exceed|exhaust|violat)|(?:out of|over)\b.{0,20}\b(?:quota|qps)/i;

/** When a rate limit begins anew, as milliseconds from now: services write seconds from now, or an instant in seconds, in milliseconds or as text. */
function resetIn(headers: Headers, nowMs: number): number | null {
  const [, text = ''] = [...headers].find(([name]) => /rate-?limit.*reset/.test(name)) ?? [];
  const count = /^\d{1,13}$/.test(text) ? Number(text) : Number.NaN;
  if (count < 1e7) return Math.min(count * 1000, MAX_RETRY_AFTER_MS);
  const at = Number.isNaN(count) ? Date.parse(text) : count < 1e11 ? count * 1000 : count;
  return Number.isNaN(at) ? null : Math.min(Math.max(0, at - nowMs), MAX_RETRY_AFTER_MS);
}

/** Milliseconds that an answer asks us to wait, from when it was read; null: it asks for no wait. */
export function waitIn({ status, headers, body }: Answer, wallMs: number): number | null {
  if (![403, 429, 503].includes(status)) return null;
  const nowMs = dateOf(headers, wallMs);
  const named = parseRetryAfter(headers.get('retry-after'), nowMs);
  const isSaid = () =>
    isSpent(headers) || headers.has('retry-after') || LIMIT_WORDS.test(new TextDecoder().decode(body));
  const isLimit = status === 429 || (status === 403 && isSaid());
  return named ?? (isLimit ? (resetIn(headers, nowMs) ?? DEFAULT_PAUSE_MS) : null);
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

const dateOf = (headers: Headers, wallMs: number): number => parseHttpDate(headers.get('date')) ?? wallMs;

/** Milliseconds since 1970 of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`, or null. */
export function parseHttpDate(text: string | null): number | null {
  const at = text === null ? Number.NaN : Date.parse(text);
  // Date.parse accepts nearly anything, 30 February too. Only a text that prints back the same is a date.
  return Number.isFinite(at) && new Date(at).toUTCString() === text ? at : null;
}

/** A hundred years. An older answer is not told from one that is as old as that. */
const MAX_AGE_SECONDS = 100 * 366 * 86_400;

/** Milliseconds since the service itself gave the answer, if a cache says so (RFC 9111, section 5.1). */
export function ageIn(headers: Headers): number {
  const seconds = /^\s*(\d+)/.exec(headers.get('age') ?? '')?.[1];
  return seconds === undefined ? 0 : Math.min(Number(seconds), MAX_AGE_SECONDS) * 1000;
}

/** How far the service's clock is ahead of ours: 0 within the second of its Date header. Null: no header, or a cached answer. */
export function clockSkewMs(headers: Headers, wallMs: number): number | null {
  const date = parseHttpDate(headers.get('date'));
  if (date === null || headers.has('age')) return null;
  if (wallMs < date) return date - wallMs;
  return Math.min(0, date + 999 - wallMs);
}

// ─── bodies ─────────────────────────────────────────────────────────────────────────────────────────────

const NO_JSON = Symbol('no JSON');

/** Undefined: there is no body. */
export function jsonIn(body: Uint8Array): unknown {
  if (body.length === 0) return undefined;
  try {
    return parseJson(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    return NO_JSON;
  }
}

const startOf = (body: Uint8Array, bytes = EXCERPT_BYTES): string =>
  new TextDecoder().decode(body.subarray(0, bytes));

/** The start of a body, for people. Credentials of `authorization` that the answer echoes are removed. */
function excerptOf(body: Uint8Array, authorization: string): string | null {
  if (body.length === 0) return null;
  const token = authorization.slice(authorization.indexOf(' ') + 1);
  // As it was sent, as some libraries write it in JSON, and as in a URL.
  const spellings = [...new Set([token, token.replaceAll('/', '\\/'), encodeURIComponent(token)])];
  const longest = Math.max(...spellings.map((spelling) => spelling.length));
  // Replaced before the cut, which could leave a part of a spelling.
  let text = startOf(body, EXCERPT_BYTES + longest);
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
