import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import type { SandboxParts } from '../../sandbox/controls.ts';
import type { GivenOptions } from '../../sandbox/options.ts';
import { startSandbox } from '../../sandbox/sandbox.ts';

export const API_KEY = 'key-for-these-tests';

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of many shapes
  body: any;
}

export interface TestSandbox {
  url: string;
  parts: SandboxParts;
  /** A request below /v1 with the API key. */
  api(method: string, path: string, body?: unknown): Promise<Answer>;
  /** A request below /_sandbox. */
  control(method: string, path: string, body?: unknown): Promise<Answer>;
  register(url: string, events: string[]): Promise<{ id: string; secret: string }>;
  /** Waits until every delivery is settled. */
  quiesce(): Promise<void>;
}

export async function testSandbox(options: GivenOptions = {}): Promise<TestSandbox> {
  const sandbox = await startSandbox({ port: 0, apiKeys: [API_KEY], ...options });
  onTestFinished(() => sandbox.close());
  const api: TestSandbox['api'] = (method, path, body) =>
    request(method, `${sandbox.url}/v1${path}`, body, { authorization: `Bearer ${API_KEY}` });
  const control: TestSandbox['control'] = (method, path, body) =>
    request(method, `${sandbox.url}/_sandbox${path}`, body);
  return {
    url: sandbox.url,
    parts: sandbox.parts,
    api,
    control,
    register: async (url, events) =>
      (await api('POST', '/webhooks', { url, events, description: 'test' })).body.data,
    quiesce: async () => {
      const { body } = await control('POST', '/scenario', { name: 'stop', waitMs: 120_000 });
      if (!body.quiet) throw new Error(`not quiet: ${JSON.stringify(body)}`);
    },
  };
}

export async function request(
  method: string,
  url: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === '' ? null : JSON.parse(text) };
}

export interface Received {
  headers: IncomingHttpHeaders;
  raw: string;
  event: { id: string; type: string; created: string; data: Record<string, unknown> };
}

export interface Receiver {
  url: string;
  received: Received[];
  types(): string[];
}

/** Records deliveries; `statusOf` decides what each is answered, by its place. 0: no answer at all. */
export async function testReceiver(statusOf: (place: number) => number = () => 202): Promise<Receiver> {
  const received: Received[] = [];
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const raw = Buffer.concat(chunks).toString('utf8');
    received.push({ headers: incoming.headers, raw, event: JSON.parse(raw) });
    const status = statusOf(received.length - 1);
    if (status === 0) return;
    outgoing.writeHead(status, { location: '/elsewhere' }).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/webhooks`,
    received,
    types: () => received.map(({ event }) => event.type),
  };
}
