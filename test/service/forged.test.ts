import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { sealSecret } from '../../src/compliance/secrets.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { type Service, startService } from '../../src/service/service.ts';
import { openStore } from '../../src/store/open.ts';
import { eventBody, header, nowSeconds } from '../receive/sign.ts';

const KEY = randomBytes(32);
const BYTES = Buffer.from('0f1e2d3c4b5a69788796a5b4c3d2e1f00123456789abcdef', 'hex');

let dir: string;
let databaseUrl: string;
let services: Service[];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'forged-'));
  databaseUrl = `file:${join(dir, 'mirror.db')}`;
  services = [];
});
afterEach(async () => {
  for (const service of services) await service.stop();
  rmSync(dir, { recursive: true, force: true });
});

async function start(settings: Record<string, string>): Promise<Service> {
  const service = await startService({
    config: loadConfig({
      PORT: '0',
      OPS_PORT: '0',
      OPS_TOKENS: 'olga:operate:operate-token-of-the-tests-of-thirt',
      DATABASE_URL: databaseUrl,
      CREDENTIALS_KEY: KEY.toString('base64'),
      ...settings,
    }),
    logger: pino({ level: 'silent' }),
    // Given a clock, it has no threads: to start them for each case would take most of the time.
    clock: systemClock(),
  });
  services.push(service);
  return service;
}

async function withStore(
  work: (store: Awaited<ReturnType<typeof openStore>>) => Promise<unknown>,
): Promise<void> {
  const store = await openStore(databaseUrl);
  try {
    await work(store);
  } finally {
    await store.close();
  }
}

const keep = (secret: string, upstreamId = 'wh_1') =>
  withStore((store) =>
    store.saveRegistration({
      upstreamId,
      url: 'http://127.0.0.1:1/webhooks',
      events: [],
      delivers: [],
      description: '',
      sealedSecret: sealSecret(KEY, secret, { table: 'registrations', row: upstreamId }),
      sealedAnswer: null,
      createdAt: new Date().toISOString(),
    }),
  );

let sent = 0;
async function deliver({ receiverUrl }: Service, key: string | Uint8Array): Promise<number> {
  sent += 1;
  const body = eventBody({ id: `evt_${sent}` });
  const answer = await fetch(`${receiverUrl}/webhooks`, {
    method: 'POST',
    body,
    headers: { 'x-webhook-signature': header(nowSeconds(), body, key) },
  });
  await answer.arrayBuffer();
  return answer.status;
}

/** That a text makes exactly its bytes, or no key: receive/signing-secret.test.ts. */
const partsOf = (text: string) => [
  ...[Buffer.alloc(0), Buffer.from(text), Buffer.from(text, 'hex').subarray(0, -1)],
  ...[Buffer.from(text.slice(0, -1), 'hex'), Buffer.from(text, 'base64')],
];

test('a secret in hex verifies what it signs, and no part of it does', async () => {
  const text = BYTES.toString('hex');
  await keep(text);
  const service = await start({ WEBHOOK_SECRET_ENCODING: 'hex' });
  expect(await deliver(service, BYTES)).toBe(202);
  for (const part of partsOf(text)) expect(await deliver(service, part)).toBe(401);
});

test('a registration’s secret that is no hex makes no key: 503 while it is alone', async () => {
  const text = `${BYTES.toString('hex')} and more`;
  await keep(text);
  const alone = await start({ WEBHOOK_SECRET_ENCODING: 'hex' });
  const guesses = [...partsOf(text), BYTES];
  for (const key of guesses) expect(await deliver(alone, key)).toBe(503);
  await alone.stop();
  services = [];

  const good = randomBytes(24);
  const beside = await start({ WEBHOOK_SECRET_ENCODING: 'hex', WEBHOOK_SECRETS: good.toString('hex') });
  expect(await deliver(beside, good)).toBe(202);
  for (const key of guesses) expect(await deliver(beside, key)).toBe(401);
});

test('a registration that is forgotten elsewhere stops verifying within two looks', async () => {
  await keep('correct-horse-battery-staple', 'wh_old');
  await keep('another-horse-battery-staple', 'wh_new');
  const service = await start({});
  expect(await deliver(service, 'correct-horse-battery-staple')).toBe(202);
  const entry = { actor: 'cli', action: 'registration_forget', outcome: 'ok', target: 'wh_old' };
  const now = { wall: Date.now(), steady: 0 };
  await withStore((store) => store.forgetRegistration('wh_old', entry, now));
  await vi.waitFor(async () => expect(await deliver(service, 'correct-horse-battery-staple')).toBe(401), {
    timeout: 60_000,
    interval: 50,
  });
  expect(await deliver(service, 'another-horse-battery-staple')).toBe(202);
});
