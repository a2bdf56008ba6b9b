import { createHmac, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  ACCESS_PREFIX,
  CLIENT_ID,
  CLIENT_SECRET,
  type OauthServer,
  REDIRECT_URI,
  REFRESH_PREFIX,
  REGISTERED_SECRET,
  startOauthServer,
} from '../compliance/oauth-server.ts';
import { cli, inTemporaryDirectory, type Running, start } from './executable.ts';

const API_KEY = 'canary-api-key-77aa01c3';
const WEBHOOK_SECRET = 'canary-webhook-secret-9f21';
const OPS_TOKEN = 'canary-ops-token-4b1e88';
const KEY = randomBytes(32);

/** Every form in which a secret could show, by its kind. */
const CANARIES: Record<string, readonly Buffer[]> = {
  'API key': [Buffer.from(API_KEY)],
  'client secret': [Buffer.from(CLIENT_SECRET)],
  'access token': [Buffer.from(ACCESS_PREFIX)],
  'refresh token': [Buffer.from(REFRESH_PREFIX)],
  'configured webhook secret': [Buffer.from(WEBHOOK_SECRET)],
  'registered webhook secret': [Buffer.from(REGISTERED_SECRET)],
  "operators' token": [Buffer.from(OPS_TOKEN)],
  CREDENTIALS_KEY: [KEY, Buffer.from(KEY.toString('base64')), Buffer.from(KEY.toString('hex'))],
};

/** Where something was written, and what. */
type Output = readonly [where: string, bytes: Buffer];

const found = (outputs: readonly Output[]): string[] =>
  outputs.flatMap(([where, bytes]) =>
    Object.entries(CANARIES).flatMap(([kind, forms]) =>
      forms.some((form) => bytes.includes(form)) ? [`${kind} in ${where}`] : [],
    ),
  );

let server: OauthServer;
beforeAll(async () => {
  server = await startOauthServer();
  server.policies = [{ policyId: 'p1', name: 'One', version: '1', status: 'draft' }];
});
afterAll(() => server.close());

function settingsFor(directory: string): Record<string, string> {
  return {
    DATABASE_URL: `file:${join(directory, 'mirror.db')}`,
    PORT: '0',
    OPS_PORT: '0',
    OPS_TOKENS: `watch:operate:${OPS_TOKEN}`,
    WEBHOOK_SECRETS: WEBHOOK_SECRET,
    COMPLIANCE_BASE_URL: `${server.origin}/v1`,
    COMPLIANCE_AUTH: 'oauth',
    COMPLIANCE_AUTH_URL: `${server.origin}/auth`,
    COMPLIANCE_CLIENT_ID: CLIENT_ID,
    COMPLIANCE_CLIENT_SECRET: CLIENT_SECRET,
    COMPLIANCE_REDIRECT_URI: REDIRECT_URI,
    COMPLIANCE_REQUESTS_PER_MINUTE: '1000',
    CREDENTIALS_KEY: KEY.toString('base64'),
    SYNC_SETTLE_SECONDS: '0.1',
    LOG_LEVEL: 'trace',
  };
}

/** Collects what a running command writes, from its first byte. */
function recorded(running: Running, where: string, outputs: Output[]): Running {
  for (const stream of [running.child.stdout!, running.child.stderr!]) {
    stream.on('data', (text: Buffer | string) => outputs.push([where, Buffer.from(text)]));
  }
  return running;
}

async function command(
  args: string[],
  settings: Record<string, string>,
  outputs: Output[],
): Promise<number | null> {
  const { code, out, err } = await cli(args, settings);
  outputs.push([args.join(' '), Buffer.from(out + err)]);
  return code;
}

const PAGES = [
  ...['/', '/sign-in', '/livez', '/readyz', '/metrics', '/openapi.json', '/nowhere', '/api/nowhere'],
  ...[
    'status',
    'events',
    'records/policy',
    'records/policy/p1',
    'gaps',
    'sweeps',
    'quarantine',
    'refusals',
    'audit',
  ].map((name) => `/api/${name}`),
  ...['/api/changes?after=0', '/api/snapshot', '/api/events?state=nonsense'],
];

async function visit(url: string, init: RequestInit, outputs: Output[]): Promise<void> {
  const response = await fetch(url, { redirect: 'manual', ...init });
  const headers = JSON.stringify([...response.headers]);
  outputs.push([
    `${init.method ?? 'GET'} ${new URL(url).pathname}`,
    Buffer.from(headers + (await response.text())),
  ]);
}

async function visitAll(opsUrl: string, outputs: Output[]): Promise<void> {
  for (const page of PAGES) {
    for (const token of [OPS_TOKEN, `${OPS_TOKEN}x`]) {
      await visit(`${opsUrl}${page}`, { headers: { authorization: `Bearer ${token}` } }, outputs);
    }
  }
}

async function deliver(receiverUrl: string, secret: string, body: string, outputs: Output[]): Promise<void> {
  const t = Math.floor(Date.now() / 1000);
  const mac = createHmac('sha256', secret).update(`${t}.${body}`).digest('hex');
  const headers = { 'x-webhook-signature': `t=${t}, v1=${mac}` };
  await visit(receiverUrl, { method: 'POST', headers, body }, outputs);
}

/** The address after `label` in what `serve` says of itself. */
const addressIn = (line: string) => /https?:\S+/.exec(line)![0];

function filesIn(directory: string): Output[] {
  return readdirSync(directory).map((name) => [`the file ${name}`, readFileSync(join(directory, name))]);
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 25));
}

