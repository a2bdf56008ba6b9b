import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import fc from 'fast-check';
import { Hono } from 'hono';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { UsageError } from '../../src/platform/errors.ts';
import { createBodies } from '../../src/receive/body.ts';
import { prove } from '../../src/receive/connections.ts';
import { type Listener, type ListenOptions, listen, SERVER_LIMITS } from '../../src/receive/server.ts';
import { exchange } from './harness.ts';

let listener: Listener | undefined;
afterEach(() => listener?.close(0));

/** Node's own, as far as it can be asked what it hands on. */
type NodeParser = { constructor: { kOnBody: number } } & Record<number, (chunk: Buffer) => unknown>;

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

  it('end a connection that never says anything, and not before by the limit of idle ones', async () => {
    const port = await start(echo().app, { limits: { ...QUICK_HEADERS, strangerKeepAliveMs: 0 } });
    expect(await exchange(port)).toMatch(/^HTTP\/1\.1 408 /);
  });

  it('end a slow body with 408', async () => {
    const port = await start(echo().app, { limits: QUICK_REQUEST });
    const answer = await exchange(port, 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{');
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  });

  it('answer a few requests that did not wait for one another, and close a connection of thousands', async () => {
    let parsed = 0;
    const count = () => {
      parsed += 1;
    };
    subscribe('http.server.request.start', count);
    onTestFinished(() => void unsubscribe('http.server.request.start', count));
    const port = await start(echo().app);
    const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
    const last = 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
    const few = await exchange(port, request.repeat(20) + last);
    expect(few.split('HTTP/1.1 200 ')).toHaveLength(22);
    parsed = 0;
    await exchange(port, request.repeat(5_000) + last);
    expect(parsed).toBeLessThan(100);
  });

  it('close a connection that goes on asking before it is answered, however slowly', async () => {
    const { app, inside } = echo();
    const port = await start(app);
    const { socket, closed } = await open(port);
    socket.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n');
    await inside;
    const asking = setInterval(() => socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'), 2);
    await closed;
    clearInterval(asking);
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

  it('hold for requests with an expectation too, which is left out of account', async () => {
    let asked = 0;
    const app = new Hono().get('/', (c) => {
      asked += 1;
      return c.text('here');
    });
    const port = await start(app);
    const expecting = (...more: string[]) => `GET / HTTP/1.1\r\nHost: x\r\nExpect: y\r\n${more.join('')}\r\n`;
    expect(await exchange(port, expecting('Connection: close\r\n'))).toMatch(/^HTTP\/1\.1 200 /);
    asked = 0;
    const answers = await exchange(port, expecting().repeat(5_000) + expecting('Connection: close\r\n'));
    expect(answers.split('HTTP/1.1 ').length).toBeLessThan(100);
    expect(asked).toBeLessThan(100);
  });

  it('read what comes over many connections at once in turns, once one of them has sent too much ahead', async () => {
    const askedInTurns: number[] = [];
    let turnEnds: NodeJS.Immediate | null = null;
    const app = new Hono().get('/', (c) => {
      if (turnEnds === null) askedInTurns.push(0);
      turnEnds ??= setImmediate(() => {
        turnEnds = null;
      });
      askedInTurns[askedInTurns.length - 1]! += 1;
      return c.text('here');
    });
    const port = await start(app);
    const opened = await Promise.all(Array.from({ length: 40 }, () => open(port)));
    const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
    // Each is accepted and answered before they all come at once.
    for (const { socket } of opened) socket.write(get);
    await expect.poll(() => opened.every(({ received }) => received().includes('here'))).toBe(true);
    askedInTurns.length = 0;
    for (const { socket } of opened) socket.write(get.repeat(1_000));
    await Promise.all(opened.map(({ closed }) => closed));
    // One connection by itself may send 32 ahead of the one that is being answered; the next one's turn begins with it.
    expect(Math.max(...askedInTurns)).toBeLessThanOrEqual(2 * 33);
    expect(await exchange(port, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')).toMatch(/ 200 /);
  });

  it.each([
    ['that nobody reads', 404, async () => {}],
    ['that was given up', 413, (incoming: IncomingMessage) => createBodies(1_000).read(incoming, 20, 0)],
  ])('parse no more of a body %s, of what has come already neither', async (_which, status, read) => {
    let parsed = 0;
    const app = new Hono().post('/', async (c) => {
      const { incoming } = c.env as { incoming: IncomingMessage };
      const { parser } = incoming.socket as unknown as { parser: NodeParser };
      const place = parser.constructor.kOnBody;
      const onBody = parser[place]!;
      parser[place] = (chunk) => {
        parsed += 1;
        return onBody.call(parser, chunk);
      };
      await read(incoming);
      return c.body(null, status as 404 | 413);
    });
    const port = await start(app);
    // Fewer than a connection is closed for.
    const chunks = '1\r\nx\r\n'.repeat(1_500);
    const request = `POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`;
    const first = await open(port);
    first.socket.write(request);
    await expect.poll(first.received).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    // Nor of what comes after the answer, whatever others do meanwhile.
    first.socket.write(chunks);
    expect(await exchange(port, request)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    await first.closed;
    expect(parsed).toBeLessThan(200);
  });

  it.each([
    ['in chunks', 'Host: x\r\nTransfer-Encoding: chunked', 404],
    ['whose length is told', 'Host: x\r\nContent-Length: 100000000', 404],
    ['of a request that is turned away', 'Transfer-Encoding: chunked', 400],
  ])(
    'read nothing of a body %s once it is answered, and end its connection',
    async (_which, headers, status) => {
      let theirs: Socket | undefined;
      const note = (message: unknown) => {
        theirs = (message as { socket: Socket }).socket;
      };
      subscribe('http.server.request.start', note);
      onTestFinished(() => void unsubscribe('http.server.request.start', note));
      const limits = { requestTimeoutMs: 3_600_000, strangerKeepAliveMs: 3_600_000 };
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
      expect(theirs!.bytesRead).toBe(head.length);
      expect(isEnded).toBe(true);
    },
  );

  it.each([
    ['that does not stop sending', 'Host: x', 404],
    ['that is turned away', 'X-No: host', 400],
  ])('let a sender %s read its answer', async (_which, headers, status) => {
    const port = await start(new Hono());
    const chunks = '5\r\nhello\r\n'.repeat(50_000);
    for (let nth = 0; nth < 40; nth += 1) {
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

  it('leave a connection open whose body was given up, where little of it is left', async () => {
    const { app } = echo();
    app.post('/given-up', async (c) => {
      await createBodies(1_000).read((c.env as { incoming: IncomingMessage }).incoming, 20, 0);
      return c.text('given up', 413);
    });
    const port = await start(app);
    const { socket, received } = await open(port);
    const half = 'x'.repeat(30);
    socket.write(`POST /given-up HTTP/1.1\r\nHost: x\r\nContent-Length: 60\r\n\r\n${half}`);
    await expect.poll(received).toMatch(/^HTTP\/1\.1 413 [\s\S]*given up$/);
    socket.write(`${half}GET / HTTP/1.1\r\nHost: x\r\n\r\n`);
    await expect.poll(received).toMatch(/ 200 [\s\S]*here$/);
  });

  it('take few of the chunks that come in one piece, and whole bodies after that', async () => {
    const port = await start(echo().app);
    const chunked = 'POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n';
    expect(await exchange(port, `${chunked}${'1\r\nx\r\n'.repeat(10_000)}0\r\n\r\n`)).toBe('');
    // Node takes its parsers in turn, and the one that was stopped is among the first.
    for (let nth = 0; nth < 5; nth++) {
      const answer = await exchange(port, `${chunked}${'3\r\nabc\r\n'.repeat(500)}0\r\n\r\n`);
      expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\n\r\n1500$/);
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
  const HERE = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

  /** As `echo`, and `/proven` is what only somebody who knows a secret gets. */
  function withProof() {
    const parts = echo();
    parts.app.get('/proven', (c) => {
      prove((c.env as { incoming: IncomingMessage }).incoming);
      return c.text('proven');
    });
    return parts;
  }

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

  it('strangers go first: their idle ones, then their busy ones; one that has proven itself and is busy stays', async () => {
    const { app, release, inside } = withProof();
    const port = await start(app, { limits: { maxConnections: 4 } });
    const busyAndProven = await asked(port, '/proven');
    busyAndProven.socket.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n');
    await inside;
    const idleAndProven = await asked(port, '/proven');
    const busy = await open(port);
    busy.socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n');
    await expect.poll(busy.received).toContain('100 Continue');
    const idle = await asked(port);
    await asked(port, '/proven');
    await idle.closed;
    expect(busy.socket.closed).toBe(false);
    await asked(port, '/proven');
    await busy.closed;
    await asked(port);
    await idleAndProven.closed;
    expect(busyAndProven.socket.closed).toBe(false);
    release();
    await expect.poll(busyAndProven.received).toMatch(/released$/);
  });

  it.each([
    ['all', { maxConnections: 1 }],
    ['all of its address', { maxConnectionsPerAddress: 1 }],
  ])('a new one is turned away where %s are proven and busy', async (_which, limits) => {
    const { app, release, inside } = withProof();
    const port = await start(app, { limits });
    const only = await asked(port, '/proven');
    only.socket.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n');
    await inside;
    expect(await exchange(port, HERE)).toBe('');
    release();
    await expect.poll(only.received).toMatch(/released$/);
    only.socket.destroy();
    await expect
      .poll(() => exchange(port, HERE.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')))
      .toContain('here');
  });

  it('an address has its share, and beyond it closes its own', async () => {
    const port = await start(echo().app, { limits: { maxConnections: 3, maxConnectionsPerAddress: 2 } });
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
    const limits = { maxConnections: 10, maxConnectionsPerAddress: 2 };
    const addresses = { isProxy: (address: string | undefined) => address === '127.0.0.2' };
    const port = await start(echo().app, { limits, addresses });
    const all = [];
    for (let n = 0; n < 5; n += 1) all.push(await asked(port, '/', '127.0.0.2'));
    for (const each of all) {
      each.socket.write(HERE);
      await expect.poll(() => each.received().match(/here/g)).toHaveLength(2);
    }
  });

  it('one that has proven itself may send a body in a few chunks while a stranger sends too many', async () => {
    const port = await start(withProof().app);
    const stranger = await asked(port);
    const proven = await asked(port, '/proven');
    const chunked = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';
    stranger.socket.write(`${chunked}${'1\r\nx\r\n'.repeat(10_000)}`);
    proven.socket.write(`${chunked}${'1\r\nx\r\n'.repeat(7)}0\r\n\r\n`);
    await expect.poll(proven.received).toMatch(/\r\n\r\n7$/);
    await stranger.closed;
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

describe('a connection is kept alive', () => {
  const limits = { strangerKeepAliveMs: 50, keepAliveTimeoutMs: 75_000, connectionsCheckMs: 20 };

  it('briefly for a stranger, and he is told so', async () => {
    const port = await start(echo().app, { limits: { ...limits, strangerKeepAliveMs: 1_000 } });
    const { socket, received, closed } = await open(port);
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await closed;
    expect(received()).toMatch(/keep-alive: timeout=1\r\n/i);
  });

  it('long for who has shown to know a secret, and an answer that does not show it says what a stranger is told', async () => {
    const app = new Hono()
      .get('/', (c) => {
        prove((c.env as { incoming: IncomingMessage }).incoming);
        return c.text('here');
      })
      .get('/stranger', (c) => c.text('stranger'));
    const port = await start(app, { limits });
    const proven = await open(port);
    proven.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await expect.poll(proven.received).toMatch(/keep-alive: timeout=75\r\n[\s\S]*here$/i);
    // A stranger's that came later is gone, and this one still answers.
    const stranger = await open(port);
    stranger.socket.write('GET /stranger HTTP/1.1\r\nHost: x\r\n\r\n');
    await stranger.closed;
    proven.socket.write('GET /stranger HTTP/1.1\r\nHost: x\r\n\r\n');
    await expect
      .poll(proven.received)
      .toMatch(/keep-alive: timeout=75\r\n[\s\S]*here[\s\S]*timeout=0\r\n[\s\S]*stranger$/i);
  });

  it('while a request is on its way or in progress, however long that takes', async () => {
    const { app, release, inside } = echo();
    const port = await start(app, { limits });
    const { socket, received } = await open(port);
    socket.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n');
    await inside;
    const stranger = await open(port);
    stranger.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    await stranger.closed;
    release();
    await expect.poll(received).toMatch(/released$/);
  });

  it('while a request comes in small parts', async () => {
    const port = await start(echo().app, {
      limits: { ...limits, strangerKeepAliveMs: 200, connectionsCheckMs: 100 },
    });
    const { socket, received } = await open(port);
    const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
    socket.write(request);
    await expect.poll(received, { interval: 5 }).toMatch(/here$/);
    for (const part of request) {
      socket.write(part);
      await new Promise((resolve) => setTimeout(resolve, 15));
    }
    await expect.poll(() => received().match(/here/g)).toHaveLength(2);
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
    ['two hosts', 'GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\nConnection: close\r\n\r\n'],
    ['the same host twice', 'GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\nConnection: close\r\n\r\n'],
    ['no host', 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n'],
    [
      'chunks that are not the last coding',
      'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n',
    ],
    [
      'chunks twice',
      'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    [
      'a blank before the colon',
      'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
    ],
    ['a header over two lines', 'GET / HTTP/1.1\r\nHost: x\r\nX-A: a\r\n b\r\n\r\n'],
    ['lines that end in LF alone', 'GET / HTTP/1.1\nHost: x\n\n'],
    ['a length with a sign', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na'],
    ['a length as a list', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na'],
    [
      'the same length twice',
      'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na',
    ],
    ['a chunk of no size', 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n\r\n'],
    [
      'a chunk whose end is LF alone',
      'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\na\n0\n\n',
    ],
    ['NUL in a header', 'GET / HTTP/1.1\r\nHost: x\r\nX-A: a\0b\r\n\r\n'],
    ['another version', 'GET / HTTP/1.2\r\nHost: x\r\n\r\n'],
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
      fc.string({ unit: 'binary', maxLength: 40 }),
      fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 8 }), async (pieces) => {
        const answer = await exchange(port, Buffer.from(pieces.join(''), 'latin1'));
        expect(answer).toMatch(/^(HTTP\/1\.1 \d{3} |$)/);
      }),
      { numRuns: 60 },
    );
    // A busy machine may take longer than the limit.
    await expect.poll(async () => (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('here');
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

it('a client that has half closed its connection is answered, however long that takes', async () => {
  const { app, release, inside } = echo();
  const { socket, received, closed } = await open(await start(app));
  socket.end('GET /held HTTP/1.1\r\nHost: x\r\n\r\n');
  await inside;
  // What it has said last is here by then.
  expect(await exchange(listener!.port, 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')).toMatch(
    / 200 /,
  );
  release();
  await closed;
  expect(received()).toMatch(/ 200 [\s\S]*released$/);
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
      const theirs = Promise.withResolvers<Socket>();
      const note = (message: unknown) => theirs.resolve((message as { socket: Socket }).socket);
      subscribe('net.server.socket', note);
      onTestFinished(() => void unsubscribe('net.server.socket', note));
      const { app } = echo();
      app.post('/body', async (c) => c.text(await c.req.text()));
      const port = await start(app);
      const { socket, received, closed } = await open(port);
      socket.write(begun);
      const their = await theirs.promise;
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

describe('requests in turns', () => {
  it('go one of each address at a time, so that whoever asks for many waits for them himself', async () => {
    const begun: string[] = [];
    const all = Promise.withResolvers<void>();
    const app = new Hono<{ Bindings: { incoming: IncomingMessage } }>().get('/', (c) => {
      begun.push(c.env.incoming.socket.remoteAddress!);
      if (begun.length === 1 + 2 * EACH + 1) all.resolve();
      return c.text('here');
    });
    const EACH = 30;
    const port = await start(app as unknown as Hono, { canWait: () => true });
    const opened = await Promise.all(
      ['127.0.0.2', '127.0.0.2', '127.0.0.3'].map((from) => open(port, { from })),
    );
    const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
    // Its turn is over before theirs are asked for.
    opened[2]!.socket.write(get);
    await expect.poll(opened[2]!.received).toContain('here');
    for (const { socket } of opened.slice(0, 2)) socket.write(get.repeat(EACH));
    opened[2]!.socket.write(get);
    await all.promise;
    expect(begun).toHaveLength(1 + 2 * EACH + 1);
    expect(begun.lastIndexOf('127.0.0.3')).toBeLessThan(begun.length - 1);
    for (const { socket } of opened) socket.destroy();
  });
});

describe('requests that can wait', () => {
  it('are answered 411 in chunks, unread; the others are taken', async () => {
    let asked = 0;
    const app = new Hono().post('*', async (c) => {
      asked += 1;
      return c.text(await c.req.text());
    });
    const canWait = ({ url }: IncomingMessage) => url !== '/now';
    const port = await start(app, { canWait });
    const chunked = (path: string) =>
      `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n`;
    expect(await exchange(port, chunked('/'))).toMatch(/^HTTP\/1\.1 411 [\s\S]*"code":"length_required"/);
    expect(asked).toBe(0);
    expect(await exchange(port, chunked('/now'))).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\n\r\na$/);
    const whole = 'POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi';
    expect(await exchange(port, whole)).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\n\r\nhi$/);
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

it('of answers that their clients do not read, those that began first are given up once all are too large', async () => {
  const size = 32 * 2 ** 20;
  const page = 'x'.repeat(size);
  const canWait = () => true;
  const port = await start(
    new Hono().get('/', (c) => c.text(page)),
    { canWait },
  );
  const clients: Awaited<ReturnType<typeof open>>[] = [];
  for (let n = 0; n < 4; n += 1) {
    const client = await open(port);
    clients.push(client);
    const begun = new Promise<void>((resolve) => {
      client.socket.once('data', () => resolve(void client.socket.pause()));
    });
    client.socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    await begun;
  }
  for (const { socket } of clients) socket.resume();
  await Promise.all(clients.map(({ closed }) => closed));
  const isWhole = clients.map(({ received }) => received().length > size);
  expect([isWhole.at(0), isWhole.at(-1)]).toEqual([false, true]);
});

it('an answer that is too large by itself is not given up, nor a request that still waits for its own', async () => {
  const page = 'x'.repeat(80 * 2 ** 20);
  const { app, release, inside } = echo();
  app.get('/page', (c) => c.text(page));
  const port = await start(app, { canWait: () => true });
  const waiting = await open(port);
  waiting.socket.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n');
  await inside;
  expect((await (await fetch(`http://127.0.0.1:${port}/page`)).text()).length).toBe(page.length);
  release();
  await expect.poll(waiting.received).toMatch(/released$/);
});
