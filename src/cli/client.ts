import { createBudget } from '../compliance/budget.ts';
import {
  type ComplianceClient,
  createClient,
  type ObservedRequest,
  type RefusedRequest,
} from '../compliance/client.ts';
import { credentialsFor, type TokenStore } from '../compliance/credentials.ts';
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
 * A client for one command. `store` is where OAuth tokens are kept and their use is audited; null: none is open,
 * which will do with an API key. Refusals of the API are audited in either case, where there is a database.
 */
export function commandClient(
  cli: Cli,
  config: Config,
  store: Store | null,
  options: {
    actor: string;
    needs: Needs;
    observe?: (request: ObservedRequest) => void;
    /** Not even a refusal is written down: for what promises to write nothing. */
    silent?: true;
  },
): ComplianceClient {
  const settings = complianceSettings(config);
  const clock = systemClock();
  const { actor, needs, observe, silent = false } = options;
  return createClient({
    settings,
    credentials: credentialsFor({
      ...{ settings, clock, actor, needs },
      store: store ?? NO_TOKENS,
      key: () => config.credentialsKey,
    }),
    // Ours alone: a service that runs beside us counts its own, and a command sends a request or two.
    budget: createBudget({ requestsPerMinute: settings.requestsPerMinute, clock }),
    clock,
    pointers: config.idPointers,
    ...(silent ? {} : { refused: (refusal) => auditRefusal(cli, actor, refusal) }),
    ...(observe === undefined ? {} : { observe }),
  });
}

/** As the service notes its own; the target says who asked for what. Never rejects: the refusal itself is the news. */
async function auditRefusal(
  cli: Cli,
  actor: string,
  { status, method, route }: RefusedRequest,
): Promise<void> {
  const target = `${actor}: ${method} ${route}`;
  const entry = { actor: 'upstream', action: 'credentials', outcome: String(status), target };
  try {
    // What the command holds may be open for reading only.
    await withStore(cli, 'write', (store) => store.audit(entry, momentOf(systemClock())));
  } catch (error) {
    cli.err.write(`Note: this refusal is not in the audit: ${printable(describeError(error))}\n`);
  }
}

/** For where there is no database: nobody can have signed in. */
const NO_TOKENS: TokenStore = {
  readTokens: async () => null,
  leaseTokens: async () => null,
  releaseTokens: async () => {},
  saveTokens: async () => false,
  refuseTokens: async () => false,
  audit: async () => 0,
};
