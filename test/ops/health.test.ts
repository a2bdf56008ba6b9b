import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { MAX_STREAMS, MAX_STREAMS_OF_ONE } from '../../src/ops/pages/stream.ts';
import { createSnapshots } from '../../src/ops/snapshot.ts';
import type { OpsToken } from '../../src/platform/config.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { bearer, type Harness, incoming, OPERATE, opsHarness, READ, signIn } from './harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await opsHarness();
});
afterEach(() => h.close());

describe('readiness', () => {
  const ready = async () => {
    const response = await h.app.request('/readyz');
    return [response.status, await response.json()];
  };

  test('running with a writable database is ready', async () => {
    expect(await ready()).toEqual([200, { status: 'ready' }]);
  });

  test.each(['starting', 'migrating', 'draining'] as const)('%s is not', async (state) => {
    h.live.state = state;
    expect(await ready()).toEqual([503, { status: 'not_ready', reason: state }]);
  });

  test('a database that takes no commit is not, and many probes ask it once', async () => {
    let asked = 0;
    h.context.clock.steady = () => 0;
    h.context.store.checkWritable = async () => {
      asked += 1;
      throw new StoreUnavailable('disk full');
    };
    const answers = await Promise.all([ready(), ready(), ready()]);
    expect(answers[0]).toEqual([503, { status: 'not_ready', reason: 'database_not_writable' }]);
    expect(asked).toBe(1);
  });

  test('is told from the look before while one at a slow disk is under way, and not for long', async () => {
    let steady = 0;
    h.context.clock.steady = () => steady;
    await ready();
    const slow = Promise.withResolvers<void>();
    h.context.store.checkWritable = () => slow.promise;
    steady = 2_000;
    expect(await ready()).toEqual([200, { status: 'ready' }]);
    steady = 5_000;
    const late = ready();
    slow.reject(new StoreUnavailable('disk full'));
    expect((await late)[0]).toBe(503);
    expect((await ready())[0]).toBe(503);
  });

  test('is told from a look that failed, whatever the one before it found', async () => {
    let steady = 0;
    h.context.clock.steady = () => steady;
    await ready();
    h.context.store.checkWritable = () => Promise.reject(new StoreUnavailable('disk full'));
    steady = 2_000;
    await ready();
    expect((await ready())[0]).toBe(503);
  });

  test('is not told later because the look at the database waits for somebody’s lock', async () => {
    h.context.store.checkWritable = () => new Promise(() => undefined);
    const slept: number[] = [];
    h.context.clock.sleep = async (ms) => void slept.push(ms);
    expect(await ready()).toEqual([503, { status: 'not_ready', reason: 'database_not_writable' }]);
    expect(slept).toEqual([5_000]);
  });

  test('live says only that it lives', async () => {
    h.live.state = 'draining';
    const response = await h.app.request('/livez');
    expect([response.status, await response.json()]).toEqual([200, { status: 'live' }]);
  });
});

describe('metrics', () => {
  test('show the state as of the scrape', async () => {
    await h.store.accept({ events: [incoming()], unusable: [] }, h.now(), { settleMs: 1 });
    await h.store.openGap({ reason: 'silence', kind: null, recordId: null }, null, h.now());
    const response = await h.app.request('/metrics', { headers: bearer(READ) });
    expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=/);
    const text = await response.text();
    expect(text).toMatch(/^compliance_mirror_backlog_events 1$/m);
    expect(text).toMatch(/^compliance_mirror_backlog_oldest_seconds \d/m);
    expect(text).toMatch(/^compliance_mirror_gaps_open\{reason="silence"\} 1$/m);
    expect(text).toMatch(/^compliance_mirror_upstream_budget_left 48$/m);
    expect(text).toMatch(/^compliance_mirror_records\{kind="policy",state="unverified"\} \d+$/m);
  });

  test('forget a gap that has resolved', async () => {
    const gap = { reason: 'silence', kind: null, recordId: null } as const;
    await h.store.openGap(gap, null, h.now());
    await h.app.request('/metrics', { headers: bearer(READ) });
    await h.store.resolveGap(gap, h.now());
    // Any change here makes the next reading a fresh one.
    await h.app.request('/actions/resume', { method: 'POST', headers: bearer(OPERATE) });
    const text = await (await h.app.request('/metrics', { headers: bearer(READ) })).text();
    expect(text).not.toContain('gaps_open{reason="silence"}');
  });
});

test('when the database fails while being asked, the answer is 503 and says when to come back', async () => {
  h.context.store.listEvents = () =>
    Promise.reject(new StoreUnavailable('disk full', { remedy: 'make room' }));
  const response = await h.app.request('/api/events', { headers: bearer(OPERATE) });
  expect(response.status).toBe(503);
  expect(response.headers.get('retry-after')).toBe('5');
  expect(await response.json()).toMatchObject({ code: 'store_unavailable', detail: 'make room' });
});

