import { createHmac } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Where the specification is silent, one way to have it. */
export interface Shape {
  /** What a list is: `{data: […]}`, `{data: {items: […]}}`, or the array alone. */
  list: 'data' | 'nested' | 'bare';
  /** The field of a row that holds its id, and that of a record answered by itself; null: there is none. */
  ids: { policy: string; vendor: string; assessment: string | null };
  /** Names of the parameters; null: none is heeded. An unknown one is answered 400 if `isStrict`. */
  paging: { page: string | null; size: string | null; first: 0 | 1; isStrict?: true };
  signing: {
    header: string;
    algorithm: 'sha256' | 'sha512';
    content: (t: string, body: string) => string;
    secret: string;
    encoding: 'utf8' | 'hex' | 'base64';
  };
  /** What the registration is answered, given its id and the secret; left out: both in data. */
  registration?: (id: string, secret: string) => unknown;
  /** The key may only read. */
  refusesRegistrations?: boolean;
  /** What events are about; left out: a vendor, as `vendorId`. */
  event?: (number: number) => { type: string; data: object };
}

export const PLAIN: Shape = {
  list: 'data',
  ids: { policy: 'policyId', vendor: 'id', assessment: 'id' },
  paging: { page: 'page', size: 'perPage', first: 1 },
  signing: {
    header: 'X-Webhook-Signature',
    algorithm: 'sha256',
    content: (t, body) => `${t}.${body}`,
    secret: 'a-signing-secret-0123456789',
    encoding: 'utf8',
  },
};

export const KEY = 'the-key-of-the-shaped-upstream';

export interface ShapedUpstream {
  baseUrl: string;
  /** Of each request, with its query. */
  seen: string[];
  registered: string[];
  /** Sends an event to every registered address until it is taken, or `close`. */
  emit(): Promise<void>;
  close(): Promise<void>;
}

const RETRY_MS = 300;

const vendorUpdated = (): { type: string; data: object } => ({
  type: 'vendor.updated',
  data: { vendorId: 'ven-2', name: 'Vendor 2', status: 'draft' },
});

/** A compliance service of that shape, in memory; it knows nothing of the mirror. */
export async function startShaped(
  shape: Shape,
  letsIn: (bearer: string) => boolean = (bearer) => bearer === KEY,
): Promise<ShapedUpstream> {
  const row = (field: string, id: string, name: string) => ({
    [field]: id,
    name,
    status: 'draft',
    version: '1.0',
  });
  const lists = {
    policies: [1, 2, 3, 4, 5].map((n) => row(shape.ids.policy, `pol-${n}`, `Policy ${n}`)),
    vendors: [1, 2, 3].map((n) => row(shape.ids.vendor, `ven-${n}`, `Vendor ${n}`)),
  };
  const seen: string[] = [];
  const registered: string[] = [];
  const ended = new AbortController();
  let events = 0;

  const answer = (request: IncomingMessage, response: ServerResponse, body: string) => {
    const url = new URL(request.url ?? '', 'http://localhost');
    seen.push(`${request.method} ${url.pathname}${url.search}`);
    const json = (status: number, value: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    const bearer = (request.headers.authorization ?? '').replace('Bearer ', '');
    if (!letsIn(bearer)) return json(401, { error: 'no such key' });
    const [, version, name, id] = url.pathname.split('/');
    if (version !== 'v1')
      return response.writeHead(404, { 'content-type': 'text/html' }).end('<h1>Not here</h1>');
    if (name === 'webhooks' && request.method === 'POST') {
      registered.push((JSON.parse(body) as { url: string }).url);
      if (shape.refusesRegistrations) return json(403, { error: 'this key may only read' });
      const { registration = (id, secret) => ({ data: { id, secret } }) } = shape;
      return json(201, registration(`hook-${registered.length}`, shape.signing.secret));
    }
    if (name === 'policies' && id === undefined) return list(json, lists.policies, url.searchParams);
    if (name === 'vendors' && id === undefined) return list(json, lists.vendors, url.searchParams);
    const vendor = lists.vendors.find((each) => each[shape.ids.vendor] === id);
    if (name === 'vendors' && vendor !== undefined) return json(200, { data: vendor });
    if (name === 'risk-assessments' && id === 'risk-1') {
      const own = shape.ids.assessment === null ? {} : { [shape.ids.assessment]: id };
      return json(200, { data: { ...own, name: 'A risk', status: 'identified' } });
    }
    return json(404, { error: 'not found' });
  };

  function list(
    json: (status: number, value: unknown) => unknown,
    rows: object[],
    query: URLSearchParams,
  ): unknown {
    const { page, size, first, isStrict } = shape.paging;
    const names = new Set([page, size]);
    if (isStrict && [...query.keys()].some((key) => !names.has(key)))
      return json(400, { error: 'unknown parameter' });
    const perPage = Number((size === null ? null : query.get(size)) ?? 100);
    const number = Number((page === null ? null : query.get(page)) ?? first);
    if (number < first) return json(400, { error: 'no such page' });
    const shown =
      page === null && size === null ? rows : rows.slice((number - first) * perPage).slice(0, perPage);
    if (shape.list === 'bare') return json(200, shown);
    return json(200, {
      data: shape.list === 'nested' ? { items: shown } : shown,
      meta: { total: rows.length },
    });
  }

  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => void answer(request, response, Buffer.concat(chunks).toString()));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  async function attempt(url: string, body: string): Promise<boolean> {
    const { header, algorithm, content, secret, encoding } = shape.signing;
    const t = String(Math.floor(Date.now() / 1000));
    const mac = createHmac(algorithm, Buffer.from(secret, encoding)).update(content(t, body)).digest('hex');
    try {
      const sent = await fetch(url, { method: 'POST', body, headers: { [header]: `t=${t}, v1=${mac}` } });
      return sent.ok;
    } catch {
      return false;
    }
  }

  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    seen,
    registered,
    async emit() {
      events += 1;
      const created = new Date().toISOString();
      const { type, data } = (shape.event ?? vendorUpdated)(events);
      const body = JSON.stringify({ id: `evt-${events}`, type, created, data });
      while (!ended.signal.aborted && !(await attempt(registered[0] ?? '', body))) {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    },
    async close() {
      ended.abort();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
