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
import { HeldClock } from '../compliance/held-clock.ts';
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
        OPS_TOKENS: 'olga:operate:operate-token-of-the-tests',
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

/** The budget of ten requests of a process that begins `laterMs` after another one has sent four and was asked to pause for 90 s. */
async function nextBudget(laterMs: number, { address = 'https://a.example/v1', setBackMs = 0 } = {}) {
  const clock = new HeldClock();
  const facts: Record<string, string> = {};
  const store = { readFact: async (name: string) => facts[name] ?? null };
  const settings = { store, requestsPerMinute: 10, clock };
  const before = await createRememberedBudget({ ...settings, address: 'https://a.example/v1' });
  for (let sent = 0; sent < 4; sent += 1)
    (await before.take('person', new AbortController().signal)).arrived();
  before.pauseUntil(clock.steady() + 90_000);
  Object.assign(facts, before.facts());
  await clock.advance(laterMs);
  const own: Clock = {
    wall: () => clock.wall() - setBackMs,
    steady: () => clock.steady(),
    sleep: (ms, signal) => clock.sleep(ms, signal),
  };
  const next = await createRememberedBudget({ ...settings, address, clock: own });
  return { clock, next };
}

test('requests of the process before count until they are a minute old, and its pause goes on to its end', async () => {
  const { clock, next } = await nextBudget(40_000);
  expect(next.left()).toMatchObject({ left: 6, pausedForMs: 50_000 });
  await clock.advance(20_001);
  expect(next.left()).toMatchObject({ left: 10, pausedForMs: 29_999 });
  const { next: last } = await nextBudget(90_001);
  expect(last.left()).toMatchObject({ left: 10, pausedForMs: 0 });
});

test('neither lasts longer where the clock was set back in between', async () => {
  const { clock, next } = await nextBudget(0, { setBackMs: 3_600_000 });
  expect(next.left()).toMatchObject({ left: 6, pausedForMs: 90_000 });
  await clock.advance(60_001);
  expect(next.left()).toMatchObject({ left: 10, pausedForMs: 29_999 });
});

test('what was sent to another service counts for nothing', async () => {
  const { next } = await nextBudget(0, { address: 'https://b.example/v1' });
  expect(next.left()).toMatchObject({ left: 10, pausedForMs: 0 });
});
