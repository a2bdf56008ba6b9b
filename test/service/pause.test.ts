import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pino from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../src/platform/clock.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { type Service, startService } from '../../src/service/service.ts';
import { SECRET } from '../receive/sign.ts';

const TOKEN = 'operate-token-of-the-tests';

let dir: string;
let service: Service;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'pause-'));
  service = await start();
});
afterEach(async () => {
  await service.stop();
  rmSync(dir, { recursive: true, force: true });
});

function start(): Promise<Service> {
  return startService({
    config: loadConfig({
      PORT: '0',
      OPS_PORT: '0',
      OPS_TOKENS: `olga:operate:${TOKEN}`,
      WEBHOOK_SECRETS: SECRET,
      DATABASE_URL: `file:${join(dir, 'mirror.db')}`,
      // Nobody answers there.
      COMPLIANCE_BASE_URL: 'http://127.0.0.1:1/v1',
      COMPLIANCE_API_KEY: 'any',
    }),
    logger: pino({ level: 'silent' }),
    // Given a clock, it has no threads: to start them for each case would take most of the time.
    clock: systemClock(),
  });
}

async function ask(method: string, path: string): Promise<Record<string, unknown>> {
  const response = await fetch(`${service.opsUrl}${path}`, {
    method,
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  return (await response.json()) as Record<string, unknown>;
}

function verdictsInTheTables(): unknown[] {
  const db = new Database(join(dir, 'mirror.db'), { readonly: true });
  const verdicts = db.prepare('SELECT DISTINCT verdict FROM sync_status').pluck().all();
  db.close();
  return verdicts;
}

test('a pause and its end stand in the tables as soon as they are answered, and neither is blamed on anything else', async () => {
  await ask('POST', '/api/pause');
  expect(verdictsInTheTables()).toEqual(['action_required']);
  expect(await ask('GET', '/api/status')).toMatchObject({ verdict: 'action_required', reason: 'paused' });

  await ask('POST', '/api/resume');
  expect(verdictsInTheTables()).not.toContain('action_required');
});

test('since when it is paused is told, over a second pause and a restart too', async () => {
  const before = Date.now();
  await ask('POST', '/api/pause');
  const { since } = await ask('GET', '/api/status');
  expect(Date.parse(String(since))).toBeGreaterThanOrEqual(before);
  expect(Date.parse(String(since))).toBeLessThanOrEqual(Date.now());

  await ask('POST', '/api/pause');
  expect(await ask('GET', '/api/status')).toMatchObject({ since });
  await service.stop();
  service = await start();
  expect(await ask('GET', '/api/status')).toMatchObject({
    reason: 'paused',
    since,
    service: { paused_since: since },
  });

  // A status is read at most once a second.
  const soon = { timeout: 60_000 };
  await ask('POST', '/api/resume');
  await expect
    .poll(() => ask('GET', '/api/status'), soon)
    .toMatchObject({ service: { paused: false, paused_since: null } });
  await ask('POST', '/api/pause');
  const next = async () => String((await ask('GET', '/api/status')).since);
  await expect.poll(async () => (await next()) > String(since), soon).toBe(true);
});
