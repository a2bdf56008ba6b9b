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

const TOKEN = 'operate-token-of-the-tests-of-thirt';

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

interface Paused {
  opened_at: string;
  times: number;
  verdict: string;
}

/** The open problem of the pause. */
async function paused(): Promise<Paused> {
  const { items } = (await ask('GET', '/api/problems')) as unknown as {
    items: (Paused & { reason: string })[];
  };
  return items.find(({ reason }) => reason === 'paused') as Paused;
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
  expect(await ask('GET', '/api/status')).toMatchObject({ verdict: 'action_required' });
  expect((await paused()).verdict).toBe('action_required');

  await ask('POST', '/api/resume');
  expect(verdictsInTheTables()).not.toContain('action_required');
});

test('since when it is paused is told, over a second pause and a restart too', async () => {
  const before = Date.now();
  await ask('POST', '/api/pause');
  const { opened_at: since } = await paused();
  expect(Date.parse(since)).toBeGreaterThanOrEqual(before);
  expect(Date.parse(since)).toBeLessThanOrEqual(Date.now());

  await ask('POST', '/api/pause');
  expect(await paused()).toMatchObject({ opened_at: since, times: 1 });
  await service.stop();
  service = await start();
  expect((await paused()).opened_at).toBe(since);

  await ask('POST', '/api/resume');
  expect(await paused()).toBeUndefined();
  await ask('POST', '/api/pause');
  expect((await paused()).opened_at > since).toBe(true);
});
