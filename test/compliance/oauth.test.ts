import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createBudget } from '../../src/compliance/budget.ts';
import type { Credentials } from '../../src/compliance/client.ts';
import { createClient } from '../../src/compliance/client.ts';
import { credentialsFor } from '../../src/compliance/credentials.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import {
  challengeOf,
  createTokenEndpoint,
  GRANT,
  GrantRefused,
  type Needs,
  openTokens,
  sealTokens,
  type Tokens,
} from '../../src/compliance/oauth.ts';
import { DEFAULT_ID_POINTERS } from '../../src/compliance/pointers.ts';
import type { ComplianceSettings } from '../../src/platform/config.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { HeldClock } from './held-clock.ts';
import {
  ACCESS_PREFIX,
  CLIENT_ID,
  CLIENT_SECRET,
  type OauthServer,
  REFRESH_PREFIX,
  startOauthServer,
} from './oauth-server.ts';

const KEY = randomBytes(32);
const never = new AbortController().signal;
const HOUR_MS = 3_600_000;

let server: OauthServer;
let folder: string;
let clock: HeldClock;
let stores: Store[];

beforeEach(async () => {
  server = await startOauthServer();
  folder = mkdtempSync(join(tmpdir(), 'mirror-oauth-'));
  clock = new HeldClock();
  stores = [];
});
afterEach(async () => {
  for (const store of stores) await store.close();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** One more process, as far as the database can tell. */
async function open(): Promise<Store> {
  const store = await openStore(`file:${join(folder, 'mirror.db')}`);
  stores.push(store);
  return store;
}

const now = () => ({ wall: clock.wall(), steady: clock.steady() });
const ENTRY = { actor: 'login', action: 'token_grant', outcome: 'ok', target: GRANT };

function credentials(
  store: Store,
  changes: Partial<ComplianceSettings> = {},
  needs: Needs = 'read',
  key = KEY,
) {
  return credentialsFor({
    settings: server.settings(changes),
    store,
    key: () => key,
    clock,
    actor: 'service',
    needs,
  });
}

/** A person's consent, exchanged and stored. */
async function signIn(store: Store, scopes = ['read']): Promise<Tokens> {
  const endpoint = createTokenEndpoint({ settings: server.settings(), clock });
  const request = { code: server.issueCode(), redirectUri: 'http://127.0.0.1:1/callback', verifier: null };
  const tokens = await endpoint.exchangeCode({ ...request, scopes }, never);
  await store.saveTokens(GRANT, { sealed: sealTokens(KEY, tokens) }, null, ENTRY, now());
  return tokens;
}

async function audited(store: Store): Promise<string[]> {
  const entries = (await store.list('audit', { limit: 50 })).items;
  return entries.map(({ actor, action, outcome }) => `${actor} ${action} ${outcome}`).reverse();
}

const refreshes = () => server.grants.filter(({ body }) => body['grant_type'] === 'refresh_token');
const failureOf = async (work: Promise<unknown>) =>
  await work.then(
    () => expect.fail('it did not fail'),
    (error: unknown) => error as UpstreamError,
  );

describe('the token exchange', () => {
  const request = { code: 'the-code', redirectUri: 'http://127.0.0.1:1/callback', scopes: ['read'] };

  it('adds the verifier where there is a proof', async () => {
    const endpoint = createTokenEndpoint({ settings: server.settings(), clock });
    await endpoint.exchangeCode({ ...request, code: server.issueCode(), verifier: 'v'.repeat(43) }, never);
    expect(Object.keys(server.grants[0]!.body).sort()).toEqual([
      'client_id',
      'client_secret',
      'code',
      'code_verifier',
      'grant_type',
      'redirect_uri',
    ]);
  });

  it('asks for consent with the parameters of the specification, a state, and a challenge or none', () => {
    const endpoint = createTokenEndpoint({ settings: server.settings(), clock });
    const ask = { redirectUri: request.redirectUri, scopes: ['read', 'write'], state: 's' };
    const plain = endpoint.authorizationUrl({ ...ask, verifier: null });
    expect(plain.origin + plain.pathname).toBe(`${server.origin}/auth/oauth/authorize`);
    expect(Object.fromEntries(plain.searchParams)).toEqual({
      client_id: CLIENT_ID,
      response_type: 'code',
      redirect_uri: request.redirectUri,
      scope: 'read write',
      state: 's',
    });
    const proven = endpoint.authorizationUrl({ ...ask, verifier: 'v' }).searchParams;
    expect(proven.get('code_challenge')).toBe(challengeOf('v'));
    expect(proven.get('code_challenge_method')).toBe('S256');
  });

  it.each([
    [400, { error: 'invalid_grant' }, 'no_credentials', 'login'],
    [401, { error: 'invalid_client' }, 'no_credentials', 'COMPLIANCE_CLIENT_SECRET'],
    [400, 'not what RFC 6749 says', 'no_credentials', 'COMPLIANCE_CLIENT_ID'],
    [400, { error: `no client has the secret ${CLIENT_SECRET}` }, 'no_credentials', 'COMPLIANCE_CLIENT_ID'],
    [404, { error: 'invalid_client' }, 'no_credentials', 'COMPLIANCE_CLIENT_SECRET'],
    [404, 'a page that is not there', 'no_credentials', 'COMPLIANCE_AUTH_URL'],
    [405, 'a page that is only read', 'no_credentials', 'COMPLIANCE_AUTH_URL'],
    [503, {}, 'unreachable', 'COMPLIANCE_AUTH_URL'],
    [429, {}, 'rate_limited', 'COMPLIANCE_AUTH_URL'],
    [200, { error: 'invalid_grant', error_description: 'expired' }, 'no_credentials', 'login'],
    [200, { error: 'bad_refresh_token' }, 'no_credentials', 'login'],
    [200, { access_token: 'x', error: { code: 'expired_token' } }, 'no_credentials', 'login'],
    [200, { error: 'invalid_client' }, 'no_credentials', 'COMPLIANCE_CLIENT_SECRET'],
    [200, { error: 'temporarily_unavailable' }, 'server', 'COMPLIANCE_AUTH_URL'],
    [200, { token: 'elsewhere' }, 'malformed', 'COMPLIANCE_AUTH_URL'],
    [200, 'no JSON object', 'malformed', 'COMPLIANCE_AUTH_URL'],
    [302, {}, 'no_json', 'COMPLIANCE_AUTH_URL'],
  ])('fails on %i %j as %s, with a remedy and no secret', async (status, body, kind, remedy) => {
    server.failures.push({ status, body, headers: status === 302 ? { location: '/auth/elsewhere' } : {} });
    const endpoint = createTokenEndpoint({ settings: server.settings(), clock });
    const failure = await failureOf(endpoint.exchangeCode({ ...request, verifier: null }, never));
    expect(failure).toBeInstanceOf(UpstreamError);
    expect(failure.kind).toBe(kind);
    expect(failure.remedy).toContain(remedy);
    expect(JSON.stringify([failure.message, failure.remedy, failure.excerpt])).not.toContain(CLIENT_SECRET);
  });

  it('repeats only the code of a refusal, because its description may echo what was sent', async () => {
    const endpoint = createTokenEndpoint({ settings: server.settings(), clock });
    const failure = await failureOf(endpoint.exchangeCode({ ...request, verifier: null }, never));
    expect(failure).toBeInstanceOf(GrantRefused);
    expect(failure.message).toContain('invalid_grant');
    expect(failure.message).not.toContain(CLIENT_SECRET);
    expect(failure.excerpt).toBeNull();
  });
});

describe("a person's grant", () => {
  let store: Store;
  let ours: Credentials;
  beforeEach(async () => {
    store = await open();
    ours = credentials(store);
  });

  it('is wanting until somebody signs in, and then used without a restart', async () => {
    const failure = await failureOf(ours.authorization(never));
    expect(failure.kind).toBe('no_credentials');
    expect(failure.message).toContain('compliance-mirror login');
    const tokens = await signIn(store);
    expect(await ours.authorization(never)).toBe(`Bearer ${tokens.accessToken}`);
  });

  it('is renewed 60 s before its end, not earlier, and the rotated refresh token is kept', async () => {
    const { accessToken, refreshToken } = await signIn(store);
    await clock.advance(HOUR_MS - 60_001);
    expect(await ours.authorization(never)).toBe(`Bearer ${accessToken}`);
    await clock.advance(1);
    const renewed = await ours.authorization(never);
    expect(renewed).not.toBe(`Bearer ${accessToken}`);
    expect(refreshes().map(({ body }) => body)).toEqual([
      {
        grant_type: 'refresh_token',
        refresh_token: refreshToken,
        client_id: CLIENT_ID,
        client_secret: CLIENT_SECRET,
      },
    ]);
    await clock.advance(HOUR_MS);
    await ours.authorization(never);
    expect(refreshes()).toHaveLength(2);
    expect(refreshes()[1]!.body['refresh_token']).not.toBe(refreshToken);
    expect(await audited(store)).toEqual([
      'login token_grant ok',
      'service token_refresh ok',
      'service token_refresh ok',
    ]);
  });

  it('is renewed once for any number of requests, here and in another process', async () => {
    await signIn(store);
    const theirs = credentials(await open());
    await clock.advance(HOUR_MS);
    const asked = [ours, theirs, ours, theirs, ours].map((each) => each.authorization(never));
    // The renewal is a real request, and its lease must not run out in the meantime: until it is done no time passes.
    await Promise.race(asked);
    let isDone = false;
    void Promise.allSettled(asked).then(() => {
      isDone = true;
    });
    // Whoever waits for the other process looks again now and then.
    while (!isDone) await clock.advance(100);
    expect(new Set(await Promise.all(asked)).size).toBe(1);
    expect(refreshes()).toHaveLength(1);
  });

  it('is renewed once more after a 401, however many requests met it', async () => {
    const { accessToken } = await signIn(store);
    const rejected = `Bearer ${accessToken}`;
    const renewed = await Promise.all([1, 2].map(() => ours.authorization(never, rejected)));
    renewed.push(await ours.authorization(never, rejected));
    expect(new Set(renewed).size).toBe(1);
    expect(refreshes()).toHaveLength(1);
    expect(await ours.authorization(never)).not.toBe(rejected);
  });

  it('is tried again after a 401 where somebody has signed in meanwhile, with a refresh token or without', async () => {
    server.answer = { ...server.answer, refresh: 'absent' };
    const { accessToken } = await signIn(store);
    await signIn(store);
    expect(await ours.authorization(never, `Bearer ${accessToken}`)).not.toContain(accessToken);
  });

  it('waits for a process that renews, and takes over from one that died meanwhile', async () => {
    await signIn(store);
    await clock.advance(HOUR_MS);
    expect(await store.takeLease(GRANT, 'a process that is gone', 10_000, clock.wall())).not.toBeNull();
    const asked = ours.authorization(never);
    await clock.advance(9_900);
    expect(refreshes()).toHaveLength(0);
    await clock.advance(200);
    expect(await asked).toContain(ACCESS_PREFIX);
    expect(refreshes()).toHaveLength(1);
  });

  it('is leased for longer than a renewal may take: another process would use its refresh token as well', async () => {
    await signIn(store);
    await clock.advance(HOUR_MS);
    const leases: number[] = [];
    const takeLease: Store['takeLease'] = async (...args) => {
      leases.push(args[2]);
      return await store.takeLease(...args);
    };
    await credentials({ ...store, takeLease }).authorization(never);
    expect(leases[0]).toBeGreaterThan(server.settings().timeoutMs);
  });

  it('waits a moment for the answer to a renewal when its caller goes away: it holds the tokens that count from then on', async () => {
    await signIn(store);
    await clock.advance(HOUR_MS);
    const gate = Promise.withResolvers<void>();
    server.gate = gate.promise;
    const stop = new AbortController();
    const asked = ours.authorization(stop.signal);
    await expect.poll(refreshes).toHaveLength(1);
    stop.abort(new Error('stopping'));
    gate.resolve();
    expect(await asked).toContain(ACCESS_PREFIX);
    expect(await credentials(store).authorization(never)).toBe(await asked);

    server.gate = new Promise(() => undefined);
    await clock.advance(HOUR_MS);
    const again = new AbortController();
    const unanswered = failureOf(ours.authorization(again.signal));
    await expect.poll(refreshes).toHaveLength(2);
    again.abort(new Error('stopping'));
    expect((await unanswered).message).toBe('stopping');
  });

  it('gives way to a sign-in that came while it was being renewed', async () => {
    await signIn(store);
    await clock.advance(HOUR_MS);
    const saveTokens: Store['saveTokens'] = async (...args) => {
      if (args[2] !== null) await signIn(await open());
      return await store.saveTokens(...args);
    };
    const asked = await credentials({ ...store, saveTokens }).authorization(never);
    const row = await store.readTokens(GRANT);
    expect(asked).toBe(`Bearer ${openTokens(KEY, row!.sealed).accessToken}`);
    expect(row!.version).toBe(2);
  });

  it('survives a database that could not take the tokens of a renewal: they are kept until it does', async () => {
    await signIn(store);
    await clock.advance(HOUR_MS);
    let isFull = true;
    const saveTokens: Store['saveTokens'] = async (...args) => {
      if (isFull) throw new StoreUnavailable('the disk is full');
      return await store.saveTokens(...args);
    };
    const ours = credentials({ ...store, saveTokens });
    await failureOf(ours.authorization(never));
    isFull = false;
    expect(await ours.authorization(never)).toContain(ACCESS_PREFIX);
    expect(refreshes()).toHaveLength(1);
    await clock.advance(HOUR_MS);
    expect(await credentials(store).authorization(never)).toContain(ACCESS_PREFIX);
  });

  it('says that consent is needed again once its refresh token is refused, and asks no more', async () => {
    await signIn(store);
    await clock.advance(HOUR_MS);
    server.revokeRefresh();
    for (const each of [ours, credentials(await open()), ours]) {
      const failure = await failureOf(each.authorization(never));
      expect(failure.kind).toBe('no_credentials');
      expect(failure.message).toContain('consent');
      expect(failure.message).toContain('compliance-mirror login');
    }
    expect(refreshes()).toHaveLength(1);
    expect(await audited(store)).toContain('service token_refresh invalid_grant');
    const tokens = await signIn(store);
    expect(await ours.authorization(never)).toBe(`Bearer ${tokens.accessToken}`);
  });

  it('outlives an authorization server that fails for a while, or that does not know the client today', async () => {
    await signIn(store);
    await clock.advance(HOUR_MS);
    server.failures.push({ status: 503, body: {} }, { status: 401, body: { error: 'invalid_client' } });
    expect((await failureOf(ours.authorization(never))).kind).toBe('unreachable');
    // Another process need not wait for the lease of a renewal that has failed.
    const theirs = credentials(await open());
    expect((await failureOf(theirs.authorization(never))).kind).toBe('no_credentials');
    expect(await ours.authorization(never)).toContain(ACCESS_PREFIX);
    expect(await audited(store)).toContain('service token_refresh invalid_client');
  });

  it('re-encrypted with a key that is not here yet is good until it runs out, and is not renewed', async () => {
    await signIn(store);
    const ours = credentials(store);
    const before = await ours.authorization(never);
    const { sealed } = (await store.readTokens(GRANT))!;
    await store.saveTokens(
      GRANT,
      { sealed: sealTokens(randomBytes(32), openTokens(KEY, sealed)) },
      null,
      ENTRY,
      now(),
    );
    expect(await ours.authorization(never)).toBe(before);
    const failure = await failureOf(ours.authorization(never, before));
    expect(failure.kind).toBe('no_credentials');
    expect(failure.message).toContain('CREDENTIALS_KEY');
    expect(await ours.needPerson!()).toBe(false);
    await clock.advance(HOUR_MS);
    expect(await ours.needPerson!()).toBe(true);
  });

  it('is stored in no readable form, and another key is for a person to mend', async () => {
    await signIn(store);
    const { sealed } = (await store.readTokens(GRANT))!;
    expect(sealed).not.toContain(ACCESS_PREFIX);
    expect(sealed).not.toContain(REFRESH_PREFIX);
    const failure = await failureOf(credentials(store, {}, 'read', randomBytes(32)).authorization(never));
    expect(failure.kind).toBe('no_credentials');
    expect(failure.message).toContain('CREDENTIALS_KEY');
  });
});

describe('a service account', () => {
  const account = { auth: 'service_account' } as const;

  it('gets its token with the client credentials as JSON, once for requests that come together', async () => {
    const store = await open();
    const ours = credentials(store, account);
    const asked = await Promise.all([ours.authorization(never), ours.authorization(never)]);
    expect(new Set(asked).size).toBe(1);
    expect(server.grants.map(({ body }) => body)).toEqual([
      { grant_type: 'client_credentials', client_id: CLIENT_ID, client_secret: CLIENT_SECRET, scope: 'read' },
    ]);
    expect(await audited(store)).toEqual(['service token_grant ok']);
    expect(await store.readTokens(GRANT)).toBeNull();
  });

  it('asks for write besides where something is written', async () => {
    await credentials(await open(), account, 'write').authorization(never);
    expect(server.grants[0]!.body['scope']).toBe('read write');
  });

  it('gets another one 60 s before the end, and one more after a 401', async () => {
    const ours = credentials(await open(), account);
    const first = await ours.authorization(never);
    await clock.advance(HOUR_MS - 60_000);
    const second = await ours.authorization(never);
    expect(second).not.toBe(first);
    // A late refusal of the first says nothing against the second.
    expect(await ours.authorization(never, first)).toBe(second);
    expect(await ours.authorization(never)).toBe(second);
    for (const _ of [1, 2]) expect(await ours.authorization(never, second)).not.toBe(second);
    expect(await ours.authorization(never)).not.toBe(second);
    expect(server.grants).toHaveLength(3);
  });

  it('writes a refusal into the audit', async () => {
    const store = await open();
    const ours = credentials(store, { ...account, clientSecret: () => 'another-secret' });
    const failure = await failureOf(ours.authorization(never));
    expect(failure.kind).toBe('no_credentials');
    expect(failure.remedy).toContain('COMPLIANCE_CLIENT_SECRET');
    expect(await audited(store)).toEqual(['service token_grant invalid_client']);
  });
});

describe('an authorization server that asks us to wait', () => {
  const call = { lane: 'live', signal: never } as const;

  function clientWith(ours: Credentials) {
    const budget = createBudget({ requestsPerMinute: 60, clock });
    const options = {
      settings: server.settings(),
      pointers: DEFAULT_ID_POINTERS,
      credentials: ours,
      budget,
      clock,
    };
    return { budget, client: createClient(options) };
  }

  it('is not asked again before, and nothing leaves meanwhile', async () => {
    const { client, budget } = clientWith(credentials(await open(), { auth: 'service_account' }));
    server.failures = [{ status: 503, body: {}, headers: { 'retry-after': '20' } }];
    const together = ['policy', 'vendor'] as const;
    for (const failed of together.map((kind) => failureOf(client.listPage(kind, 1, call)))) {
      expect(await failed).toMatchObject({ kind: 'unreachable', retryAfterMs: 20_000 });
    }
    expect(budget.left()).toMatchObject({ pausedForMs: 20_000 });
    const again = client.listPage('policy', 1, call);
    await clock.advance(19_999);
    expect(server.grants).toHaveLength(1);
    await clock.advance(1);
    expect(await again).toMatchObject({ objects: [] });
  });
});
