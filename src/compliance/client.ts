import { holdsNothing, type List, listIn, objectIn, recordIn, WRAPPERS } from './envelope.ts';
import type { FetchedKind, Kind, ListedKind } from './kinds.ts';
import { type IdPointers, type JsonObject, recordIdIn } from './pointers.ts';
import { type RegistrationAnswer, registrationIn } from './registration.ts';
import {
  type CallOptions,
  COLLECTIONS,
  createRequester,
  type Exchanged,
  type RequesterOptions,
  recordPath,
  routeOf,
  type Timing,
} from './requester.ts';
import type { RegistrationRequest } from './schemas.ts';

/** Its meta's perPage and total win over whatever was asked for. */
export interface Page
  extends Timing,
    Pick<List, 'objects' | 'meta'>,
    Partial<Pick<List, 'unusable' | 'next'>> {
  status: number;
}

export type RecordAnswer = Timing &
  (
    | { outcome: 'found'; object: JsonObject }
    /** `isPage`: for people to look at, as a proxy or a web server has it, and no answer of an API's own. */
    | { outcome: 'missing'; isPage?: boolean }
  );

export interface Created {
  object: JsonObject;
  /** Null when the answer names none where the pointers look; the record exists all the same. */
  id: string | null;
}

/**
 * The seven operations of the specification. Each call is one request, two when a GET met a 401 and the
 * credentials could be renewed. Every failure is thrown as UpstreamError, save an id that cannot be asked for
 * (UnaddressableError), credentials that cannot be had (their own error), and the caller's abort (its reason).
 */
export interface ComplianceClient {
  /** `page`: its number, or how many records to leave out, as the setting of its parameter has it. */
  listPage(kind: ListedKind, page: number, options: PageCallOptions): Promise<Page>;
  /** `missing` is a 404 or a 410 and nothing else. A found object carries the id that was asked for, or none at all. */
  getRecord(kind: FetchedKind, id: string, options: CallOptions): Promise<RecordAnswer>;
  createPolicy(body: JsonObject, options: CallOptions): Promise<Created>;
  createRiskAssessment(body: JsonObject, options: CallOptions): Promise<Created>;
  /** Any 2xx is success, whatever it says: its answer is handed on whole, since its secret is shown only once. */
  registerWebhook(request: RegistrationRequest, options: CallOptions): Promise<RegistrationAnswer>;
  /**
   * Any request; any 2xx is success, and its JSON is handed on as it is (null: empty). `path` is below the base
   * URL, percent-encoded, and may carry a query. `body` is JSON text and sent as it is: what was parsed and
   * written anew would have lost digits of large numbers.
   */
  request(
    request: { method: 'GET' | 'POST'; path: string; body?: string } & CallOptions,
  ): Promise<Exchanged<unknown>>;
}

export interface PageCallOptions extends CallOptions {
  /** A 404 or a 400 then is an empty page, which is how some services answer behind the last one. */
  isBehindLast?: boolean;
  /** Sent instead of the parameters that are set: to find out which ones the service listens to. */
  query?: Record<string, string>;
}

export interface ClientOptions extends RequesterOptions {
  pointers: IdPointers;
}

/** Its answers may hold a signing secret, so that of none more than the reason of a 4xx goes into an error. */
const REGISTRATIONS = '/webhooks';

const NO_ROWS: Pick<Page, 'objects' | 'meta'> = { objects: [], meta: {} };

const isOk = (status: number) => status === 200;
const isSuccess = (status: number) => status >= 200 && status < 300;
/** The specification does not show the success status of a create. */
const isCreated = (status: number) => status === 200 || status === 201;

export function createClient(options: ClientOptions): ComplianceClient {
  const { settings, pointers } = options;
  const send = createRequester(options);
  const idOf = (kind: Kind) => (object: JsonObject) => recordIdIn(object, kind, pointers);

  async function create(kind: 'policy' | 'risk_assessment', body: JsonObject, call: CallOptions) {
    const { value } = await send({
      ...call,
      method: 'POST',
      path: COLLECTIONS[kind],
      body: JSON.stringify(body),
      accepts: isCreated,
      read: (answer) => objectIn(answer, WRAPPERS[kind], idOf(kind)),
    });
    return { object: value, id: idOf(kind)(value) };
  }

  return {
    async listPage(kind, page, { isBehindLast = false, query: asked, ...call }) {
      const { pageParam, perPageParam, pageSize } = settings.paging;
      // Always the same size, even after an answer that names another: changing it in a list scan would shift the pages.
      const query = new URLSearchParams(
        asked ?? { [pageParam]: String(page), [perPageParam]: String(pageSize) },
      );
      const { value, ...rest } = await send<Omit<Page, 'status' | keyof Timing>>({
        ...call,
        method: 'GET',
        path: `${COLLECTIONS[kind]}?${query}`,
        accepts: isOk,
        read: (body) =>
          isBehindLast && holdsNothing(body) ? NO_ROWS : listIn(body, WRAPPERS[kind], idOf(kind)),
        ...(isBehindLast ? { missing: { at: [204, 400, 404], read: () => NO_ROWS } } : {}),
      });
      return { ...value, ...rest };
    },

    async getRecord(kind, id, call) {
      const path = recordPath(kind, id);
      let isPage = false;
      const { value, began, ended } = await send<JsonObject | null>({
        ...call,
        method: 'GET',
        path,
        accepts: isOk,
        read: (body) => recordIn(body, kind, id, pointers),
        missing: {
          at: [404, 410],
          read: ({ headers }) => {
            isPage = /^\s*text\/html\b/i.test(headers.get('content-type') ?? '');
            return null;
          },
        },
      });
      return value === null
        ? { outcome: 'missing', isPage, began, ended }
        : { outcome: 'found', object: value, began, ended };
    },

    createPolicy: (body, call) => create('policy', body, call),
    createRiskAssessment: (body, call) => create('risk_assessment', body, call),

    async registerWebhook(registration, call) {
      const { value } = await send({
        ...call,
        method: 'POST',
        path: REGISTRATIONS,
        body: JSON.stringify(registration),
        accepts: isSuccess,
        asText: true,
        read: (text) => registrationIn(String(text)),
        isSecret: true,
      });
      return value;
    },

    request: (request) =>
      send({
        ...request,
        accepts: isSuccess,
        read: (body) => body ?? null,
        isSecret: routeOf(request.path) === REGISTRATIONS,
      }),
  };
}
