import type { Clock } from '../platform/clock.ts';
import type { Credentials } from './credentials.ts';
import { GrantRefused, type TokenEndpoint } from './oauth-endpoint.ts';
import type { TokenStore } from './oauth-tokens.ts';
import { needsRenewal, scopesOf, type Tokens } from './oauth-tokens.ts';

export interface ServiceAccountOptions {
  endpoint: TokenEndpoint;
  store: Pick<TokenStore, 'audit'>;
  clock: Clock;
  actor: string;
  scopes: readonly string[];
}

/**
 * A service account's token, got with the client's own secret whenever there is none. In memory only: another
 * one costs a request and voids none, so there is nothing to keep and nothing to share between processes.
 */
export function serviceAccountCredentials(options: ServiceAccountOptions): Credentials {
  const { endpoint, store, clock, actor } = options;
  let tokens: Tokens | null = null;
  let grant: Promise<Tokens> | null = null;

  async function obtain(signal: AbortSignal): Promise<Tokens> {
    const now = () => ({ wall: clock.wall(), steady: clock.steady() });
    const entry = { actor, action: 'token_grant', target: 'service_account' };
    try {
      tokens = await endpoint.clientCredentials(options.scopes, signal);
      await store.audit({ ...entry, outcome: 'ok' }, now());
      return tokens;
    } catch (error) {
      if (error instanceof GrantRefused) await store.audit({ ...entry, outcome: error.reason }, now());
      throw error;
    }
  }

  return {
    async authorization(signal) {
      while (tokens === null || needsRenewal(tokens, clock.wall())) {
        signal.throwIfAborted();
        if (grant === null) {
          grant = obtain(signal).finally(() => {
            grant = null;
          });
          await grant;
        } else {
          // Whoever asked first may have gone away; its failure is not this one's, which asks in its turn.
          await grant.catch(() => undefined);
        }
      }
      return `Bearer ${tokens.accessToken}`;
    },

    async renew(_signal, rejected) {
      // Others may have met the same refusal first, and got another one since.
      if (tokens !== null && rejected === `Bearer ${tokens.accessToken}`) tokens = null;
      return true;
    },

    standing: async () => ({
      ...{ expiresWall: tokens?.expiresWall ?? null, refusal: null },
      scopes: tokens === null ? null : scopesOf(tokens),
    }),
  };
}
