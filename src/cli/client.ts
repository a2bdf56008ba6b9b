import { createBudget } from '../compliance/budget.ts';
import {
  type ComplianceClient,
  createClient,
  type ObservedRequest,
  type RefusedRequest,
} from '../compliance/client.ts';
import type { TokenStore } from '../compliance/credentials.ts';
import { credentialsFor } from '../compliance/credentials.ts';
import type { Needs } from '../compliance/oauth.ts';
import { momentOf, systemClock } from '../platform/clock.ts';
import type { ComplianceSettings, Config } from '../platform/config.ts';
import { describeError, UsageError } from '../platform/errors.ts';
import type { Store } from '../store/store.ts';
import type { Cli } from './cli.ts';
import { withStore } from './database.ts';
import { printable } from './text.ts';

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

/**
 * A client for one command. `store` holds the OAuth tokens and the audit of their use; null is enough for an API key. The API's
 * 401 and 403 are audited in either case, if there is a database.
 */
export function commandClient(
  cli: Cli,
  config: Config,
  store: Store | null,
  options: {
    actor: string;
    needs: Needs;
    observe?: (request: ObservedRequest) => void;
    onPageSize?: (size: number) => Promise<unknown>;
    /** Does not audit 401 and 403 either: for commands that promise to write nothing. */
    silent?: true;
  },
): ComplianceClient {
  const settings = complianceSettings(config);
  const clock = systemClock();
  const { actor, needs, observe, onPageSize, silent = false } = options;
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
    ...(silent ? {} : { refused: (refusal) => auditRefusal(cli, actor, refusal) }),
    ...(observe === undefined ? {} : { observe }),
    ...(onPageSize === undefined ? {} : { onPageSize }),
  });
}

/** Audits a 401 or 403 of the API as a service does. */
async function auditRefusal(
  cli: Cli,
  actor: string,
  { status, method, route }: RefusedRequest,
): Promise<void> {
  const target = `${actor}: ${method} ${route}`;
  await auditHere(cli, { actor: 'upstream', action: 'credentials', outcome: String(status), target });
}

/** Never rejects: what is audited has happened, and matters more. */
export async function auditHere(cli: Cli, entry: Parameters<Store['audit']>[0]): Promise<void> {
  try {
    // In a store of its own, because the command's may be read-only.
    await withStore(cli, 'write', (store) => store.audit(entry, momentOf(systemClock())));
  } catch (error) {
    cli.err.write(`Note: this is not in the audit: ${printable(describeError(error))}\n`);
  }
}

/** Without a database nobody can have signed in. */
const NO_TOKENS: TokenStore = {
  readTokens: async () => null,
  takeLease: async () => null,
  releaseLease: async () => {},
  saveTokens: async () => false,
  audit: async () => 0,
};
