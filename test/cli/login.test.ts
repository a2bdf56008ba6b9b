import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { GRANT, openTokens } from '../../src/compliance/oauth.ts';
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
  const audit = (await store.list('audit', { limit: 50 })).items.map(
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
