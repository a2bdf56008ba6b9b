import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listenForConsent } from '../../src/cli/login/listener.ts';
import { GRANT, openTokens, startConsent } from '../../src/compliance/oauth.ts';
import { openStore } from '../../src/store/open.ts';
import {
  ACCESS_PREFIX,
  type OauthServer,
  oauthSettings,
  REFRESH_PREFIX,
  startOauthServer,
} from '../compliance/oauth-server.ts';
import { cli, inTemporaryDirectory, start } from './executable.ts';

const KEY = randomBytes(32);
let server: OauthServer;
beforeEach(async () => {
  server = await startOauthServer();
});
afterEach(() => server.close());

const settingsFor = (directory: string): Record<string, string> => oauthSettings(server, directory, KEY);

/** What is stored, opened, and what the audit says. */
async function stored(directory: string) {
  const store = await openStore(`file:${join(directory, 'mirror.db')}`, { readOnly: true });
  const row = await store.readTokens(GRANT);
  const audit = (await store.list('audit', { limit: 50 })).map(
    ({ action, outcome }) => `${action} ${outcome}`,
  );
  await store.close();
  return { tokens: row === null ? null : openTokens(KEY, row.sealed), audit: audit.reverse() };
}

/** Consents as a browser would, and returns the last page. */
async function browse(address: string): Promise<{ status: number; text: string }> {
  const response = await fetch(address);
  return { status: response.status, text: await response.text() };
}

/** What is answered to a request's head, over a socket of its own. */
async function spoken(port: number, head: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.end(`${head}\r\nConnection: close\r\n\r\n`);
  return await text(socket);
}

