import { createHash, randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { Grants } from '../../sandbox/oauth/grants.ts';
import { consent } from '../contract/consent.ts';
import { type Answer, request, type TestSandbox, testSandbox } from './support.ts';

const CLIENT = { client_id: 'app', client_secret: 'secret-of-the-application' };
const REDIRECT = 'http://127.0.0.1:7999/callback?from=sandbox';
const ACCOUNT = { client_id: 'machine', client_secret: 'secret-of-the-machine' };

async function oauthSandbox(accessTokenSeconds = 3600): Promise<TestSandbox> {
  return await testSandbox({
    oauth: {
      application: { id: CLIENT.client_id, secret: CLIENT.client_secret, redirectUri: REDIRECT },
      serviceAccounts: [{ id: ACCOUNT.client_id, secret: ACCOUNT.client_secret, scopes: ['read'] }],
      accessTokenSeconds,
    },
  });
}

const QUERY = {
  client_id: CLIENT.client_id,
  response_type: 'code',
  redirect_uri: REDIRECT,
  scope: 'read write',
};
const token = (url: string, body: unknown) => request('POST', `${url}/oauth/token`, body);
const pair = () => {
  const verifier = randomBytes(32).toString('base64url');
  return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') };
};
const as = (url: string, bearer: string, method = 'GET', path = '/v1/vendors', body?: unknown) =>
  request(method, url + path, body, { authorization: `Bearer ${bearer}` });

async function codeFor(url: string, query: Record<string, string> = {}): Promise<string> {
  const { location } = await consent(url, { ...QUERY, ...query });
  return location.searchParams.get('code')!;
}
const exchange = (url: string, code: string, more: Record<string, unknown> = {}) =>
  token(url, { grant_type: 'authorization_code', code, ...CLIENT, redirect_uri: REDIRECT, ...more });
const renew = (url: string, refresh: string, more: Record<string, unknown> = {}) =>
  token(url, { grant_type: 'refresh_token', refresh_token: refresh, ...CLIENT, ...more });
async function signedIn(url: string): Promise<Answer['body']> {
  return (await exchange(url, await codeFor(url))).body;
}
const refused = (answer: Answer) => [answer.status, answer.body.error];

describe('the consent page', () => {
  test('shows who asks for what, and escapes it', async () => {
    const { url } = await oauthSandbox();
    const html = await (await fetch(`${url}/oauth/authorize?${new URLSearchParams(QUERY)}`)).text();
    expect(html).toContain('app');
    expect(html).toContain('Create policies and risk assessments');
    expect(html).toContain('name="answer" value="deny"');
    expect(html).not.toContain(CLIENT.client_secret);
  });

  test('leads back with a code and the state as it came, keeping the query the address had', async () => {
    const { url } = await oauthSandbox();
    const state = 'ä & = # "';
    const { location } = await consent(url, { ...QUERY, state });
    expect(location.href).toMatch(/^http:\/\/127\.0\.0\.1:7999\/callback\?from=sandbox&code=/);
    expect(location.searchParams.get('state')).toBe(state);
  });

  test('a denial leads back with access_denied and no code', async () => {
    const { url } = await oauthSandbox();
    const { location } = await consent(url, { ...QUERY, state: 's' }, 'deny');
    expect(Object.fromEntries(location.searchParams)).toEqual({
      from: 'sandbox',
      error: 'access_denied',
      state: 's',
    });
  });

  test.each([
    ['another client', { client_id: 'other' }],
    ['an address that only begins like the registered one', { redirect_uri: `${REDIRECT}&x=1` }],
  ])('%s is told to the person and redirected nowhere', async (_, query) => {
    const { url } = await oauthSandbox();
    const asked = new URLSearchParams({ ...QUERY, ...query });
    const answer = await fetch(`${url}/oauth/authorize?${asked}`, { redirect: 'manual' });
    expect(answer.status).toBe(400);
    expect(answer.headers.get('location')).toBeNull();
  });

  test.each([
    ['unsupported_response_type', { response_type: 'token' }],
    ['invalid_scope', { scope: 'read everything' }],
    ['invalid_request', { code_challenge: 'x'.repeat(43), code_challenge_method: 'plain' }],
    ['invalid_request', { code_challenge: 'short', code_challenge_method: 'S256' }],
  ])('%s is told to the client: %o', async (error, query) => {
    const { url } = await oauthSandbox();
    const { location } = await consent(url, { ...QUERY, state: 's', ...query });
    expect(location.searchParams.get('error')).toBe(error);
    expect(location.searchParams.get('state')).toBe('s');
  });
});

describe('the token endpoint', () => {
  test('takes the five fields, and what it gives lets in for as long as it says', async () => {
    const { url } = await oauthSandbox(120);
    const { status, body, headers } = await exchange(url, await codeFor(url));
    expect(status).toBe(200);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(body).toEqual({
      access_token: expect.any(String),
      token_type: 'Bearer',
      expires_in: 120,
      refresh_token: expect.any(String),
      scope: 'read write',
    });
    expect((await as(url, body.access_token)).status).toBe(200);
    const policy = await as(url, body.access_token, 'POST', '/v1/policies', { name: 'By a person' });
    expect(policy.status).toBe(201);
  });

  test('refuses the same fields as a form', async () => {
    const { url } = await oauthSandbox();
    const fields = { grant_type: 'authorization_code', code: await codeFor(url), ...CLIENT };
    const answer = await fetch(`${url}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({ ...fields, redirect_uri: REDIRECT }),
    });
    expect(answer.status).toBe(415);
    expect(await answer.json()).toMatchObject({ error: 'invalid_request' });
  });

  test('a code works once', async () => {
    const { url } = await oauthSandbox();
    const code = await codeFor(url);
    expect((await exchange(url, code)).status).toBe(200);
    expect(refused(await exchange(url, code))).toEqual([400, 'invalid_grant']);
  });

  test.each([
    ['another secret', { client_secret: 'secret-of-somebody-else' }, [401, 'invalid_client']],
    ['another redirect address', { redirect_uri: `${REDIRECT}/` }, [400, 'invalid_grant']],
    ['another code', { code: 'made-up' }, [400, 'invalid_grant']],
    ['a verifier nobody announced', { code_verifier: 'v'.repeat(43) }, [400, 'invalid_grant']],
    ['a grant type it lacks', { grant_type: 'password' }, [400, 'unsupported_grant_type']],
  ])('refuses %s', async (_, more, expected) => {
    const { url } = await oauthSandbox();
    const answer = await exchange(url, await codeFor(url), more);
    expect(refused(answer)).toEqual(expected);
    expect(JSON.stringify(answer.body)).not.toContain('secret-of');
  });

  test('with PKCE the code is worth nothing without its verifier', async () => {
    const { url } = await oauthSandbox();
    const { verifier, challenge } = pair();
    const query = { code_challenge: challenge, code_challenge_method: 'S256' };
    const other = { code_verifier: pair().verifier };
    expect(refused(await exchange(url, await codeFor(url, query)))).toEqual([400, 'invalid_grant']);
    expect(refused(await exchange(url, await codeFor(url, query), other))).toEqual([400, 'invalid_grant']);
    const good = await exchange(url, await codeFor(url, query), { code_verifier: verifier });
    expect(good.status).toBe(200);
  });

  test('a refresh token is replaced at each use', async () => {
    const { url } = await oauthSandbox();
    const first = await signedIn(url);
    const second = (await renew(url, first.refresh_token)).body;
    const third = (await renew(url, second.refresh_token)).body;
    expect(new Set([first, second, third].map((one) => one.refresh_token)).size).toBe(3);
    expect(third.scope).toBe('read write');
    expect((await as(url, third.access_token)).status).toBe(200);
    expect(refused(await renew(url, first.refresh_token))).toEqual([400, 'invalid_grant']);
  });
});

describe('a service account', () => {
  const ask = (url: string, scope?: string) =>
    token(url, { grant_type: 'client_credentials', ...ACCOUNT, ...(scope === undefined ? {} : { scope }) });

  test('gets what it asks for of what it has, and nothing to renew', async () => {
    const { url } = await oauthSandbox();
    expect((await ask(url, 'read')).body).toMatchObject({ scope: 'read', expires_in: 3600 });
    expect((await ask(url)).body.scope).toBe('read');
    expect((await ask(url)).body.refresh_token).toBeUndefined();
    expect(refused(await ask(url, 'write'))).toEqual([400, 'invalid_scope']);
    expect(refused(await ask(url, 'nonsense'))).toEqual([400, 'invalid_scope']);
  });

  test('may do what its scopes say', async () => {
    const { url } = await oauthSandbox();
    const { access_token: mine } = (await ask(url)).body;
    expect((await as(url, mine)).status).toBe(200);
    const denied = await as(url, mine, 'POST', '/v1/policies', { name: 'By a machine' });
    expect(denied.status).toBe(403);
    expect(denied.body).toMatchObject({ code: 'insufficient_scope', status: 403 });
    expect(denied.headers.get('www-authenticate')).toContain('insufficient_scope');
  });
});

describe('grants', () => {
  const request = { clientId: 'c', redirectUri: 'r', scopes: new Set(['read']), challenge: null };
  const redeem = { clientId: 'c', redirectUri: 'r', verifier: null };

  test('ends an access token after its seconds and a code after a minute, and no sooner', () => {
    let nowMs = 0;
    const grants = new Grants(10, () => nowMs);
    const early = grants.issueCode(request);
    const late = grants.issueCode(request);
    nowMs = 59_999;
    const tokens = grants.redeemCode(early, redeem)!;
    nowMs = 60_000;
    expect(grants.redeemCode(late, redeem)).toBeNull();
    nowMs = 69_998;
    expect(grants.scopesOf(tokens.access_token)).toEqual(new Set(['read']));
    nowMs = 69_999;
    expect(grants.scopesOf(tokens.access_token)).toBeNull();
  });
});