describe('no secret of any kind is in any output', () => {
  it('finds one where there is one, which shows that it looks', () => {
    const outputs: Output[] = Object.values(CANARIES).map((forms) => [
      'here',
      Buffer.concat([Buffer.from('a'), forms[0]!]),
    ]);
    expect(found(outputs)).toHaveLength(Object.keys(CANARIES).length);
  });

  it('of a service and of commands that act for a person, when all is well and when it is not', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      const outputs: Output[] = [];

      expect(await command(['api', 'GET', '/policies'], settings, outputs)).toBe(1);
      const login = recorded(start(['login', '--write'], settings), 'login', outputs);
      await visit(await followed(await login.line('/auth/oauth/authorize')), {}, outputs);
      expect(await login.exited).toBe(0);
      const hook = 'http://127.0.0.1:1/webhooks';
      expect(await command(['register', '--url', hook], settings, outputs)).toBe(0);

      const service = recorded(start(['serve'], settings), 'serve', outputs);
      const receiverUrl = addressIn(await service.line('Deliveries: '));
      const opsUrl = addressIn(await service.line('Operators: '));
      await until(() => server.calls.some(({ path }) => path === '/v1/policies'));
      const event = {
        id: 'e1',
        type: 'policy.updated',
        created: new Date().toISOString(),
        data: { policyId: 'p1' },
      };
      await deliver(receiverUrl, WEBHOOK_SECRET, JSON.stringify(event), outputs);
      await deliver(receiverUrl, REGISTERED_SECRET, JSON.stringify({ ...event, id: 'e2' }), outputs);
      await deliver(receiverUrl, WEBHOOK_SECRET, 'no JSON', outputs);
      await deliver(receiverUrl, 'a secret of nobody', '{}', outputs);

      // Renewal, then a refusal whose answer repeats everything that was sent.
      server.expireAccess();
      expect(await command(['api', 'GET', '/policies'], settings, outputs)).toBe(0);
      server.expireAccess();
      server.failures.push({
        status: 401,
        body: { error: 'invalid_client', error_description: CLIENT_SECRET },
      });
      expect(await command(['api', 'GET', '/policies'], settings, outputs)).toBe(1);
      server.revokeRefresh();
      expect(await command(['sweep'], settings, outputs)).toBe(0);
      await until(() =>
        outputs.some(([where, bytes]) => where === 'serve' && bytes.includes('credentials_rejected')),
      );

      await visitAll(opsUrl, outputs);
      for (const args of [
        ['status', '--json'],
        ['events', 'show', 'e1', '--json'],
        ['gaps', 'list', '--json'],
        ['doctor', '--json'],
        ['doctor', '--delivery', 'refusal:1', '--secret', WEBHOOK_SECRET],
        ['doctor', '--delivery', 'quarantine:1'],
        ['register', '--url', hook],
        ['api', 'GET', '/policies'],
        ['pause'],
      ]) {
        await command(args, settings, outputs);
      }
      expect(found(filesIn(directory))).toEqual([]);
      expect(await service.stop()).toBe(0);

      expect(outputs.length).toBeGreaterThan(50);
      expect(found([...outputs, ...filesIn(directory)])).toEqual([]);
    });
  });

  it('of a service with an API key, right and wrong, and of settings that cannot be used', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = { ...settingsFor(directory), COMPLIANCE_AUTH: 'api_key', COMPLIANCE_API_KEY: API_KEY };
      const outputs: Output[] = [];
      for (const isKnown of [true, false]) {
        server.apiKeys = isKnown ? [API_KEY] : [];
        server.calls.length = 0;
        const service = recorded(start(['serve'], settings), 'serve', outputs);
        const opsUrl = addressIn(await service.line('Operators: '));
        await until(() => server.calls.length > 1);
        await visitAll(opsUrl, outputs);
        await command(['api', 'GET', '/policies'], settings, outputs);
        await command(['doctor'], settings, outputs);
        expect(await service.stop()).toBe(0);
      }
      const account = { ...settings, COMPLIANCE_AUTH: 'service_account', COMPLIANCE_CLIENT_ID: 'unknown' };
      await command(['api', 'GET', '/policies'], account, outputs);

      const body = join(directory, 'body.json');
      writeFileSync(body, '{}');
      for (const broken of [
        { COMPLIANCE_API_KEY: `${API_KEY} with a blank` },
        { WEBHOOK_SECRETS: `${WEBHOOK_SECRET},short` },
        { CREDENTIALS_KEY: `${KEY.toString('base64')}AA` },
        { OPS_TOKENS: `watch:emperor:${OPS_TOKEN}` },
        { COMPLIANCE_CLIENT_SECRET: `${CLIENT_SECRET}\n` },
        { COMPLIANCE_AUTH: 'oauth', CREDENTIALS_KEY: '' },
      ]) {
        const wrong: Record<string, string> = { ...settings, ...broken };
        expect(await command(['doctor'], wrong, outputs)).toBe(2);
        expect(await command(['serve'], wrong, outputs)).toBe(2);
        expect(await command(['api', 'POST', '/policies', '--body', body], wrong, outputs)).toBe(2);
      }
      expect(found([...outputs, ...filesIn(directory)])).toEqual([]);
    });
  });
});

/** Where the consent page sends the browser. */
async function followed(address: string): Promise<string> {
  return (await fetch(address, { redirect: 'manual' })).headers.get('location')!;
}
