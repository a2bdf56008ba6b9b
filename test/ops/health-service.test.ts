import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pino from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { loadConfig } from '../../src/platform/config.ts';
import { createStartup } from '../../src/service/opening.ts';
import { type Service, startService } from '../../src/service/service.ts';
import { SECRET } from '../receive/sign.ts';

const WAIT = { timeout: 60_000, interval: 20 };
vi.setConfig({ testTimeout: 180_000 });

let dir: string;
let database: string;
let service: Service | null;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'health-'));
  database = join(dir, 'mirror.db');
  service = null;
});
afterEach(async () => {
  await service?.stop();
  rmSync(dir, { recursive: true, force: true });
});

const start = (opsPort = 0) =>
  startService({
    config: loadConfig({
      PORT: '0',
      OPS_PORT: String(opsPort),
      OPS_TOKENS: 'olga:operate:operate-token-of-the-tests-of-thirt',
      DATABASE_URL: `file:${database}`,
      WEBHOOK_SECRETS: SECRET,
    }),
    logger: pino({ level: 'silent' }),
  });

async function probe(url: string, path = '/readyz'): Promise<unknown> {
  const response = await fetch(`${url}${path}`).catch(() => null);
  return response === null ? 'no answer' : [response.status, await response.json()];
}

test('while another process holds the database it is not ready, and again when that lets go', async () => {
  service = await start();
  expect(await probe(service.opsUrl)).toEqual([200, { status: 'ready' }]);
  const other = new Database(database);
  other.exec('BEGIN IMMEDIATE');
  await expect
    .poll(() => probe(service!.opsUrl), WAIT)
    .toEqual([503, { status: 'not_ready', reason: 'database_not_writable' }]);
  const reason = async () => {
    const headers = { authorization: 'Bearer operate-token-of-the-tests-of-thirt' };
    const answer = await fetch(`${service!.opsUrl}/api/status`, { headers });
    return ((await answer.json()) as { problems: { reason: string }[] }).problems[0]?.reason;
  };
  await expect.poll(reason, WAIT).toBe('database');
  other.exec('ROLLBACK');
  other.close();
  await expect.poll(() => probe(service!.opsUrl), WAIT).toEqual([200, { status: 'ready' }]);
  await expect.poll(reason, WAIT).not.toBe('database');
});

test('while it finishes what it holds it is not ready', async () => {
  service = await start();
  const { hostname, port } = new URL(service.receiverUrl);
  const slow = connect(Number(port), hostname);
  // A delivery of which only the beginning has arrived: the service waits for the rest.
  slow.write('POST /webhooks HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{');
  slow.on('error', () => undefined);
  await new Promise((resolve) => slow.once('connect', resolve));
  await expect.poll(() => probe(service!.receiverUrl, '/livez'), WAIT).toMatchObject([200, {}]);
  const stopped = service.stop();
  await expect
    .poll(() => probe(service!.opsUrl), WAIT)
    .toEqual([503, { status: 'not_ready', reason: 'draining' }]);
  slow.destroy();
  await stopped;
});

test('until it is open, the front answers probes and tells everybody else to come back', async () => {
  const front = createStartup(null);
  const ask = async (side: 'receiver' | 'ops', path: string) => {
    const response = await front[side](new Request(`http://here${path}`, { method: 'POST' }), {});
    expect(response.headers.get('content-security-policy'), path).toContain("default-src 'none'");
    expect(response.headers.get('x-content-type-options'), path).toBe('nosniff');
    expect(response.headers.get('cache-control'), path).toBe('no-store');
    return [response.status, response.headers.get('retry-after')];
  };
  for (const side of ['receiver', 'ops'] as const) {
    expect(await ask(side, '/livez')).toEqual([200, null]);
    for (const path of ['/webhooks', '/', '/api/status', '/sign-in'])
      expect(await ask(side, path)).toEqual([503, '5']);
  }
  expect(await ask('ops', '/readyz')).toEqual([503, null]);
  front.at('migrating');
  expect(await (await front.ops(new Request('http://here/readyz'), {})).json()).toEqual({
    status: 'not_ready',
    reason: 'migrating',
  });
  front.open({ receiver: () => new Response('received'), ops: () => new Response('shown') });
  expect(await (await front.receiver(new Request('http://here/webhooks'), {})).text()).toBe('received');
  expect(await (await front.ops(new Request('http://here/readyz'), {})).text()).toBe('shown');
});
