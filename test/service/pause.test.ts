import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pino from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { type Service, startService } from '../../src/service.ts';
import { SECRET } from '../receive/sign.ts';

const TOKEN = 'operate-token-of-the-tests';

let dir: string;
let service: Service;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'pause-'));
  service = await startService({
    config: loadConfig({
      ...{ PORT: '0', OPS_PORT: '0', OPS_TOKENS: `olga:operate:${TOKEN}`, WEBHOOK_SECRETS: SECRET },
      DATABASE_URL: `file:${join(dir, 'mirror.db')}`,
      // Nobody answers there.
      ...{ COMPLIANCE_BASE_URL: 'http://127.0.0.1:1/v1', COMPLIANCE_API_KEY: 'any' },
    }),
    logger: pino({ level: 'silent' }),
  });
});
afterEach(async () => {
  await service.stop();
  rmSync(dir, { recursive: true, force: true });
});

async function ask(method: string, path: string): Promise<Record<string, unknown>> {
  const response = await fetch(`${service.opsUrl}${path}`, {
    ...{ method, headers: { authorization: `Bearer ${TOKEN}` } },
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
  expect(verdictsInTheTables()).toEqual(['blocked']);
  expect(await ask('GET', '/api/status')).toMatchObject({ verdict: 'blocked', reason: 'paused' });

  await ask('POST', '/api/resume');
  expect(verdictsInTheTables()).not.toContain('blocked');
}, 30_000);
