import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pino from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { loadConfig } from '../../src/platform/config.ts';
import { UsageError } from '../../src/platform/errors.ts';
import { startService } from '../../src/service/service.ts';
import { lockFile, openStore } from '../../src/store/open.ts';
import { SECRET } from '../receive/sign.ts';
import { freePorts } from '../support/ports.ts';

/** Servers, sockets, timers and threads that keep this process from ending, and did not `before`. */
function openSince(before: readonly string[]): string[] {
  const known = [...before];
  return process.getActiveResourcesInfo().filter((each) => {
    const at = known.indexOf(each);
    if (at >= 0) known.splice(at, 1);
    return at < 0;
  });
}

it.each<[string, string, (dir: string) => Record<string, string> | undefined]>([
  ['locking', 'EISDIR', (dir) => void mkdirSync(join(dir, 'mirror.db.holder.json'))],
  [
    'opening',
    'RISK_IDS_FILE',
    (dir) => {
      writeFileSync(join(dir, 'ids'), 'x'.repeat(300));
      return { RISK_IDS_FILE: join(dir, 'ids') };
    },
  ],
  ['building', 'ops-token', (dir) => void writeFileSync(join(dir, 'ops-token'), 'weak')],
  [
    'starting',
    'the tables are read only',
    (dir) => {
      const database = new Database(join(dir, 'mirror.db'));
      database.exec(`CREATE TRIGGER silenced BEFORE INSERT ON facts WHEN NEW.name = 'heartbeat'
        BEGIN SELECT raise(ABORT, 'the tables are read only'); END`);
      database.close();
    },
  ],
])('a start that is rejected while %s leaves nothing open', async (_step, reason, spoil) => {
  const before = process.getActiveResourcesInfo();
  const dir = mkdtempSync(join(tmpdir(), 'start-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const url = `file:${join(dir, 'mirror.db')}`;
  await (await openStore(url)).close();
  const [port, opsPort] = (await freePorts(2)) as [number, number];
  const settings = { PORT: `${port}`, OPS_PORT: `${opsPort}`, DATABASE_URL: url, WEBHOOK_SECRETS: SECRET };
  const config = loadConfig({ ...settings, ...spoil(dir) });

  await expect(startService({ config, logger: pino({ level: 'silent' }) })).rejects.toThrow(reason);

  rmSync(join(dir, 'mirror.db.holder.json'), { force: true, recursive: true });
  expect(() => lockFile(url, 'now').release()).not.toThrow();
  for (const each of [port, opsPort]) await expect(fetch(`http://127.0.0.1:${each}/livez`)).rejects.toThrow();
  await expect.poll(() => openSince(before)).toEqual([]);
});

it.each<[string, (taken: string) => Record<string, string>]>([
  ['PORT: cannot listen on 127.0.0.1:', (PORT) => ({ PORT })],
  ['OPS_PORT: cannot listen on 127.0.0.1:', (OPS_PORT) => ({ OPS_PORT })],
  ['HOST: cannot listen on 192.0.2.1:0', () => ({ HOST: '192.0.2.1' })],
  ['OPS_HOST: cannot listen on fe80::1:0', () => ({ OPS_HOST: 'fe80::1' })],
])('an address that cannot be listened on is told by the name of its setting: %s…', async (says, wrong) => {
  const dir = mkdtempSync(join(tmpdir(), 'start-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const other = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void other.close());
  await once(other, 'listening');
  const settings = { PORT: '0', OPS_PORT: '0', DATABASE_URL: `file:${join(dir, 'mirror.db')}` };
  const config = loadConfig({ ...settings, ...wrong(`${(other.address() as AddressInfo).port}`) });
  const refusal = await startService({ config, logger: pino({ level: 'silent' }) }).catch((error) => error);
  expect(refusal).toBeInstanceOf(UsageError);
  expect(refusal.message.startsWith(says)).toBe(true);
});

it.each([
  ['the one listener for both', 1],
  ['a listener of its own', 2],
])('a follower that waits on %s is answered as the service stops', async (_, listeners) => {
  const dir = mkdtempSync(join(tmpdir(), 'stop-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const ports = await freePorts(listeners);
  const token = 'a-token-of-the-tests-long-enough';
  const config = loadConfig({
    PORT: `${ports[0]}`,
    OPS_PORT: `${ports.at(-1)}`,
    DATABASE_URL: `file:${join(dir, 'mirror.db')}`,
    WEBHOOK_SECRETS: SECRET,
    OPS_TOKENS: `olga:operate:${token}`,
  });
  const service = await startService({ config, logger: pino({ level: 'silent' }) });
  const get = (path: string) =>
    fetch(`${service.opsUrl}${path}`, { headers: { authorization: `Bearer ${token}` } });
  const { next } = (await (await get('/api/changes')).json()) as { next: string };
  const waiting = get(`/api/changes?after=${next}&wait=30`);
  // It has come in once another, sent after it, is answered.
  await get('/api/status');
  await service.stop();
  expect(await (await waiting).json()).toMatchObject({ items: [], next });
});
