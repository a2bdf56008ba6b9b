import type { Clock } from '../platform/clock.ts';
import type { ComplianceSettings } from '../platform/config.ts';
import { userAgent } from '../platform/package.ts';
import type { Budget, Lane, Ticket } from './budget.ts';
import type { Credentials } from './credentials.ts';
import { MalformedAnswer } from './envelope.ts';
import { UnaddressableError, UpstreamError, type UpstreamErrorKind } from './errors.ts';
import { parseJson } from './json.ts';
import type { FetchedKind, Kind } from './kinds.ts';
import { GrantRefused } from './oauth-endpoint.ts';
import { isAddressable, isUsableId } from './pointers.ts';
import { reasonIn } from './registration.ts';
import {
  type Answer,
  clockSkewMs,
  ExchangeFailure,
  excerptOf,
  exchange,
  pauseAfter,
  retryAfterIn,
  textOf,
  urlFor,
} from './transport.ts';

/** One moment on both clocks of Clock. */
interface Moment {
  steadyMs: number;
  wallMs: number;
}

/** When the request left us (after the wait for the budget) and when its answer had been read. */
export interface Timing {
  began: Moment;
  ended: Moment;
}

export interface Exchanged<T> extends Timing {
  status: number;
  value: T;
}

export interface ObservedRequest {
  method: string;
  /** The path with its id left out, such as `/vendors/{id}`; `other` for a path of nobody's. */
  route: string;
  status: number | null;
  durationMs: number;
  error: UpstreamErrorKind | null;
  /** By how much the service's clock is ahead of ours, beyond the second that its Date header is rounded to. */
  dateHeaderSkewMs: number | null;
}

/** What the verdict on an answer depends on, besides the answer. */
interface Expectation<T> {
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
  /** The result of these statuses, where they are an answer: nothing is there. */
  missing?: { at: readonly number[]; read: (answer: Answer) => T };
  /** Keeps the answer's text out of errors, but for the reason that a 4xx gives. */
  isSecret?: boolean;
}

export interface CallOptions {
  lane: Lane;
  signal: AbortSignal;
  /**
   * Called when the request may leave and directly before it does: after the wait for the budget, and again if
   * it is sent a second time with renewed credentials. A read counts as begun at the last such call.
   */
  onSend?: () => void | Promise<void>;
}

type OutgoingRequest<T> = Expectation<T> & CallOptions;

export interface RequesterOptions {
  settings: ComplianceSettings;
  credentials: Credentials;
  budget: Budget;
  clock: Clock;
  /** Called once per finished request, those sent a second time included. Must not throw. */
  observe?: (request: ObservedRequest) => void;
  /** Told of each 401 and 403 that the API has the last word with, before its error is thrown. Must not reject. */
  refused?: (refusal: RefusedRequest) => Promise<void>;
}

export interface RefusedRequest {
  status: 401 | 403;
  method: string;
  route: string;
}

export type Send = <T>(request: OutgoingRequest<T>) => Promise<Exchanged<T>>;

