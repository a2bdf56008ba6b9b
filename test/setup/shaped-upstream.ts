import { createHmac } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Where the specification is silent, one way to have it. */
export interface Shape {
  /** What a list is: `{data: […]}`, `{data: {items: […]}}`, or the array alone. */
  list: 'data' | 'nested' | 'bare';
  /** The field of a row that holds its id. */
  ids: { policy: string; vendor: string };
  /** Names of the parameters. Others, and pages larger than `most`, are answered 400. */
  paging: { page: string; size: string; first: 0 | 1; most: number };
  /** What is signed, by `secret`. */
  content: (t: string, body: string) => string;
  secret: string;
  /** What the registration is answered, given its id and the secret. */
  registration: (id: string, secret: string) => unknown;
}

export const PLAIN: Shape = {
  list: 'data',
  ids: { policy: 'policyId', vendor: 'id' },
  paging: { page: 'page', size: 'perPage', first: 1, most: 100 },
  content: (t, body) => `${t}.${body}`,
  secret: 'a-signing-secret-0123456789',
  registration: (id, secret) => ({ data: { id, secret } }),
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

/** A compliance service of that shape, in memory; it knows nothing of the mirror. */
export async function startShaped(
  shape: Shape,
  letsIn: (bearer: string) => boolean = (bearer) => bearer === KEY,
): Promise<ShapedUpstream> {
  const rowsOf = (field: string, prefix: string, most: number) =>
    Array.from({ length: most }, (_, index) => ({
      [field]: `${prefix}-${index + 1}`,
      name: `${prefix} ${index + 1}`,
      status: 'draft',
    }));
  const lists: Record<string, object[]> = {
    policies: rowsOf(shape.ids.policy, 'pol', 5),
    vendors: rowsOf(shape.ids.vendor, 'ven', 3),
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
    const [, version, name = '', id] = url.pathname.split('/');
    if (version !== 'v1')
      return response.writeHead(404, { 'content-type': 'text/html' }).end('<h1>Not here</h1>');
    if (!letsIn((request.headers.authorization ?? '').replace('Bearer ', '')))
      return json(401, { error: 'no such key' });
    if (name === 'webhooks' && request.method === 'POST') {
      registered.push((JSON.parse(body) as { url: string }).url);
      return json(201, shape.registration(`hook-${registered.length}`, shape.secret));
    }
    const rows = lists[name];
    if (rows !== undefined && id === undefined) return list(json, rows, url.searchParams);
    const vendor = lists['vendors']!.find((each) => Object.values(each).includes(id));
    if (name === 'vendors' && vendor !== undefined) return json(200, { data: vendor });
    return json(404, { error: 'not found' });
  };

  function list(json: (status: number, value: unknown) => unknown, rows: object[], query: URLSearchParams) {
    const { page, size, first, most } = shape.paging;
    const perPage = Number(query.get(size) ?? most);
    const number = Number(query.get(page) ?? first);
    const isKnown = [...query.keys()].every((key) => key === page || key === size);
    if (!isKnown || number < first || perPage > most)
      return json(400, { error: 'not with these parameters' });
    const shown = rows.slice((number - first) * perPage).slice(0, perPage);
    if (shape.list === 'bare') return json(200, shown);
    const meta = { total: rows.length };
    return json(200, { data: shape.list === 'nested' ? { items: shown } : shown, meta });
  }

  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => void answer(request, response, Buffer.concat(chunks).toString()));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  async function attempt(url: string, body: string): Promise<boolean> {
    const t = String(Math.floor(Date.now() / 1000));
    const mac = createHmac('sha256', shape.secret).update(shape.content(t, body)).digest('hex');
    const headers = { 'X-Webhook-Signature': `t=${t}, v1=${mac}` };
    return await fetch(url, { method: 'POST', body, headers }).then(
      ({ ok }) => ok,
      () => false,
    );
  }

  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    seen,
    registered,
    async emit() {
      events += 1;
      const data = { vendorId: 'ven-2', name: 'ven 2', status: 'draft' };
      const created = new Date().toISOString();
      const body = JSON.stringify({ id: `evt-${events}`, type: 'vendor.updated', created, data });
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
