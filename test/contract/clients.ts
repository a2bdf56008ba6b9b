import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { createBudget } from '../../src/compliance/budget.ts';
import { type ComplianceClient, createClient } from '../../src/compliance/client.ts';
import { credentialsFor } from '../../src/compliance/credentials.ts';
import {
  createTokenEndpoint,
  GRANT,
  readConsent,
  sealTokens,
  startConsent,
} from '../../src/compliance/oauth.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { openStore } from '../../src/store/open.ts';
import { consent } from './consent.ts';

export const WAYS = ['api_key', 'oauth', 'service_account'] as const;
export type Way = (typeof WAYS)[number];

export interface Connection {
  client: ComplianceClient;
  close(): Promise<void>;
}

const now = () => ({ wall: Date.now(), steady: Math.round(performance.now()) });

/** Our own client with our own credentials of each kind, a store of its own behind it, against a sandbox. */
export async function connect(sandbox: Sandbox, way: Way, scopes = 'read,write'): Promise<Connection> {
  const folder = mkdtempSync(join(tmpdir(), 'contract-client-'));
  const key = randomBytes(32);
  const { application, serviceAccounts } = sandbox.options.oauth;
  const holder = way === 'service_account' ? serviceAccounts[0]! : application;
  const config = loadConfig({
    DATABASE_URL: `file:${join(folder, 'mirror.db')}`,
    COMPLIANCE_BASE_URL: `${sandbox.url}/v1`,
    COMPLIANCE_AUTH: way,
    COMPLIANCE_API_KEY: sandbox.options.apiKeys[0],
    COMPLIANCE_AUTH_URL: sandbox.url,
    COMPLIANCE_CLIENT_ID: holder.id,
    COMPLIANCE_CLIENT_SECRET: holder.secret,
    COMPLIANCE_REDIRECT_URI: application.redirectUri,
    COMPLIANCE_SCOPES: scopes.replace(',', ' '),
    COMPLIANCE_REQUESTS_PER_MINUTE: '10000',
    CREDENTIALS_KEY: key.toString('base64'),
  });
  const settings = config.compliance!;
  const clock = systemClock();
  const store = await openStore(config.databaseUrl);
  if (way === 'oauth') {
    const endpoint = createTokenEndpoint({ settings, clock });
    const attempt = startConsent({ pkce: true, state: true });
    const { redirectUri } = application;
    const address = endpoint.authorizationUrl({ redirectUri, scopes: settings.scopes, ...attempt });
    const { location } = await consent(sandbox.url, Object.fromEntries(address.searchParams));
    const answer = readConsent(location.searchParams, attempt);
    if (answer.outcome !== 'granted') throw new Error(`consent: ${answer.outcome}`);
    const tokens = await endpoint.exchangeCode(
      { code: answer.code, redirectUri, verifier: attempt.verifier, scopes: settings.scopes },
      new AbortController().signal,
    );
    const entry = { actor: 'test', action: 'token_grant', outcome: 'ok', target: GRANT };
    await store.saveTokens(GRANT, { sealed: sealTokens(key, tokens) }, null, entry, now());
  }
  const client = createClient({
    settings,
    // `read` although it writes: what the scopes allow is for the sandbox to say here, not for us.
    credentials: credentialsFor({ settings, store, clock, actor: 'test', needs: 'read', key: () => key }),
    budget: createBudget({ requestsPerMinute: settings.requestsPerMinute, clock }),
    clock,
    pointers: config.idPointers,
  });
  return {
    client,
    close: async () => {
      await store.close();
      rmSync(folder, { recursive: true });
    },
  };
}
