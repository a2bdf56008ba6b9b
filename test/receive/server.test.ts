import { connect, type Socket } from 'node:net';
import { Hono } from 'hono';
import { afterEach, describe, expect, it } from 'vitest';
import { UsageError } from '../../src/errors.ts';
import { type Listener, type ListenOptions, listen, SERVER_LIMITS } from '../../src/receive/server.ts';
import { exchange } from './harness.ts';

let listener: Listener | undefined;
afterEach(() => listener?.close(0));

const QUICK_HEADERS = { headersTimeoutMs: 100, requestTimeoutMs: 3_600_000, connectionsCheckMs: 20 };
const QUICK_REQUEST = { headersTimeoutMs: 100, requestTimeoutMs: 200, connectionsCheckMs: 20 };

async function start(app: Hono, options: Partial<ListenOptions> = {}): Promise<number> {
  listener = await listen({
    fetch: app.fetch as ListenOptions['fetch'],
    host: '127.0.0.1',
    port: 0,
    ...options,
  });
  return listener.port;
}

/** `/` echoes a body's length; `/held` answers once `release` is called. */
function echo() {
  let release: () => void = () => {};
  let entered: () => void = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const inside = new Promise<void>((resolve) => {
    entered = resolve;
  });
  const app = new Hono()
    .post('/', async (c) => c.text(String((await c.req.arrayBuffer()).byteLength)))
    .get('/', (c) => c.text('here'))
    .get('/held', async (c) => {
      entered();
      await held;
      return c.text('released');
    });
  // Hono's own handler would print what a test provokes.
  app.onError(() => new Response(null, { status: 500 }));
  return { app, release, inside };
}

/** An open connection and all that has come over it. */
async function open(
  port: number,
): Promise<{ socket: Socket; received: () => string; closed: Promise<void> }> {
  const socket = connect(port, '127.0.0.1');
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
  });
  socket.on('error', () => {});
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
  await new Promise<void>((resolve) => socket.once('connect', () => resolve()));
  return { socket, received: () => text, closed };
}

describe('limits', () => {
  it('keep what slow senders may hold within the figures of a delivery’s timeout', () => {
    expect(SERVER_LIMITS).toMatchObject({ headersTimeoutMs: 10_000, requestTimeoutMs: 15_000 });
    expect(SERVER_LIMITS.connectionsCheckMs).toBeLessThanOrEqual(5000);
  });

  it('end slow headers with 408 as a problem document', async () => {
    const port = await start(echo().app, { limits: QUICK_HEADERS });
    const answer = await exchange(port, 'POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ');
    expect(answer).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\nContent-Type: application\/problem\+json\r\n/);
    expect(JSON.parse(answer.split('\r\n\r\n')[1]!)).toMatchObject({ status: 408, code: 'request_timeout' });
  });

  it('end a connection that never says anything', async () => {
    const port = await start(echo().app, { limits: QUICK_HEADERS });
    expect(await exchange(port)).toMatch(/^HTTP\/1\.1 408 /);
  });

  it('end a slow body with 408', async () => {
    const port = await start(echo().app, { limits: QUICK_REQUEST });
    const answer = await exchange(port, 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{');
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  });

  it('refuse large headers with 431 as a problem document', async () => {
    const port = await start(echo().app);
    const answer = await exchange(
      port,
      `GET / HTTP/1.1\r\nHost: x\r\nX-Large: ${'x'.repeat(17_000)}\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 431 [\s\S]*"code":"headers_too_large"/);
  });
});

describe('what is not HTTP', () => {
  it.each([
    ['nonsense', 'hello\r\n\r\n'],
    ['two lengths', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    [
      'length and chunks',
      'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['a bad Host', 'GET / HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n'],
    ['a backslash', 'GET /a\\b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'],
  ])('is answered 400: %s', async (_what, request) => {
    const port = await start(echo().app);
    expect(await exchange(port, request)).toMatch(/^HTTP\/1\.1 400 [\s\S]*"code":"bad_request"/);
  });

  it('does not write into an answer that has begun', async () => {
    const { app } = echo();
    app.get('/stream', (c) =>
      c.body(new ReadableStream({ start: (stream) => stream.enqueue(Buffer.from('part')) })),
    );
    const port = await start(app);
    const { socket, received, closed } = await open(port);
    socket.write('GET /stream HTTP/1.1\r\nHost: x\r\n\r\n');
    await expect.poll(received).toContain('part');
    socket.write('nonsense\r\n\r\n');
    await closed;
    expect(received().match(/HTTP\/1\.1/g)).toHaveLength(1);
  });
});

describe('close', () => {
  it('lets a request in flight finish, closes its connection and takes no new one', async () => {
    const { app, release, inside } = echo();
    const port = await start(app);
    const idle = await open(port);
    const busy = await open(port);
    busy.socket.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n');
    await inside;
    const closing = listener?.close(10_000);
    await idle.closed;
    expect(await exchange(port, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n')).toBe('');
    release();
    await closing;
    await busy.closed;
    expect(busy.received()).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*connection: close[\s\S]*released/i);
  });

  it('takes the request that a connection was in the middle of sending', async () => {
    const { app } = echo();
    let begun: () => void = () => {};
    const headersIn = new Promise<void>((resolve) => {
      begun = resolve;
    });
    app.post('/body', async (c) => {
      begun();
      return c.text(await c.req.text());
    });
    const port = await start(app);
    const { socket, received, closed } = await open(port);
    socket.write('POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nfi');
    await headersIn;
    const closing = listener?.close(10_000);
    socket.write('sh');
    await closing;
    await closed;
    expect(received()).toMatch(/connection: close[\s\S]*fish$/i);
  });

  it('cuts what is left after the time to drain', async () => {
    const { app, inside } = echo();
    const port = await start(app);
    const { socket, received, closed } = await open(port);
    socket.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n');
    await inside;
    await listener?.close(20);
    await closed;
    expect(received()).toBe('');
  });

  it('may be called twice, and after the signal', async () => {
    const stop = new AbortController();
    const port = await start(echo().app, { signal: stop.signal });
    stop.abort();
    await expect.poll(() => exchange(port, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n')).toBe('');
    await listener?.close(0);
    await listener?.close(0);
  });
});

describe('an address that cannot be listened on', () => {
  it('is one clear error', async () => {
    const port = await start(echo().app);
    const again = listen({ fetch: () => new Response(), host: '127.0.0.1', port });
    await expect(again).rejects.toThrow(UsageError);
    await expect(again).rejects.toThrow(`cannot listen on 127.0.0.1:${port}: the port is in use`);
    await expect(listen({ fetch: () => new Response(), host: '192.0.2.1', port: 0 })).rejects.toThrow(
      'this machine has no such address',
    );
  });

  it('is given up when the signal has aborted already', async () => {
    await start(echo().app);
    const signal = AbortSignal.abort();
    await expect(
      listen({ fetch: () => new Response(), host: '127.0.0.1', port: 0, signal }),
    ).rejects.toThrow();
  });
});
