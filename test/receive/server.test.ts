import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import fc from 'fast-check';
import { Hono } from 'hono';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { UsageError } from '../../src/platform/errors.ts';
import { type Listener, type ListenOptions, listen, SERVER_LIMITS } from '../../src/receive/server.ts';
import { exchange } from './harness.ts';

let listener: Listener | undefined;
afterEach(() => listener?.close(0));

const QUICK_HEADERS = { headersTimeout: 100, requestTimeout: 3_600_000, connectionsCheckingInterval: 20 };
const QUICK_REQUEST = { headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 20 };

const HERE = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
const LAST = 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';

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
  { from = '127.0.0.1', allowHalfOpen = false } = {},
): Promise<{ socket: Socket; received: () => string; closed: Promise<void> }> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from, allowHalfOpen });
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
  });
  socket.on('error', () => {});
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
  await new Promise<void>((resolve) => socket.once('connect', () => resolve()));
  return { socket, received: () => text, closed };
}

/** The server's socket of the next connection. */
function theirSocket(): Promise<Socket> {
  const { promise, resolve } = Promise.withResolvers<Socket>();
  const note = (message: unknown) => resolve((message as { socket: Socket }).socket);
  subscribe('net.server.socket', note);
  onTestFinished(() => void unsubscribe('net.server.socket', note));
  return promise;
}

