import type { Clock } from '../platform/clock.ts';
import type { ComplianceSettings } from '../platform/config.ts';
import { userAgent } from '../platform/package.ts';
import { type Expectation, judge } from './answer-verdict.ts';
import type { Budget, Lane, Ticket } from './budget.ts';
import type { Credentials } from './credentials.ts';
import { UnaddressableError, UpstreamError, type UpstreamErrorKind } from './errors.ts';
import type { FetchedKind, Kind } from './kinds.ts';
import { GrantRefused } from './oauth-endpoint.ts';
import { isAddressable, isUsableId } from './pointers.ts';
import { parseHttpDate, pauseAfter, retryAfterIn } from './retry-after.ts';
import { ExchangeFailure, exchange } from './transport.ts';

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

/** 0 while our clock is within the second that the Date header names; null without one, or from a cache. */
export function clockSkewMs(headers: Headers, wallMs: number): number | null {
  const date = parseHttpDate(headers.get('date'));
  if (date === null || headers.has('age')) return null;
  if (wallMs < date) return date - wallMs;
  return Math.min(0, date + 999 - wallMs);
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

/**
 * The absolute URL of `path`, which starts with a slash, is percent-encoded already and may carry a query.
 * @throws UnaddressableError when URL parsing would turn the path into another one.
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
