import { scryptSync } from 'node:crypto';
import { momentOf } from '../platform/clock.ts';
import type { ComplianceSettings } from '../platform/config.ts';
import { UsageError } from '../platform/errors.ts';
import type { Credentials } from './client.ts';
import { type CredentialsOptions, createOneAtATime, grantCredentials } from './grant.ts';
import {
  createTokenEndpoint,
  GrantRefused,
  needsRenewal,
  scopesFor,
  scopesOf,
  type TokenEndpoint,
  type Tokens,
} from './oauth.ts';

/** The credentials that COMPLIANCE_AUTH names. The configuration has checked that their settings are set. */
export function credentialsFor(options: CredentialsOptions): Credentials {
  const { settings } = options;
  if (settings.auth === 'api_key') return apiKeyCredentials(settings.apiKey!);
  const endpoint = createTokenEndpoint(options);
  if (settings.auth === 'oauth') return grantCredentials(options, endpoint);
  return serviceAccountCredentials(options, endpoint);
}

/** A static key. It is read at every request, so that a changed file takes effect without a restart. */
export function apiKeyCredentials(apiKey: (again?: 'again') => string): Credentials {
  return {
    async authorization() {
      const key = apiKey();
      // fetch would refuse such a header too, but quote the key in its message.
      if (!/^[\x21-\x7e]+$/.test(key)) {
        throw new UsageError(
          'COMPLIANCE_API_KEY is empty or holds a character that no HTTP header can carry',
          'Look for spaces, line breaks or quotes around the key.',
        );
      }
      return `Bearer ${key}`;
    },

    /** Its file may have another key by now, whatever its date says. */
    renew: async (_signal, rejected) => `Bearer ${apiKey('again')}` !== rejected,
  };
}

/** A service account's token, got with the client's secret. Not stored: a new one costs one request, and old ones stay valid. */
function serviceAccountCredentials(options: CredentialsOptions, endpoint: TokenEndpoint): Credentials {
  const { settings, store, clock, actor } = options;
  const scopes = scopesFor(settings.scopes, options.needs);
  const oneAtATime = createOneAtATime();
  let tokens: Tokens | null = null;

  async function obtain(signal: AbortSignal): Promise<Tokens> {
    const entry = { actor, action: 'token_grant', target: 'service_account' };
    try {
      tokens = await endpoint.clientCredentials(scopes, signal);
      await store.audit({ ...entry, outcome: 'ok' }, momentOf(clock));
      return tokens;
    } catch (error) {
      if (error instanceof GrantRefused)
        await store.audit({ ...entry, outcome: error.reason }, momentOf(clock));
      throw error;
    }
  }

  return {
    async authorization(signal) {
      const isGood = () => tokens !== null && !needsRenewal(tokens, clock.wall());
      const usable = await oneAtATime(
        async () => (isGood() ? tokens : null),
        () => obtain(signal),
      );
      return `Bearer ${usable.accessToken}`;
    },

    async renew(_signal, rejected) {
      // Another request may have got a new token meanwhile.
      if (rejected === `Bearer ${tokens?.accessToken}`) tokens = null;
      return true;
    },

    standing: async () => ({
      expiresWall: tokens?.expiresWall ?? null,
      refusal: null,
      scopes: tokens === null ? null : scopesOf(tokens),
    }),
  };
}

const PRINT_BYTES = 16;

/**
 * A fingerprint of the credentials and the API's address. It reveals neither: it is slow to guess, and each database has its own
 * `salt`. A restored database gets a new salt, so that its notes about access do not count. A person's tokens change, so the
 * fingerprint holds only the client. It is computed again when a key's file has changed.
 */
export function accessPrint(settings: ComplianceSettings, salt: () => string): () => string {
  let last = { text: '', salt: '', print: '' };
  return () => {
    const { baseUrl, auth, apiKey, authUrl, clientId, clientSecret, scopes } = settings;
    const secret = (auth === 'api_key' ? apiKey : clientSecret)?.() ?? null;
    const text = JSON.stringify([baseUrl.href, auth, authUrl?.href, clientId, scopes, secret]);
    const salted = salt();
    if (text !== last.text || salted !== last.salt) {
      const print = scryptSync(text, salted, PRINT_BYTES).toString('hex');
      last = { text, salt: salted, print };
    }
    return last.print;
  };
}
