import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/platform/clock.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { startService } from '../../src/service/service.ts';
import { json, startUpstream } from '../compliance/upstream.ts';
import { SECRET } from '../receive/sign.ts';

/** More than it takes to start and to send what may be sent. */
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
    await sleep(WHILE_MS);
    await service.stop();
    counts.push(asked);
  }
  return counts;
}

test('a restart gives no second budget within the minute', async () => {
  const [first, both] = await askedOverARestart(200, {}, '4');
  expect(first).toBeGreaterThan(0);
  expect(both).toBeLessThanOrEqual(4);
});

test('a pause that the service asked for goes on over a restart', async () => {
  const [first, both] = await askedOverARestart(429, { 'retry-after': '600' }, '1000');
  expect(first).toBeGreaterThan(0);
  expect(both).toBe(first);
});
