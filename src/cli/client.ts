import { createBudget } from '../compliance/budget.ts';
import { type ComplianceClient, createClient } from '../compliance/client.ts';
import { credentialsFor, type TokenStore } from '../compliance/credentials.ts';
import type { Needs } from '../compliance/oauth.ts';
import { systemClock } from '../platform/clock.ts';
import type { ComplianceSettings, Config } from '../platform/config.ts';
import { UsageError } from '../platform/errors.ts';
import type { Store } from '../store/store.ts';

export function complianceSettings(config: Config): ComplianceSettings {
  if (config.compliance !== null) return config.compliance;
  throw new UsageError(
    'COMPLIANCE_BASE_URL is not set',
    'it is the address of the compliance service, such as https://api.example.com/v1',
  );
}

/**
 * CREDENTIALS_KEY, read at each call, because its file may get another key. Required before the service is asked for `secret`, which
 * could not be stored without it.
 */
export function requireKey(config: Config, secret: string): () => Uint8Array {
  if (config.credentialsKey !== null) return () => config.credentialsKey!;
  throw new UsageError(
    `CREDENTIALS_KEY is not set, and ${secret} could not be stored`,
    'make one with: openssl rand -base64 32',
  );
}

/** A client for one command. `store` holds the OAuth tokens and the audit of their use; null is enough for an API key. */
export function commandClient(
  config: Config,
  store: Store | null,
  { actor, needs }: { actor: string; needs: Needs },
): ComplianceClient {
  const settings = complianceSettings(config);
  const clock = systemClock();
  return createClient({
    settings,
    credentials: credentialsFor({
      settings,
      clock,
      actor,
      needs,
      store: store ?? NO_TOKENS,
      key: () => config.credentialsKey,
    }),
    // Not shared with a running service: a command sends only one or two requests.
    budget: createBudget({ requestsPerMinute: settings.requestsPerMinute, clock }),
    clock,
    pointers: config.idPointers,
  });
}

/** Without a database nobody can have signed in. */
const NO_TOKENS: TokenStore = {
  readTokens: async () => null,
  takeLease: async () => null,
  releaseLease: async () => {},
  saveTokens: async () => false,
  audit: async () => 0,
};
