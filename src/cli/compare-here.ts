import { createDryRun } from '../backfill/dry-run.ts';
import type { Kind } from '../compliance/kinds.ts';
import type { Comparison } from '../ops/context.ts';
import type { Clock } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { UsageError } from '../platform/errors.ts';
import { readRiskIds } from '../service/repairs.ts';
import type { Store } from '../store/store.ts';
import type { Cli } from './cli.ts';
import { commandClient, complianceSettings } from './client.ts';
import { livingReplicas } from './database.ts';

/** Compares a kind with the API where no service runs that could, and writes nothing. Rejects as `OpsActions.dryRun` does. */
export async function compareHere(
  cli: Cli,
  config: Config,
  { store, clock }: { store: Store; clock: Clock },
  kind: Kind,
  signal: AbortSignal,
): Promise<Comparison> {
  if ((await livingReplicas(store, clock)) > 0) {
    throw new UsageError(
      'services run on this database, and the request budget is theirs',
      'set OPS_URL and OPS_TOKEN: then one of them compares',
    );
  }
  const { riskIdsFile } = config;
  const compare = createDryRun({
    client: commandClient(cli, config, store, { actor: 'cli', needs: 'read', silent: true }),
    ...{ store, clock, random: Math.random, pointers: config.idPointers, signal },
    riskIds: async () => (riskIdsFile === null ? [] : await readRiskIds(riskIdsFile)),
    paging: complianceSettings(config).paging,
  });
  return await compare(kind, 'person');
}
