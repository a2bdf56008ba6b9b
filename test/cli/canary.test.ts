import { createHmac, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  ACCESS_PREFIX,
  CLIENT_ID,
  CLIENT_SECRET,
  CODE_PREFIX,
  type OauthServer,
  oauthSettings,
  REFRESH_PREFIX,
  REGISTERED_SECRET,
  startOauthServer,
} from '../compliance/oauth-server.ts';
import { IS_FULL } from '../support/full.ts';
import { cli, inTemporaryDirectory, type Running, start } from './executable.ts';

/** Dozens of commands, each a process of its own: on a busy machine minutes. */
vi.setConfig({ testTimeout: 400_000 });

const API_KEY = 'canary-api-key-77aa01c3';
const WEBHOOK_SECRET = 'canary-webhook-secret-9f21';
const OPS_TOKEN = 'canary-ops-token-4b1e88-of-thirt';
const KEY = randomBytes(32);

/** Every form in which a secret could show, by its kind. */
const CANARIES: Record<string, readonly Buffer[]> = {
  'API key': [Buffer.from(API_KEY)],
  'client secret': [Buffer.from(CLIENT_SECRET)],
  'authorization code': [Buffer.from(CODE_PREFIX)],
  'access token': [Buffer.from(ACCESS_PREFIX)],
  'refresh token': [Buffer.from(REFRESH_PREFIX)],
  'configured webhook secret': [Buffer.from(WEBHOOK_SECRET)],
  'registered webhook secret': [Buffer.from(REGISTERED_SECRET)],
  "operators' token": [Buffer.from(OPS_TOKEN)],
  CREDENTIALS_KEY: [KEY, Buffer.from(KEY.toString('base64')), Buffer.from(KEY.toString('hex'))],
};

/** Where something was written, and what. */
type Output = readonly [where: string, bytes: Buffer];

const found = (outputs: readonly Output[], more: Record<string, readonly Buffer[]> = {}): string[] =>
  outputs.flatMap(([where, bytes]) =>
    Object.entries({ ...CANARIES, ...more }).flatMap(([kind, forms]) =>
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
    ...oauthSettings(server, directory, KEY),
    PORT: '0',
    OPS_PORT: '0',
    OPS_TOKENS: `watch:operate:${OPS_TOKEN}`,
    WEBHOOK_SECRETS: WEBHOOK_SECRET,
    COMPLIANCE_REQUESTS_PER_MINUTE: '1000',
    SYNC_SETTLE_SECONDS: '0.1',
    LOG_LEVEL: 'trace',
  };
}

