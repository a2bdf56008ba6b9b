import { type Clock, type Moment, momentOf } from '../platform/clock.ts';
import type { ComplianceSettings } from '../platform/config.ts';
import type { Budget, Lane } from './budget.ts';
import { holdsNoRows, holdsNothing, type List, listIn, recordIn, WRAPPERS } from './envelope.ts';
import { UnaddressableError, UpstreamError, type UpstreamErrorKind } from './errors.ts';
import { clockSkewMs, type Expectation, isWebPage, judge } from './gate.ts';
import type { FetchedKind, Kind, ListedKind } from './kinds.ts';
import { firstPageOf } from './paging.ts';
import {
  type IdPointers,
  isAddressable,
  isMarkedDeleted,
  isObject,
  isUsableId,
  type JsonObject,
  recordIdIn,
  recordIdOf,
} from './pointers.ts';
import { type RegistrationAnswer, type RegistrationRequest, registrationIn } from './registration.ts';
import { ExchangeFailure, exchange, urlFor } from './transport.ts';

/**
 * When the request was sent, after its wait for the budget, and when its answer had been read; both as long ago as the answer is old, since
 * a cache may have given it.
 */
export interface Timing {
  began: Moment;
  ended: Moment;
  agedMs?: number;
}

interface Exchanged<T> extends Timing {
  value: T;
}

export type Page = Timing &
  List & {
    /** Fewer rows than were asked for, and than the service says that its pages have. */
    isShort?: true;
  };

/**
 * `isUnnamed`: the object has no id. `isPage`: the answer is a web page. Either may come from a proxy and not from the API.
 */
type RecordOutcome =
  | { outcome: 'found'; object: JsonObject; isUnnamed: boolean }
  | { outcome: 'missing'; isPage: boolean };
export type RecordAnswer = Timing & RecordOutcome;

export interface CallOptions {
  lane: Lane;
  signal: AbortSignal;
  /** Called just before the request is sent, each time that it is sent. A read counts as begun at the last call. */
  onSend?: () => void | Promise<void>;
}

export interface PageCallOptions extends CallOptions {
  /** Any refusal and any failure of this address then counts as an empty page: services answer in many ways behind their last one. */
  isBehindLast?: boolean;
  /** Sent instead of the configured parameters, to find out which ones the service uses. */
  query?: Record<string, string> | undefined;
}

export interface ObservedRequest {
  method: string;
  /** See `routeOf`. */
  route: string;
  status: number | null;
  durationMs: number;
  error: UpstreamErrorKind | null;
  /** See `clockSkewMs`. */
  dateHeaderSkewMs: number | null;
}

/** Who we are to the compliance service. */
export interface Credentials {
  /**
   * The value of the Authorization header, asked for before each request. After a 401 for the value `rejected`: another one, renewed unless
   * another request has done so meanwhile; or the same if there is none.
   */
  authorization(signal: AbortSignal, rejected?: string): Promise<string>;
  /** They cannot be used until a person acts, as far as is known without a request. */
  needPerson?(): Promise<boolean>;
}

export interface ClientOptions {
  settings: ComplianceSettings;
  pointers: IdPointers;
  credentials: Credentials;
  budget: Budget;
  clock: Clock;
  /** The page size to begin with, in place of the setting. */
  pageSize?: number | undefined;
  /** Called when a smaller one had to be found. */
  onPageSize?: (size: number) => Promise<unknown>;
  /** Called for each request that was sent, when it has ended. Must not throw. */
  observe?: (request: ObservedRequest) => void;
}

/** Its answers may hold a signing secret. */
const REGISTRATIONS = '/webhooks';

const NO_ROWS: List = { objects: [], unusable: new Map(), meta: {}, next: null };
const REFUSED: List = { ...NO_ROWS, isRefusal: true };

/** Of these a page behind the last one may be the reason. Not what is about credentials, a limit, or the way to the service. */
const REFUSALS: ReadonlySet<UpstreamErrorKind> = new Set([
  'server',
  'failed',
  'not_taken',
  'unexpected_status',
]);

/** Rows of a page, as a multiple of those asked for. A service without pages sends all that it has, and this many are never too many. */
const ROWS_MAX_TIMES = 4;
const ROWS_ALWAYS_TAKEN = 1_000;

const isOk = (status: number) => status === 200;
const isAny2xx = (status: number) => status >= 200 && status < 300;

export type ComplianceClient = ReturnType<typeof createClient>;

