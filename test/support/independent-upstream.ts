import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Records, type Resource, type UpstreamRecord } from './independent-upstream-records.ts';

/**
 * A compliance service made from the specification alone: it imports nothing of the mirror and nothing of its
 * sandbox. Wherever the specification is silent it has decided unlike the sandbox, so that what holds against both
 * holds by the specification and not by a shared habit: the list is wrapped in a field of its own, ids are under
 * `id`, the newest record comes first, nothing says where a created record is, and errors are plain text.
 */

export const API_KEY = 'independent-key-0123456789';

/** Never more records on a page than this, whatever is asked for. */
const LARGEST_PAGE = 100;

/** What becomes of one request instead of its answer. */
export type Fault =
  | { fault: 'status'; status: number; retryAfterSeconds?: number }
  /** Answers nothing for so long, and then closes the connection. */
  | { fault: 'hang'; ms: number }
  /** Half an answer, and the connection is gone. */
  | { fault: 'cut' }
  /** Another answer. */
  | { fault: 'answer'; status?: number; headers?: Record<string, string>; body: object }
  /** Answered as ever, but not before this resolves. */
  | { fault: 'held'; until: Promise<unknown> };

export interface SeenRequest {
  method: string;
  /** With its query. */
  path: string;
  /** Milliseconds of the monotonic clock. */
  at: number;
}

export interface IndependentUpstream {
  /** Ends in `/v1`. */
  baseUrl: string;
  records: Records;
  /** Every request that arrived, in order. */
  seen: SeenRequest[];
  /** Of these, how many a fault holds. */
  held: number;
  /** Asked once for each request; null: it is answered. */
  faultOf: (request: SeenRequest) => Fault | null;
  /** Lists show nothing, although the records are there. */
  listsAreEmpty: boolean;
  /** Ids that lists leave out, although each still answers by itself. */
  unlisted: Set<string>;
  /** What else a record answers to besides its id, as an older number or a name in an address. */
  aliases: Map<string, string>;
  /** What lists say that they hold, of what they do. */
  total: (rows: number) => number;
  /** Called as a request arrives, before anything is answered. */
  onRequest: (request: SeenRequest) => void;
  close(): Promise<void>;
}

const RESOURCES: Readonly<
  Record<string, { resource: Resource; listed: boolean; byId: boolean; wrapper: string }>
> = {
  policies: { resource: 'policies', listed: true, byId: false, wrapper: 'policies' },
  'risk-assessments': { resource: 'assessments', listed: false, byId: true, wrapper: 'assessment' },
  vendors: { resource: 'vendors', listed: true, byId: true, wrapper: 'vendors' },
};

export async function startIndependentUpstream(): Promise<IndependentUpstream> {
  // A connection is left open: one that is closed for being idle at the moment of a request fails that request.
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    const seen = { method: request.method ?? '', path: request.url ?? '', at: performance.now() };
    upstream.seen.push(seen);
    upstream.onRequest(seen);
    const fault = upstream.faultOf(seen);
    if (fault === null) answer(upstream, request, response);
    else if (fault.fault === 'held') hold(response, fault.until, () => answer(upstream, request, response));
    else if (fault.fault === 'hang') hold(response, pause(fault.ms), () => response.destroy());
    else fail(fault, response);
  });
  /** Until then, or until whoever asked has gone. */
  function hold(response: ServerResponse, until: Promise<unknown>, end: () => void): void {
    let isHeld = true;
    upstream.held += 1;
    const letGo = () => {
      if (isHeld) upstream.held -= 1;
      isHeld = false;
    };
    response.once('close', letGo);
    void until.then(letGo).then(end);
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const upstream: IndependentUpstream = {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/service/v1`,
    records: new Records(),
    seen: [],
    held: 0,
    faultOf: () => null,
    listsAreEmpty: false,
    unlisted: new Set(),
    aliases: new Map(),
    total: (rows) => rows,
    onRequest: () => undefined,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return upstream;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms).unref());

function fail(fault: Exclude<Fault, { fault: 'held' | 'hang' }>, response: ServerResponse): void {
  if (fault.fault === 'answer') {
    const { status = 200, headers = {}, body } = fault;
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
  } else if (fault.fault === 'status') {
    const wait =
      fault.retryAfterSeconds === undefined ? {} : { 'retry-after': String(fault.retryAfterSeconds) };
    response.writeHead(fault.status, { 'content-type': 'text/plain', ...wait }).end('not now');
  } else {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '4096' });
    response.write('{"data":{"');
    setTimeout(() => response.destroy(), 5).unref();
  }
}

function answer(
  upstream: IndependentUpstream,
  request: IncomingMessage,
  response: ServerResponse,
): ServerResponse {
  const plain = (status: number, text: string) =>
    response.writeHead(status, { 'content-type': 'text/plain' }).end(text);
  if (request.headers.authorization !== `Bearer ${API_KEY}`) return plain(401, 'who are you?');
  const url = new URL(request.url ?? '', upstream.baseUrl);
  const base = new URL(upstream.baseUrl).pathname;
  const [name = '', id, ...rest] = url.pathname.slice(base.length + 1).split('/');
  const route = RESOURCES[name];
  if (!url.pathname.startsWith(`${base}/`) || route === undefined || rest.length > 0)
    return plain(404, 'nothing here');
  if (request.method !== 'GET') return plain(405, 'reading only');

  const json = (body: unknown) =>
    response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body));
  if (id === undefined) {
    if (!route.listed) return plain(404, 'there is no such list');
    return json(page(upstream, route.resource, route.wrapper, url.searchParams));
  }
  if (!route.byId) return plain(404, 'nothing here');
  const asked = decodeURIComponent(id);
  const record = upstream.records.find(route.resource, upstream.aliases.get(asked) ?? asked);
  return record === null ? plain(404, 'no such record') : json({ data: record, meta: {} });
}

function page(upstream: IndependentUpstream, resource: Resource, wrapper: string, query: URLSearchParams) {
  const held: UpstreamRecord[] = upstream.listsAreEmpty ? [] : upstream.records.newestFirst(resource);
  const all = upstream.unlisted.size === 0 ? held : held.filter(({ id }) => !upstream.unlisted.has(id));
  const number = Math.max(1, Number(query.get('page') ?? 1));
  const perPage = Math.min(LARGEST_PAGE, Math.max(1, Number(query.get('perPage') ?? LARGEST_PAGE)));
  const start = (number - 1) * perPage;
  return {
    data: { [wrapper]: all.slice(start, start + perPage) },
    meta: { page: number, perPage, total: upstream.total(all.length) },
  };
}