/** Collects what a running command writes, from its first byte, each stream whole: what is looked for may come in two pieces. */
function recorded(running: Running, where: string, outputs: Output[]): Running {
  for (const stream of [running.child.stdout!, running.child.stderr!]) {
    const output: [string, Buffer] = [where, Buffer.alloc(0)];
    outputs.push(output);
    stream.on('data', (text: Buffer | string) => {
      output[1] = Buffer.concat([output[1], Buffer.from(text)]);
    });
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
  ...['/deliveries', '/records/policy', '/records/policy/p1', '/syncs', '/audit'],
  ...[
    'status',
    'configuration',
    'deliveries',
    'records/policy',
    'records/policy/p1',
    'problems',
    'deletions',
    'syncs',
    'audit',
  ].map((name) => `/api/${name}`),
  ...['/api/changes?after=0', '/api/snapshot', '/api/deliveries?state=nonsense'],
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
      const address = await login.line('/auth/oauth/authorize');
      await visit(await followed(address), {}, outputs);
      expect(await login.exited).toBe(0);
      const ours = consentSecrets(address);
      // The answer to somebody else's sign-in, and one that refuses in words of its own.
      const pasted = recorded(start(['login', '--paste'], settings), 'login --paste', outputs);
      const other = await pasted.line('/auth/oauth/authorize');
      pasted.child.stdin!.write(`http://127.0.0.1/callback?code=${CODE_PREFIX}x&state=${ours.state}\n`);
      expect(await pasted.exited).toBe(1);
      const refused = recorded(start(['login', '--paste'], settings), 'login --paste', outputs);
      const third = await refused.line('/auth/oauth/authorize');
      const { state } = consentSecrets(third);
      const words = `error=${CODE_PREFIX}y&error_description=${CLIENT_SECRET}&state=${state}`;
      refused.child.stdin!.write(`http://127.0.0.1/callback?${words}\n`);
      expect(await refused.exited).toBe(1);
      const more = {
        'PKCE verifier': [Buffer.from(ours.verifier)],
        state: [address, other, third].map((one) => Buffer.from(consentSecrets(one).state)),
      };
      // To be opened they must be printed, once, and nowhere else.
      const printed = [address, other, third];
      const hook = 'http://127.0.0.1:1/webhooks';
      expect(await command(['webhook', 'register', '--url', hook], settings, outputs)).toBe(0);

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
      // For whoever asks: the service may do so before the command does.
      server.failures = Array.from({ length: 100 }, () => ({
        status: 401,
        body: { error: 'invalid_client', error_description: CLIENT_SECRET },
      }));
      expect(await command(['api', 'GET', '/policies'], settings, outputs)).toBe(1);
      server.failures = [];
      server.revokeRefresh();
      expect(await command(['sync'], settings, outputs)).toBe(0);
      await until(() =>
        outputs.some(([where, bytes]) => where === 'serve' && bytes.includes('credentials_rejected')),
      );

      await visitAll(opsUrl, outputs);
      for (const args of [
        ['status', '--json'],
        ['deliveries', 'show', 'e1', '--json'],
        ['problems', '--json'],
        ['doctor', '--json'],
        ['deliveries', 'show', 'rejection:1'],
        ['webhook', 'register', '--url', hook],
        ['api', 'GET', '/policies'],
        ['pause'],
      ]) {
        await command(args, settings, outputs);
      }
      expect(found(filesIn(directory), more)).toEqual([]);
      expect(await service.stop()).toBe(0);

      expect(outputs.length).toBeGreaterThan(50);
      expect(found(without(printed, [...outputs, ...filesIn(directory)]), more)).toEqual([]);
    });
  });

  it.runIf(IS_FULL)(
    'of a service with an API key, right and wrong, and of settings that cannot be used',
    async () => {
      await inTemporaryDirectory(async (directory) => {
        const settings = {
          ...settingsFor(directory),
          COMPLIANCE_AUTH: 'api_key',
          COMPLIANCE_API_KEY: API_KEY,
        };
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
        // One that is known: its token is kept in memory, and its scopes are asked for by the doctor.
        const known = { ...account, COMPLIANCE_CLIENT_ID: CLIENT_ID };
        expect(await command(['api', 'GET', '/policies'], known, outputs)).toBe(0);
        await command(['doctor', '--json'], known, outputs);
        server.calls.length = 0;
        const machine = recorded(start(['serve'], known), 'serve', outputs);
        const machineUrl = addressIn(await machine.line('Operators: '));
        await until(() => server.calls.length > 1);
        await visitAll(machineUrl, outputs);
        expect(await machine.stop()).toBe(0);
        const granted = server.grants.filter(({ body }) => body['grant_type'] === 'client_credentials');
        expect(granted.length).toBeGreaterThan(2);

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
    },
  );
});

/** What only the two ends of a sign-in may know: of the address that was printed, and of the exchange that followed. */
function consentSecrets(address: string): { state: string; verifier: string } {
  const state = new URL(address).searchParams.get('state')!;
  const exchanged = server.grants.findLast(({ body }) => body['grant_type'] === 'authorization_code')!;
  return { state, verifier: String(exchanged.body['code_verifier']) };
}

/** The outputs without these lines, each of which must be there. */
function without(lines: readonly string[], outputs: readonly Output[]): Output[] {
  const latin1 = outputs.map(([where, bytes]) => [where, bytes.toString('latin1')] as const);
  for (const line of lines) expect(latin1.filter(([, text]) => text.includes(line))).toHaveLength(1);
  return latin1.map(([where, text]) => [
    where,
    Buffer.from(
      lines.reduce((rest, line) => rest.replace(line, ''), text),
      'latin1',
    ),
  ]);
}

/** Where the consent page sends the browser. */
async function followed(address: string): Promise<string> {
  return (await fetch(address, { redirect: 'manual' })).headers.get('location')!;
}