describe('signing in', () => {
  it('prints an address, takes the answer on loopback, and stores the tokens encrypted', async () => {
    await inTemporaryDirectory(async (directory) => {
      const login = start(['login'], settingsFor(directory));
      const address = await login.line(`${server.origin}/auth/oauth/authorize`);
      expect(new URL(address).searchParams.get('scope')).toBe('read');
      const page = await browse(address);
      expect(page).toMatchObject({ status: 200 });
      expect(page.text).toContain('Signed in');
      expect(await login.line('Signed in')).toContain('read');
      expect(await login.exited).toBe(0);
      const { tokens, audit } = await stored(directory);
      expect(tokens?.accessToken).toContain(ACCESS_PREFIX);
      expect(tokens?.refreshToken).toContain(REFRESH_PREFIX);
      expect(audit).toEqual(['token_grant ok']);
      const { redirect_uri, code_verifier } = server.grants[0]!.body;
      expect(redirect_uri).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d*\/callback$/);
      expect(code_verifier).toMatch(/^[\w-]{43}$/);
    });
  });

  it('goes on waiting when somebody else knocks, and asks for write when told to', async () => {
    await inTemporaryDirectory(async (directory) => {
      const login = start(['login', '--write'], settingsFor(directory));
      const address = new URL(await login.line('/auth/oauth/authorize'));
      expect(address.searchParams.get('scope')).toBe('read write');
      const callback = address.searchParams.get('redirect_uri')!;
      for (const query of ['?code=stolen&state=guessed', '?error=access_denied', '']) {
        expect((await browse(`${callback}${query}`)).status).toBe(400);
      }
      expect((await browse(new URL('/elsewhere', callback).href)).status).toBe(404);
      await browse(address.href);
      expect(await login.exited).toBe(0);
      const { audit } = await stored(directory);
      expect(audit.toSorted()).toEqual([
        ...Array.from({ length: 2 }, () => 'token_grant foreign_state'),
        'token_grant missing_state',
        'token_grant ok',
      ]);
    });
  });

  it('says so when the service grants less than was asked for', async () => {
    await inTemporaryDirectory(async (directory) => {
      server.answer.scope = 'read';
      const login = start(['login', '--write'], settingsFor(directory));
      await browse(await login.line('/auth/oauth/authorize'));
      expect(await login.line('not granted')).toContain('“write”');
      expect(await login.exited).toBe(0);
    });
  });

  it('survives what is no address and no HTTP, which anybody on the machine can send', async () => {
    const attempt = startConsent({ pkce: false, state: true });
    const listener = await listenForConsent('http://127.0.0.1:0/callback', attempt, () => {});
    const { port } = new URL(listener.redirectUri);
    const status = async (head: string) => (await spoken(Number(port), head)).slice(9, 12);
    for (const target of ['//', '//[', 'http://[', '/%', '*', '/callback//', '//x:99999999/']) {
      expect([target, await status(`GET ${target} HTTP/1.1\r\nHost: x`)]).toEqual([target, '404']);
    }
    expect(await status('GET')).toBe('400');
    const right = status(`GET /callback?code=c&state=${attempt.state} HTTP/1.1\r\nHost: x`);
    expect(await listener.answer).toMatchObject({ code: 'c' });
    await listener.finish({ title: 'Signed in', text: '' });
    expect(await right).toBe('200');
  });

  it('omits the proof when PKCE is switched off', async () => {
    await inTemporaryDirectory(async (directory) => {
      const login = start(['login'], { ...settingsFor(directory), COMPLIANCE_OAUTH_PKCE: 'off' });
      const address = new URL(await login.line('/auth/oauth/authorize'));
      expect([...address.searchParams.keys()]).not.toContain('code_challenge');
      await browse(address.href);
      expect(await login.exited).toBe(0);
      expect(Object.keys(server.grants[0]!.body)).toHaveLength(5);
    });
  });

  it('says that the redirect carried no state, and takes it without one when told to', async () => {
    await inTemporaryDirectory(async (directory) => {
      server.returnsState = false;
      const settings = settingsFor(directory);
      const strict = start(['login'], settings);
      const address = await strict.line('/auth/oauth/authorize');
      const page = await browse(address);
      expect([page.status, page.text]).toEqual([400, expect.stringContaining('carries no state')]);
      expect(await strict.line('COMPLIANCE_OAUTH_STATE')).toContain('off');
      strict.child.kill('SIGTERM');
      await strict.exited;

      const pasted = start(['login', '--paste'], settings);
      await pasted.line('/auth/oauth/authorize');
      pasted.child.stdin!.write('http://127.0.0.1/callback?code=c\n');
      expect(await pasted.line('compliance-mirror:')).toContain('carried no state');
      expect(await pasted.exited).toBe(1);

      const lax = start(['login'], { ...settings, COMPLIANCE_OAUTH_STATE: 'off' });
      const second = new URL(await lax.line('/auth/oauth/authorize'));
      expect([...second.searchParams.keys()]).not.toContain('state');
      expect(second.searchParams.get('code_challenge_method')).toBe('S256');
      await browse(second.href);
      expect(await lax.exited).toBe(0);
      const { audit } = await stored(directory);
      expect(audit).toEqual(['token_grant missing_state', 'token_grant missing_state', 'token_grant ok']);
    });
  });

  it('says what was refused, on the page and in the terminal, and notes it', async () => {
    await inTemporaryDirectory(async (directory) => {
      const login = start(['login'], settingsFor(directory));
      const address = new URL(await login.line('/auth/oauth/authorize'));
      const back = new URL(address.searchParams.get('redirect_uri')!);
      back.searchParams.set('state', address.searchParams.get('state')!);
      back.searchParams.set('error', 'access_denied');
      expect((await browse(back.href)).text).toContain('Not signed in');
      expect(await login.line('did not consent')).toContain('access_denied');
      expect(await login.exited).toBe(1);
      expect(await stored(directory)).toEqual({ tokens: null, audit: ['token_grant access_denied'] });
    });
  });

  it('takes a pasted address on a machine without a browser', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = {
        ...settingsFor(directory),
        COMPLIANCE_REDIRECT_URI: 'https://ours.example.com/back',
      };
      const login = start(['login', '--paste'], settings);
      const address = await login.line('/auth/oauth/authorize');
      const redirect = await fetch(address, { redirect: 'manual' });
      login.child.stdin!.write(`${redirect.headers.get('location')}\n`);
      expect(await login.line('Signed in')).toContain('read');
      expect(await login.exited).toBe(0);
      expect(server.grants[0]!.body['redirect_uri']).toBe('https://ours.example.com/back');
    });
  });

  it('refuses a pasted address that belongs to another sign-in', async () => {
    await inTemporaryDirectory(async (directory) => {
      const login = start(['login', '--paste'], settingsFor(directory));
      await login.line('/auth/oauth/authorize');
      login.child.stdin!.write('http://127.0.0.1/callback?code=c&state=another\n');
      expect(await login.line('compliance-mirror:')).toContain('state');
      expect(await login.exited).toBe(1);
      expect(server.grants).toHaveLength(0);
      expect(await stored(directory)).toEqual({ tokens: null, audit: ['token_grant foreign_state'] });
    });
  });

  it('gives up when nobody consents in time', async () => {
    await inTemporaryDirectory(async (directory) => {
      const { code, err } = await cli(['login', '--wait', '50ms'], settingsFor(directory));
      expect(code).toBe(1);
      expect(err).toContain('--wait');
    });
  });

  it('asks for the key before anything else, and for COMPLIANCE_AUTH=oauth', async () => {
    await inTemporaryDirectory(async (directory) => {
      const { CREDENTIALS_KEY: _, ...keyless } = settingsFor(directory);
      const first = await cli(['login'], keyless);
      expect(first.code).toBe(2);
      expect(first.err).toContain('CREDENTIALS_KEY');
      const second = await cli(['login'], {
        ...settingsFor(directory),
        COMPLIANCE_AUTH: 'api_key',
        COMPLIANCE_API_KEY: 'some-api-key',
      });
      expect(second.code).toBe(2);
      expect(second.err).toContain('COMPLIANCE_AUTH=oauth');
    });
  });
});

describe('two processes with one grant', () => {
  it('renew it once between them, and the next command says when consent is needed again', async () => {
    await inTemporaryDirectory(async (directory) => {
      const settings = settingsFor(directory);
      const login = start(['login'], settings);
      await browse(await login.line('/auth/oauth/authorize'));
      expect(await login.exited).toBe(0);
      server.expireAccess();
      const both = await Promise.all(
        [1, 2].map(() => cli(['api', 'GET', '/policies?page=1&perPage=5'], settings)),
      );
      expect(both.map(({ code, err }) => ({ code, err }))).toEqual([
        { code: 0, err: '' },
        { code: 0, err: '' },
      ]);
      expect(server.grants.filter(({ body }) => body['grant_type'] === 'refresh_token')).toHaveLength(1);

      server.expireAccess();
      server.revokeRefresh();
      const refused = await cli(['api', 'GET', '/policies'], settings);
      expect(refused.code).toBe(1);
      expect(refused.err).toContain('compliance-mirror login');
      expect((await stored(directory)).audit).toEqual([
        'token_grant ok',
        'token_refresh ok',
        'token_refresh invalid_grant',
      ]);
    });
  });
});
