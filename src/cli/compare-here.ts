import { createDryRun } from '../backfill/dry-run.ts';
import type { Kind } from '../compliance/kinds.ts';
import type { Comparison } from '../ops/context.ts';
import type { Clock } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { UsageError } from '../platform/errors.ts';
import { riskIdsReader } from '../service/risk-ids.ts';
import type { Store } from '../store/store.ts';
import type { Cli } from './cli.ts';
import { commandClient, complianceSettings } from './client.ts';
import { livingReplicas } from './database.ts';
import { printable } from './text.ts';

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
  const complain = (what: unknown) =>
    cli.err.write(
      `RISK_IDS_FILE cannot be read: ${printable(String((what as { error?: unknown }).error))}\n`,
    );
  const compare = createDryRun({
    client: commandClient(cli, config, store, { actor: 'cli', needs: 'read', silent: true }),
    ...{ store, clock, random: Math.random, pointers: config.idPointers, signal },
    riskIds: riskIdsReader(config.riskIdsFile, { warn: complain }).read,
    paging: complianceSettings(config).paging,
  });
  return await compare(kind, 'person');
}
