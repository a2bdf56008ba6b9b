import { Hono } from 'hono';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createSnapshots } from '../../src/ops/status.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { bearer, type Harness, OPERATE, opsHarness, READ } from './harness.ts';

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
    h.live.service.state = state;
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

  test('is not told later because the look at the database waits for somebody’s lock', async () => {
    h.context.store.checkWritable = () => new Promise(() => undefined);
    const slept: number[] = [];
    h.context.clock.sleep = async (ms) => void slept.push(ms);
    expect(await ready()).toEqual([503, { status: 'not_ready', reason: 'database_not_writable' }]);
    expect(slept).toEqual([5_000]);
  });

  test('live says only that it lives', async () => {
    h.live.service.state = 'draining';
    const response = await h.app.request('/livez');
    expect([response.status, await response.json()]).toEqual([200, { status: 'live' }]);
  });
});

describe('metrics', () => {
  test('forget a problem that has resolved', async () => {
    const silence = { reason: 'silence', kind: null, recordId: null } as const;
    await h.store.openProblem(silence, null, h.now());
    await h.app.request('/metrics', { headers: bearer(READ) });
    await h.store.endProblem(silence, h.now());
    // Any change here makes the next reading a fresh one.
    await h.app.request('/api/resume', { method: 'POST', headers: bearer(OPERATE) });
    const text = await (await h.app.request('/metrics', { headers: bearer(READ) })).text();
    expect(text).not.toContain('problems_open{reason="silence"}');
  });
});

test('when the database fails while being asked, the answer is 503 and says when to come back', async () => {
  h.context.store.list = () => Promise.reject(new StoreUnavailable('disk full', { remedy: 'make room' }));
  const response = await h.app.request('/api/deliveries', { headers: bearer(OPERATE) });
  expect(response.status).toBe(503);
  expect(response.headers.get('retry-after')).toBe('5');
  expect(await response.json()).toMatchObject({ code: 'store_unavailable', detail: 'make room' });
});

test('an unforeseen failure tells nothing of itself, on a listener that it shares as well', async () => {
  h.context.store.list = () => Promise.reject(new Error('secret path /etc/x'));
  const shared = new Hono();
  shared.post('/webhooks', (c) => c.text('received', 202));
  shared.route('/', h.app);
  for (const app of [h.app, shared]) {
    const response = await app.request('/api/deliveries', { headers: bearer(OPERATE) });
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain('secret');
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
  }
  expect((await shared.request('/webhooks', { method: 'POST' })).status).toBe(202);
  expect((await shared.request('/elsewhere')).status).toBe(401);
});

test('a database that does not answer is a problem on the page', async () => {
  // Every wait is over at once.
  const context = { ...h.context, clock: { ...h.context.clock, sleep: async () => undefined } };
  const { problems, verdict } = (await createSnapshots(context).current()).status;
  expect([problems.map(({ reason }) => reason), verdict]).toEqual([['database'], 'action_required']);
});