test('an unforeseen failure tells nothing of itself, on a listener that it shares as well', async () => {
  h.context.store.listEvents = () => Promise.reject(new Error('secret path /etc/x'));
  const shared = new Hono();
  shared.post('/webhooks', (c) => c.text('received', 202));
  shared.route('/', h.app);
  for (const app of [h.app, shared]) {
    const response = await app.request('/api/events', { headers: bearer(OPERATE) });
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain('secret');
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
  }
  expect((await shared.request('/webhooks', { method: 'POST' })).status).toBe(202);
  expect((await shared.request('/elsewhere')).status).toBe(401);
});

test('a database that does not answer is a verdict on the page, and a command waits for it', async () => {
  // Every wait is over at once.
  const context = { ...h.context, clock: { ...h.context.clock, sleep: async () => undefined } };
  expect((await createSnapshots(context).current()).verdict.reason).toBe('database_unreadable');
  expect((await createSnapshots(context, { rejects: true }).current()).summary).not.toBeNull();
});

describe('the stream of the page', () => {
  async function open(): Promise<{ reader: ReadableStreamDefaultReader<Uint8Array>; close(): void }> {
    const server = await new Promise<{ port: number; close(): void }>((resolve) => {
      const handle = serve({ fetch: h.app.fetch, hostname: '127.0.0.1', port: 0 }, ({ port }) =>
        resolve({ port, close: () => handle.close() }),
      );
    });
    const response = await fetch(`http://127.0.0.1:${server.port}/stream`, { headers: bearer(READ) });
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    return { reader: response.body!.getReader(), close: server.close };
  }
  const text = async (reader: ReadableStreamDefaultReader<Uint8Array>) =>
    new TextDecoder().decode((await reader.read()).value);

  test('sends the parts at once, again when something has changed, and ends when the service drains', async () => {
    const { reader, close } = await open();
    expect(await text(reader)).toMatch(/^event: status\ndata: <section class="verdict/);
    h.live.pausedSince = Date.now();
    // Whatever else has changed meanwhile, a figure that is told in seconds for one, may come first.
    let told = '';
    while (!told.includes('The mirror is paused')) told += await text(reader);
    h.abort.abort();
    while (!(await reader.read()).done);
    close();
  });

  test.each([
    ['signed in by a cookie', async (app: Harness['app']) => ({ cookie: (await signIn(app, READ)).cookie })],
    ['with a bearer token', async () => bearer(READ)],
  ])('ends for a reader %s once the token is taken away', async (_, headersOf) => {
    let tokens: OpsToken[] = [{ name: 'rita', role: 'read', token: READ }];
    const here = await opsHarness({ tokens: () => tokens });
    onTestFinished(() => here.close());
    const response = await here.app.request('/stream', { headers: await headersOf(here.app) });
    const reader = response.body!.getReader();
    expect(await text(reader)).toMatch(/^event: status/);
    tokens = [];
    while (!(await reader.read()).done);
  });

  test('costs nothing when only its head is asked for', async () => {
    for (let n = 0; n < 100; n += 1) {
      const response = await h.app.request('/stream', { method: 'HEAD', headers: bearer(READ) });
      expect(response.status).toBe(200);
    }
  });

  describe('is limited', () => {
    const TOKENS = Array.from({ length: 6 }, (_, n) => ({
      name: `reader-${n}`,
      role: 'read' as const,
      token: `the-token-of-reader-${n}-of-the-test`,
    }));
    let served: { url: string; close(): void };
    let here: Harness;
    beforeEach(async () => {
      here = await opsHarness({ tokens: () => TOKENS });
      served = await new Promise((resolve) => {
        const handle = serve({ fetch: here.app.fetch, hostname: '127.0.0.1', port: 0 }, ({ port }) =>
          resolve({ url: `http://127.0.0.1:${port}/stream`, close: () => handle.close() }),
        );
      });
    });
    afterEach(async () => {
      await here.close();
      served.close();
    });
    const ask = async (reader: number) => {
      const gone = new AbortController();
      const headers = bearer(TOKENS[reader]!.token);
      const response = await fetch(served.url, { headers, signal: gone.signal });
      // Opened: its first fragment is there.
      const first = await response.body!.getReader().read();
      return { status: response.status, isOpen: response.ok && !first.done, leave: () => gone.abort() };
    };

    test('for each token, so that one reader cannot take all places, even by asking for them at once', async () => {
      const asked = await Promise.all(Array.from({ length: MAX_STREAMS + 10 }, () => ask(0)));
      expect(asked.filter(({ isOpen }) => isOpen)).toHaveLength(MAX_STREAMS_OF_ONE);
      expect((await ask(0)).status).toBe(503);
      expect((await ask(1)).isOpen).toBe(true);
    });

    test('in all, and whoever goes away leaves a place behind', async () => {
      const open = [];
      for (let n = 0; n < MAX_STREAMS; n += 1) open.push(await ask(Math.floor(n / MAX_STREAMS_OF_ONE)));
      expect(open.every(({ isOpen }) => isOpen)).toBe(true);
      expect((await ask(5)).status).toBe(503);
      for (const { leave } of open.slice(0, 3)) leave();
      await expect.poll(async () => (await ask(5)).isOpen).toBe(true);
    });
  });
});