/** One request under budget and credentials, its answer judged. */
export function createRequester(options: RequesterOptions): Send {
  const { settings, credentials, budget, clock, observe } = options;
  const agent = userAgent();
  const now = (): Moment => ({ steadyMs: clock.steady(), wallMs: clock.wall() });

  async function authorize(request: CallOptions, ticket: Ticket): Promise<string> {
    try {
      const authorization = await credentials.authorization(request.signal);
      await request.onSend?.();
      request.signal.throwIfAborted();
      return authorization;
    } catch (error) {
      ticket.unused();
      throw error;
    }
  }

  /** `sent` learns which credentials went out, if any did. */
  async function sendOnce<T>(
    request: OutgoingRequest<T>,
    sent: { authorization?: string },
  ): Promise<Exchanged<T>> {
    const { method, path, signal } = request;
    const url = urlFor(settings.baseUrl, path);
    const body = request.body ?? null;
    const ticket = await budget.take(request.lane, signal);
    const authorization = await authorize(request, ticket);
    const headers = {
      accept: 'application/json',
      // Named because fetch offers brotli besides, whose decoder had a flaw in releases we may run on.
      'accept-encoding': 'gzip',
      authorization,
      'user-agent': agent,
      ...(body === null ? {} : { 'content-type': 'application/json' }),
    };

    sent.authorization = authorization;
    const began = now();
    const reply = await exchange(url, { method, headers, body }, settings.timeoutMs, signal);
    ticket.arrived();
    const ended = now();

    const answer = reply instanceof ExchangeFailure ? null : reply;
    const retryAfterMs = answer === null ? null : retryAfterIn(answer, ended.wallMs);
    const pauseMs = answer === null ? null : pauseAfter(answer, retryAfterMs);
    if (pauseMs !== null) budget.pauseUntil(ended.steadyMs + pauseMs);

    const verdict = judge(request, reply, { auth: settings.auth, authorization, retryAfterMs });
    const failure = verdict instanceof UpstreamError ? verdict : null;
    observe?.({
      method,
      route: routeOf(path),
      status: reply.status,
      durationMs: ended.steadyMs - began.steadyMs,
      error: failure?.kind ?? null,
      dateHeaderSkewMs: answer === null ? null : clockSkewMs(answer.headers, ended.wallMs),
    });
    if (verdict instanceof UpstreamError) {
      // An aborted read changed nothing, so its caller gets back the reason it gave.
      throw verdict.kind === 'cancelled' && !verdict.outcomeUnknown ? signal.reason : verdict;
    }
    return { status: answer!.status, value: verdict.value, began, ended };
  }

  async function sendRenewing<T>(request: OutgoingRequest<T>): Promise<Exchanged<T>> {
    const sent: { authorization?: string } = {};
    try {
      return await sendOnce(request, sent);
    } catch (error) {
      if (!(error instanceof UpstreamError) || error.kind !== 'unauthorized') throw error;
      // Where the credentials themselves could not be had, there is nothing that the service has refused.
      if (sent.authorization === undefined) throw error;
      const isRenewed = (await credentials.renew?.(request.signal, sent.authorization)) ?? false;
      // A POST is left to its caller even now: the rule that none is ever sent twice has no exceptions to learn.
      if (!isRenewed || request.method === 'POST') throw error;
      return await sendOnce(request, {});
    }
  }

  return async (request) => {
    try {
      return await sendRenewing(request);
    } catch (error) {
      const status = statusOfRefusal(error);
      if (status !== null) {
        await options.refused?.({ status, method: request.method, route: routeOf(request.path) });
      }
      throw error;
    }
  };
}

/** Null for every other failure, and for a refusal of the token endpoint's, which is noted as one of the grant. */
function statusOfRefusal(error: unknown): 401 | 403 | null {
  if (!(error instanceof UpstreamError) || error instanceof GrantRefused) return null;
  return error.status === 401 || error.status === 403 ? error.status : null;
}

interface Context {
  auth: ComplianceSettings['auth'];
  /** The Authorization header that was sent, so that an answer that echoes it is not passed on. */
  authorization: string;
  retryAfterMs: number | null;
}

/** The result, or why there is none. Reads nothing but its arguments. */
function judge<T>(
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
  if (expected.missing?.at.includes(status)) return { value: expected.missing.read(reply) };
  const shown = excerptOf(reply.body, context.authorization);
  const isRejection = status >= 400 && status < 500;
  const reason = expected.isSecret && isRejection ? reasonIn(shown ?? '', expected.body ?? '') : null;
  const excerpt = expected.isSecret ? reason : shown;
  if (!expected.accepts(status)) {
    const details = { status, excerpt, retryAfterMs: context.retryAfterMs };
    return upstreamError(kindOfStatus(status), `answered ${status}`, isAmbiguous(status), details);
  }
  try {
    return { value: expected.read(expected.asText ? textOf(reply.body) : jsonOf(reply.body)) };
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

/** What a status means when it is neither the success asked for nor that nothing is there. */
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

function jsonOf(body: Uint8Array): unknown {
  if (body.length === 0) return undefined;
  try {
    return parseJson(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    // The parser's own message quotes the document, which for a registration may be its secret.
    throw new MalformedAnswer('the answer is not JSON');
  }
}

/** The path that a kind's collection has below the base URL. Source: section 4 of the specification. */
export const COLLECTIONS = {
  policy: '/policies',
  risk_assessment: '/risk-assessments',
  vendor: '/vendors',
} as const satisfies Record<Kind, string>;

/** @throws UnaddressableError for an id that no path can carry. */
export function recordPath(kind: FetchedKind, id: string): string {
  if (!isUsableId(id) || !isAddressable(id)) {
    throw new UnaddressableError(`the ${kind} id ${JSON.stringify(id)} cannot be put into a request's path`);
  }
  return `${COLLECTIONS[kind]}/${encodeURIComponent(id)}`;
}

/** The path with its id left out, from a short fixed list, so that metrics have few labels. */
export function routeOf(path: string): string {
  const [, collection, id, ...rest] = path.split('?')[0]!.split('/');
  const route = `/${collection ?? ''}`;
  if (id === undefined) {
    return route === '/webhooks' || (Object.values(COLLECTIONS) as string[]).includes(route)
      ? route
      : 'other';
  }
  const isRecord = rest.length === 0 && id !== '';
  return isRecord && (route === COLLECTIONS.vendor || route === COLLECTIONS.risk_assessment)
    ? `${route}/{id}`
    : 'other';
}
