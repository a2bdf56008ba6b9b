import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createTokenEndpoint, GRANT, sealTokens } from '../../src/compliance/oauth.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { type Config, loadConfig } from '../../src/platform/config.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { type Service, startService } from '../../src/service/service.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { type OauthServer, oauthSettings, REDIRECT_URI, startOauthServer } from './oauth-server.ts';

const KEY = randomBytes(32);
const OPS_TOKEN = 'an-operate-token-for-the-test-of-thirt';
const LOOK_EVERY_MS = 25;

let server: OauthServer;
let folder: string;
let config: Config;
let store: Store;
let services: Service[];

beforeEach(async () => {
  server = await startOauthServer();
  server.policies = [1, 2, 3, 4, 5].map((n) => ({
    policyId: `p${n}`,
    name: `Policy ${n}`,
    version: '1.0',
    status: 'draft',
  }));
  folder = mkdtempSync(join(tmpdir(), 'mirror-oauth-service-'));
  config = loadConfig({
    ...oauthSettings(server, folder, KEY),
    PORT: '0',
    OPS_PORT: '0',
    OPS_TOKENS: `test:operate:${OPS_TOKEN}`,
    WEBHOOK_SECRETS: 'a-secret-for-the-test',
    COMPLIANCE_REQUESTS_PER_MINUTE: '10000',
    COMPLIANCE_PAGE_SIZE: '2',
    SYNC_SETTLE_SECONDS: '0.05',
    SYNC_FULL_MINUTES: '0',
  });
  store = await openStore(config.databaseUrl);
  services = [];
});
afterEach(async () => {
  for (const service of services) await service.stop();
  await store.close();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

async function signIn(): Promise<void> {
  const clock = systemClock();
  const endpoint = createTokenEndpoint({ settings: config.compliance!, clock });
  const request = { code: server.issueCode(), redirectUri: REDIRECT_URI, verifier: null, scopes: ['read'] };
  const tokens = await endpoint.exchangeCode(request, new AbortController().signal);
  const entry = { actor: 'login', action: 'token_grant', outcome: 'ok', target: GRANT };
  await store.saveTokens(GRANT, { sealed: sealTokens(KEY, tokens) }, null, entry, {
    wall: clock.wall(),
    steady: clock.steady(),
  });
}

async function serve(): Promise<Service> {
  const service = await startService({ config, logger: createLogger({ level: 'silent' }), random: () => 0 });
  services.push(service);
  return service;
}

async function fullSync(service: Service): Promise<void> {
  const response = await fetch(`${service.opsUrl}/api/syncs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${OPS_TOKEN}`, 'content-type': 'application/json' },
    body: '{"kinds":["policy"]}',
  });
  expect(response.ok).toBe(true);
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
}

const livePolicies = async () =>
  (await store.list('records', { kind: 'policy', deleted: false, limit: 50 })).items.map(({ id }) => id);
const rejectedGaps = async () =>
  (await store.list('problems', { open: true, limit: 50 })).items.filter(
    ({ reason }) => reason === 'credentials_rejected',
  );
const syncRunsDone = async () =>
  (await store.list('sync_runs', { limit: 50 })).items.filter(
    (one) => one.kind === 'policy' && one.outcome === 'complete',
  ).length;
const refreshes = () => server.grants.filter(({ body }) => body['grant_type'] === 'refresh_token').length;

describe('a service that acts for a person', () => {
  it('renews a token that ends in the middle of a full sync, and the full sync is complete', async () => {
    await signIn();
    // The list scan needs four pages: the second finds the token gone.
    let walked = 0;
    server.onCall = () => {
      if (server.calls.at(-1)!.path === '/v1/policies') walked += 1;
      if (walked === 2 && refreshes() === 0) server.expireAccess();
    };
    await serve();
    await until(async () => (await syncRunsDone()) > 0);
    expect(await livePolicies()).toEqual(['p1', 'p2', 'p3', 'p4', 'p5']);
    expect(refreshes()).toBe(1);
    expect(await rejectedGaps()).toEqual([]);
  });

  it('waits for the first sign-in with a problem that says how, and goes on by itself after it', async () => {
    await serve();
    await until(async () => (await rejectedGaps()).length > 0);
    expect((await rejectedGaps())[0]?.error).toContain('compliance-mirror login');
    await signIn();
    await until(async () => (await livePolicies()).length === 5);
  });

  it('opens a problem with its remedy when consent is withdrawn, deletes nothing, and resolves after a sign-in', async () => {
    await signIn();
    const service = await serve();
    await until(async () => (await syncRunsDone()) > 0);
    server.expireAccess();
    server.revokeRefresh();
    await fullSync(service);
    await until(async () => (await rejectedGaps()).some(({ kind }) => kind === 'policy'));
    const [problem] = (await rejectedGaps()).filter(({ kind }) => kind === 'policy');
    expect(problem?.error).toContain('consent');
    expect(problem?.error).toContain('compliance-mirror login');
    expect((await fetch(`${service.receiverUrl}/livez`)).status).toBe(200);
    expect(await livePolicies()).toHaveLength(5);
    expect(refreshes()).toBe(1);

    await signIn();
    await fullSync(service);
    await until(async () => (await rejectedGaps()).every(({ kind }) => kind !== 'policy'));
    expect(await livePolicies()).toHaveLength(5);
    const actions = (await store.list('audit', { limit: 50 })).items.map(
      ({ action, outcome }) => `${action} ${outcome}`,
    );
    expect(actions).toContain('token_refresh invalid_grant');
    expect(actions).toContain('credentials no_credentials');
  });
});