/**
 * The API. Each call is one request, or two when a GET got a 401 and the credentials could be renewed, or a UUID was not found. Every failure is thrown
 * as UpstreamError, except UnaddressableError for an id that no path can carry, the credentials' own errors, and the reason of
 * the caller's abort.
 */
export function createClient(options: ClientOptions) {
  const { settings, pointers } = options;
  const send = createSender(options);
  const idOf = (kind: Kind) => (object: JsonObject) => recordIdIn(object, kind, pointers);
  /** The largest page size that the service takes, as far as it has been tried. */
  let pageSize = options.pageSize ?? settings.paging.pageSize;
  let areAllRefused = false;

  /** Halves a page size that is refused, until one is taken. Only where a list begins: a change during a list scan would move the pages. */
  async function withPageSize<T>(mayHalve: boolean, ask: (size: number) => Promise<T>): Promise<T> {
    let refusal: unknown = null;
    for (let size = pageSize; size >= 1; size = Math.floor(size / 2)) {
      try {
        const answer = await ask(size);
        if (size !== pageSize) await options.onPageSize?.(size);
        [pageSize, areAllRefused] = [size, false];
        return answer;
      } catch (error) {
        refusal ??= error;
        const isRefused = error instanceof UpstreamError && error.kind === 'not_taken';
        if (!mayHalve || areAllRefused || !isRefused) throw refusal;
      }
    }
    areAllRefused = true;
    throw refusal;
  }

  return {
    /** `page`: its number, or how many records to skip where the page parameter is an offset. */
    async listPage(
      kind: ListedKind,
      page: number,
      { isBehindLast = false, query: asked, ...call }: PageCallOptions,
    ): Promise<Page> {
      const { pageParam, perPageParam } = settings.paging;
      const mayHalve = asked === undefined && page === firstPageOf(settings.paging);
      return await withPageSize(mayHalve, async (size) => {
        // Always the same size, even if an answer names another.
        const query = asked ?? { [pageParam]: String(page), [perPageParam]: String(size) };
        const rowsAsked = Number(query[perPageParam]) || 0;
        const rowsMax = Math.max(ROWS_ALWAYS_TAKEN, ROWS_MAX_TIMES * rowsAsked);
        const { value, ...timing } = await send<List>({
          ...call,
          method: 'GET',
          path: `${COLLECTIONS[kind]}?${new URLSearchParams(query)}`,
          isSuccess: isOk,
          read: (body, headers) => {
            if (isBehindLast && holdsNoRows(body)) return holdsNothing(body) ? NO_ROWS : REFUSED;
            return listIn(body, WRAPPERS[kind], idOf(kind), { rowsMax, headers });
          },
          missing: { at: [204], read: () => NO_ROWS },
          refusal: ({ kind: why, retryAfterMs }, reply) => {
            const isRedirect = reply instanceof ExchangeFailure && why === 'no_json';
            return isBehindLast && (isRedirect || REFUSALS.has(why)) && retryAfterMs === null
              ? REFUSED
              : null;
          },
        });
        const isShort = value.objects.length < Math.min(rowsAsked, value.meta.perPage ?? rowsAsked);
        return { ...value, ...timing, ...(isShort ? { isShort } : {}) };
      });
    },

    /** `missing`: a 404 or a 410. A found object has the id that was asked for, or none. */
    async getRecord(kind: FetchedKind, id: string, call: CallOptions): Promise<RecordAnswer> {
      const ask = async (spelled: string): Promise<RecordAnswer> => {
        const { value, ...timing } = await send<RecordOutcome>({
          ...call,
          method: 'GET',
          path: recordPath(kind, spelled),
          isSuccess: isOk,
          read: (body) => {
            const object = recordIn(body, kind, id, pointers);
            // Some say it beside the record.
            const isDeleted = [object, ...(isObject(body) ? [body] : [])].some((fields) =>
              isMarkedDeleted(fields, pointers, options.clock.wall()),
            );
            if (isDeleted) return { outcome: 'missing', isPage: false };
            return { outcome: 'found', object, isUnnamed: idOf(kind)(object) === null };
          },
          isRecord: (body) => idOf(kind)(body) !== null,
          missing: {
            at: [404, 410],
            read: (reply) => ({ outcome: 'missing', isPage: isWebPage(reply) }),
          },
        });
        return { ...value, ...timing };
      };
      const answer = await ask(id);
      // We keep a UUID in small letters. A service that compares ids letter by letter may write it in capitals.
      const capitals = recordIdOf(id.toUpperCase()) === id ? id.toUpperCase() : id;
      return answer.outcome === 'found' || capitals === id ? answer : await ask(capitals);
    },

    /** Any 2xx is success. The answer is returned whole, because its secret is shown only once. */
    async registerWebhook(registration: RegistrationRequest, call: CallOptions): Promise<RegistrationAnswer> {
      const { value } = await send({
        ...call,
        method: 'POST',
        path: REGISTRATIONS,
        body: JSON.stringify(registration),
        isSuccess: isAny2xx,
        asText: true,
        read: (text) => registrationIn(String(text)),
        isSecret: true,
      });
      return value;
    },

    /**
     * Any other request, such as a create. Any 2xx is success (null if empty). `path` is below the base URL, percent-encoded, and
     * may have a query. `body` is JSON text, sent as it is.
     */
    request: (
      request: Pick<Expectation<unknown>, 'method' | 'path' | 'body'> & CallOptions,
    ): Promise<Exchanged<unknown>> =>
      send({
        ...request,
        isSuccess: isAny2xx,
        read: (body) => body ?? null,
        isSecret: routeOf(request.path) === REGISTRATIONS,
      }),
  };
}

