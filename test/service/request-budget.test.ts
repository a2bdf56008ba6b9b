import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { type Clock, systemClock } from '../../src/platform/clock.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { createRememberedBudget } from '../../src/service/request-budget.ts';
import { startService } from '../../src/service/service.ts';
import { take } from '../compliance/budget-places.ts';
import { HeldClock, settled } from '../compliance/held-clock.ts';
import { json, startUpstream } from '../compliance/upstream.ts';
import { SECRET } from '../receive/sign.ts';

/** After the first request: more than it takes to send what else may be sent. */
const WHILE_MS = 1_000;

/** How many requests come while a service runs for a while, and again after a restart. */
async function askedOverARestart(status: number, headers: Record<string, string>, requestsPerMinute: string) {
  let asked = 0;
  const upstream = await startUpstream((response) => {
    asked += 1;
    json(response, status, { data: [], meta: { total: 0 } }, headers);
  });
  onTestFinished(() => upstream.close());
  const dir = mkdtempSync(join(tmpdir(), 'budget-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const counts: number[] = [];
  for (let starts = 0; starts < 2; starts++) {
    const service = await startService({
      config: loadConfig({
        PORT: '0',
        OPS_PORT: '0',
        OPS_TOKENS: 'olga:operate:operate-token-of-the-tests-of-thirt',
        WEBHOOK_SECRETS: SECRET,
        DATABASE_URL: `file:${join(dir, 'mirror.db')}`,
        COMPLIANCE_BASE_URL: upstream.settings.baseUrl.href,
        COMPLIANCE_API_KEY: 'any',
        COMPLIANCE_REQUESTS_PER_MINUTE: requestsPerMinute,
        SYNC_SETTLE_SECONDS: '0.1',
      }),
      logger: pino({ level: 'silent' }),
      clock: systemClock(),
    });
    await expect.poll(() => asked).toBeGreaterThan(0);
    await sleep(WHILE_MS);
    await service.stop();
    counts.push(asked);
  }
  return counts;
}

test('a restart gives no second budget within the minute', async () => {
  const [, both] = await askedOverARestart(200, {}, '4');
  expect(both).toBeLessThanOrEqual(4);
});

test('a pause that the service asked for goes on over a restart', async () => {
  const [first, both] = await askedOverARestart(429, { 'retry-after': '600' }, '1000');
  expect(both).toBe(first);
});

const never = new AbortController().signal;

function scene() {
  const clock = new HeldClock();
  const facts: Record<string, string> = {};
  let failure: Error | null = null;
  let writes = 0;
  const store = {
    readFact: async (name: string) => facts[name] ?? null,
    async writeFact(name: string, value: string) {
      if (failure !== null) throw failure;
      writes += 1;
      facts[name] = value;
      return true;
    },
  };
  const settings = { store, requestsPerMinute: 100, clock, onError: () => undefined };
  return {
    clock,
    writes: () => writes,
    fail: (error: Error | null) => {
      failure = error;
    },
    worker: (own: { address?: string; clock?: Clock } = {}) =>
      createRememberedBudget({ ...settings, address: 'https://a.example/v1', ...own }),
  };
}

/** A worker has sent 40 of 100 requests, and was asked to pause for 90 s; then it is gone. */
async function afterAnother() {
  const own = scene();
  const before = await own.worker();
  for (let sent = 0; sent < 40; sent += 1) (await take(before, 'person', never)).end();
  before.pauseUntil(own.clock.steady() + 90_000);
  await settled();
  return own;
}

test('what the worker before has sent counts for a minute, with what it may have sent unnoted, and its pause goes on to its end', async () => {
  const { clock, worker } = await afterAnother();
  await clock.advance(40_000);
  const next = await worker();
  expect(next.left()).toMatchObject({ left: 55, pausedForMs: 50_000 });
  await clock.advance(25_001);
  expect(next.left()).toMatchObject({ left: 100, pausedForMs: 24_999 });
  await clock.advance(30_000);
  expect((await worker()).left()).toMatchObject({ left: 100, pausedForMs: 0 });
});

test('neither lasts longer where the clock was set back in between', async () => {
  const { clock, worker } = await afterAnother();
  const next = await worker({
    clock: {
      wall: () => clock.wall() - 3_600_000,
      steady: () => clock.steady(),
      sleep: (ms, signal) => clock.sleep(ms, signal),
    },
  });
  expect(next.left()).toMatchObject({ left: 55, pausedForMs: 90_000 });
  await clock.advance(65_001);
  expect(next.left()).toMatchObject({ left: 100, pausedForMs: 24_999 });
});

test('what was sent to another service counts for nothing', async () => {
  const { worker } = await afterAnother();
  const next = await worker({ address: 'https://b.example/v1' });
  expect(next.left()).toMatchObject({ left: 100, pausedForMs: 0 });
});

test('no request leaves before it is noted, and not each costs a note', async () => {
  const { clock, worker, writes, fail } = scene();
  const budget = await worker();
  for (let sent = 0; sent < 12; sent += 1) (await take(budget, 'person', never)).end();
  expect(writes()).toBe(2);
  fail(new Error('the disk is full'));
  for (let sent = 0; sent < 12; sent += 1) {
    if (budget.left().left === 100 - 12) break;
    (await take(budget, 'person', never)).end();
  }
  await expect(take(budget, 'person', never)).rejects.toThrow('the disk is full');
  fail(null);
  (await take(budget, 'person', never)).end();
  // A note is good for a while only: by then another may be the worker.
  await clock.advance(5_000);
  fail(new Error('another process has taken over'));
  await expect(take(budget, 'person', never)).rejects.toThrow('another process');
});