describe('limits', () => {
  it('keep what slow senders may hold within the figures of a delivery’s timeout', () => {
    expect(SERVER_LIMITS).toMatchObject({ headersTimeout: 10_000, requestTimeout: 15_000 });
    expect(SERVER_LIMITS.connectionsCheckingInterval).toBeLessThanOrEqual(5000);
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

  it('answer a few requests that did not wait for one another, and close a connection of thousands', async () => {
    let asked = 0;
    const app = new Hono().get('/', (c) => {
      asked += 1;
      return c.text('here');
    });
    const port = await start(app);
    // An expectation is left out of account.
    for (const request of [HERE, HERE.replace('x\r\n', 'x\r\nExpect: y\r\n')]) {
      asked = 0;
      expect((await exchange(port, request.repeat(20) + LAST)).split('HTTP/1.1 200 ')).toHaveLength(22);
      await exchange(port, request.repeat(5_000) + LAST);
      expect(asked).toBeLessThan(100);
    }
  });

  it('leave alone whoever waits for each answer, however many ask at once', async () => {
    const port = await start(echo().app);
    const opened = await Promise.all(Array.from({ length: 200 }, () => open(port)));
    for (const times of [1, 2]) {
      for (const { socket } of opened) socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
      for (const { received } of opened)
        await expect.poll(() => received().match(/here/g)).toHaveLength(times);
    }
  });

  it.each([
    ['in chunks', 'Host: x\r\nTransfer-Encoding: chunked', 404],
    ['whose length is told', 'Host: x\r\nContent-Length: 100000000', 404],
    ['of a request that is turned away', 'Transfer-Encoding: chunked', 400],
  ])(
    'read nothing of a body %s once it is answered, and end its connection',
    async (_which, headers, status) => {
      const theirs = theirSocket();
      const limits = { requestTimeout: 3_600_000 };
      const port = await start(new Hono(), { limits });
      const head = `POST / HTTP/1.1\r\n${headers}\r\n\r\n`;
      const { socket, received, closed } = await open(port, { allowHalfOpen: true });
      let isEnded = false;
      socket.on('end', () => {
        isEnded = true;
      });
      socket.write(head);
      await expect.poll(received, { interval: 1 }).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
      const sending = setInterval(() => socket.write('5\r\nhello\r\n'.repeat(100)), 1);
      await closed;
      clearInterval(sending);
      expect((await theirs).bytesRead).toBe(head.length);
      expect(isEnded).toBe(true);
    },
  );

  it.each([
    ['that does not stop sending', 'Host: x', 404],
    ['that is turned away', 'X-No: host', 400],
  ])('let a sender %s read its answer', async (_which, headers, status) => {
    const port = await start(new Hono());
    const chunks = '5\r\nhello\r\n'.repeat(50_000);
    for (let nth = 0; nth < 5; nth += 1) {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      let received = '';
      socket.on('data', (chunk) => {
        received += chunk;
      });
      socket.on('error', () => {});
      socket.write(`POST / HTTP/1.1\r\n${headers}\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`);
      const sending = setInterval(() => socket.write(chunks), 1);
      await expect.poll(() => received !== '' || socket.closed, { interval: 1 }).toBe(true);
      clearInterval(sending);
      socket.destroy();
      expect(received).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    }
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

describe('where there are as many connections as may be', () => {
  async function asked(port: number, path = '/', from?: string) {
    const each = await open(port, { from });
    each.socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    await expect.poll(each.received).toMatch(/\r\n\r\n[a-z]+$/);
    return each;
  }

  it('the one that was used longest ago is closed for a new one, whoever asks', async () => {
    const port = await start(echo().app, { limits: { maxConnections: 3 } });
    const first = await asked(port);
    const second = await asked(port);
    const silent = await open(port);
    first.socket.write(HERE);
    await expect.poll(() => first.received().match(/here/g)).toHaveLength(2);
    const fourth = await asked(port);
    await second.closed;
    const fifth = await asked(port);
    await silent.closed;
    for (const each of [first, fourth, fifth]) expect(each.socket.closed).toBe(false);
  });

  it('an address has its share, and beyond it closes its own', async () => {
    const port = await start(echo().app, { limits: { maxConnections: 3, maxConnectionsPerNetwork: 2 } });
    const other = await asked(port, '/', '127.0.0.3');
    // What it has closed itself counts no more.
    for (let n = 0; n < 5; n += 1) {
      const brief = await open(port, { from: '127.0.0.3' });
      brief.socket.end('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
      await brief.closed;
    }
    const first = await asked(port, '/', '127.0.0.2');
    await asked(port, '/', '127.0.0.2');
    await asked(port, '/', '127.0.0.2');
    await first.closed;
    expect(other.socket.closed).toBe(false);
  });

  it('a proxy that is trusted has no share', async () => {
    const limits = { maxConnections: 10, maxConnectionsPerNetwork: 2 };
    const addresses = { isProxy: (address: string | undefined) => address === '127.0.0.2' };
    const port = await start(echo().app, { limits, addresses });
    const all = [];
    for (let n = 0; n < 5; n += 1) all.push(await asked(port, '/', '127.0.0.2'));
    for (const each of all) {
      each.socket.write(HERE);
      await expect.poll(() => each.received().match(/here/g)).toHaveLength(2);
    }
  });

  it('900 of strangers that say nothing shut nobody out', async () => {
    const port = await start(echo().app);
    const silent: Socket[] = [];
    for (let n = 0; n < SERVER_LIMITS.maxConnections; n += 1) {
      const socket = connect({ port, host: '127.0.0.1', localAddress: `127.0.1.${1 + (n % 8)}` });
      socket.on('error', () => {});
      silent.push(socket);
    }
    await Promise.all(silent.map((socket) => once(socket, 'connect')));
    for (let n = 0; n < 50; n += 1) expect((await asked(port)).received()).toMatch(/here$/);
    for (const socket of silent) socket.destroy();
  });
});

describe('what is not HTTP', () => {
  // Of Node's parser a sample, which shows that it is the strict one; hosts are ours.
  it.each([
    ['nonsense', 'hello\r\n\r\n'],
    ['two lengths', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    ['two hosts', 'GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\nConnection: close\r\n\r\n'],
    ['the same host twice', 'GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\nConnection: close\r\n\r\n'],
    ['no host', 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n'],
    ['lines that end in LF alone', 'GET / HTTP/1.1\nHost: x\n\n'],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a bad Host', 'GET / HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n'],
    ['a backslash', 'GET /a\\b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'],
  ])('is answered 400: %s', async (_what, request) => {
    const port = await start(echo().app);
    expect(await exchange(port, request)).toMatch(/^HTTP\/1\.1 400 [\s\S]*"code":"bad_request"/);
  });

  it('is no reason to end the connection where it is a whole request', async () => {
    const port = await start(echo().app);
    const { socket, received } = await open(port);
    socket.write('GET / HTTP/1.1\r\n\r\n');
    await expect.poll(received).toMatch(/^HTTP\/1\.1 400 [\s\S]*keep-alive[\s\S]*"bad_request"/i);
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await expect.poll(received).toMatch(/ 200 [\s\S]*here$/);
  });

  it('of HTTP/1.0 no host is wanted', async () => {
    const port = await start(echo().app);
    expect(await exchange(port, 'GET / HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('of HTTP/1.0 no host is wanted where we listen on an IPv6 address either', async () => {
    const port = await start(echo().app, { host: '::' });
    expect(await exchange(port, 'GET / HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('is answered or closed, whatever the bytes are, and others are served', async () => {
    const port = await start(echo().app, { limits: QUICK_REQUEST });
    const piece = fc.oneof(
      fc.constantFrom(
        ...['GET / HTTP/1.1\r\n', 'POST / HTTP/1.1\r\n', 'Host: x\r\n', '\r\n', '\r\n\r\n', '\n', '\0', ' '],
        ...['Content-Length: 5\r\n', 'Transfer-Encoding: chunked\r\n', '5\r\nhello\r\n', '0\r\n\r\n'],
        ...['Connection: close\r\n', 'Connection: upgrade\r\nUpgrade: h2c\r\n', 'Expect: 100-continue\r\n'],
        ...['CONNECT x:1 HTTP/1.1\r\n', 'OPTIONS * HTTP/1.1\r\n', 'GET http://[ HTTP/1.1\r\n', ': \r\n'],
      ),
      fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 8 }), async (pieces) => {
        const answer = await exchange(port, Buffer.from(pieces.join(''), 'latin1'));
        expect(answer).toMatch(/^(HTTP\/1\.1 \d{3} |$)/);
      }),
      { numRuns: 30 },
    );
    // A busy machine may take longer than the limit.
    await expect.poll(async () => (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('here');
  });

  const hidden = (length: string, ...more: string[]) =>
    `${['POST / HTTP/1.1', 'Host: x', `Content-Length: ${length}`, ...more].join('\r\n')}\r\n\r\n${LAST}`;
  const chunked = (...lines: string[]) =>
    `${['POST / HTTP/1.1', 'Host: x', ...lines].join('\r\n')}\r\n\r\n0\r\n\r\n${LAST}`;
  const whole = `${LAST.length}`;

  // Two programs may disagree where these end, and so find a second request in them.
  it.each([
    ['chunks and length', chunked('Transfer-Encoding: chunked', `Content-Length: ${LAST.length + 5}`)],
    ['chunked, identity', hidden('0', 'Transfer-Encoding: chunked, identity')],
    ['two equal lengths', hidden(whole, `Content-Length: ${whole}`)],
    ['line feeds alone', hidden('0').replaceAll('\r\n', '\n')],
    ['chunks under version 1.0', chunked('Transfer-Encoding: chunked').replace('HTTP/1.1', 'HTTP/1.0')],
    [
      'extensions without end',
      chunked('Transfer-Encoding: chunked').replace('\n0\r', `\n0;${'a'.repeat(9e4)}\r`),
    ],
    ['a tunnel', `CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\n${LAST}`],
  ])('holds no second request: %s', async (_what, request) => {
    const answer = await exchange(await start(echo().app), Buffer.from(request, 'latin1'));
    expect(answer).not.toContain('here');
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

it('a client that has half closed its connection has it closed, answered or not', async () => {
  const { socket, closed } = await open(await start(echo().app));
  socket.end('GET /held HTTP/1.1\r\nHost: x\r\n\r\n');
  await closed;
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

  it.each([
    ['its body', 'POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nfi', 'sh'],
    ['its headers', 'POST /body HTTP/1.1\r\nHost: x\r\nContent-Le', 'ngth: 4\r\n\r\nfish'],
  ])(
    'takes the request of which a connection was sending %s, and then closes that',
    async (_, begun, rest) => {
      const theirs = theirSocket();
      const { app } = echo();
      app.post('/body', async (c) => c.text(await c.req.text()));
      const port = await start(app);
      const { socket, received, closed } = await open(port);
      socket.write(begun);
      const their = await theirs;
      await expect.poll(() => their.bytesRead).toBe(begun.length);
      const closing = listener?.close(10_000);
      socket.write(rest);
      await closing;
      await closed;
      expect(received()).toMatch(/connection: close[\s\S]*fish$/i);
    },
  );

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

  it('may be called twice', async () => {
    await start(echo().app);
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
});