/** Sends requests with credentials and within the budget. A GET that got a 401 is sent once more with renewed credentials. */
function createSender(options: ClientOptions) {
  const { settings, credentials, budget, clock } = options;

  /** The authorization server may ask us to wait too. Then all requests wait, because they need its credentials. */
  async function obeying<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      const waitMs = error instanceof UpstreamError ? error.retryAfterMs : null;
      if (waitMs !== null) budget.pauseUntil(clock.steady() + waitMs);
      throw error;
    }
  }

  return async function send<T>(
    request: Expectation<T> & CallOptions,
    isSecond = false,
  ): Promise<Exchanged<T>> {
    const { method, path, signal, body = null } = request;
    const url = urlFor(settings.baseUrl, path);
    const { authorization, began, reply } = await budget.run(request.lane, signal, async () => {
      const authorization = await obeying(credentials.authorization(signal));
      await request.onSend?.();
      signal.throwIfAborted();
      const began = momentOf(clock);
      const reply = await exchange(url, { method, authorization, body }, settings.timeoutMs, signal);
      return { authorization, began, reply };
    });
    const ended = momentOf(clock);

    const verdict = judge(request, reply, { authorization, wallMs: ended.wall });
    const pauseMs = verdict instanceof UpstreamError ? verdict.retryAfterMs : null;
    if (pauseMs !== null) budget.pauseUntil(ended.steady + pauseMs);
    options.observe?.({
      method,
      route: routeOf(path),
      status: reply instanceof ExchangeFailure ? null : reply.status,
      durationMs: ended.steady - began.steady,
      error: verdict instanceof UpstreamError ? verdict.kind : null,
      dateHeaderSkewMs: reply instanceof ExchangeFailure ? null : clockSkewMs(reply.headers, ended.wall),
    });
    if (!(verdict instanceof UpstreamError)) {
      const { value, agedMs } = verdict;
      return { value, began: ago(began, agedMs), ended: ago(ended, agedMs), agedMs };
    }
    if (verdict.kind === 'unauthorized' && !isSecond) {
      const other = await obeying(credentials.authorization(signal, authorization));
      // A POST is never sent twice.
      if (other !== authorization && method === 'GET') return await send(request, true);
    }
    // A read that was given up changed nothing, so its caller gets the reason of its own abort.
    if (method === 'GET') signal.throwIfAborted();
    throw verdict;
  };
}

const ago = ({ wall, steady }: Moment, ms: number): Moment => ({ wall: wall - ms, steady: steady - ms });

/** For each kind the path of its collection below the base URL. Source: section 4 of the specification. */
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

const ROUTES: readonly string[] = [
  ...Object.values(COLLECTIONS),
  REGISTRATIONS,
  `${COLLECTIONS.vendor}/{id}`,
  `${COLLECTIONS.risk_assessment}/{id}`,
];

/** The path without its id, such as `/vendors/{id}`; `other` if it is not in ROUTES, so that metrics have few labels. */
export function routeOf(path: string): string {
  const route = path.split('?')[0]!.replace(/^(\/[^/]+)\/[^/]+$/, '$1/{id}');
  return ROUTES.includes(route) ? route : 'other';
}
