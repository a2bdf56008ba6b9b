import { createDryRun } from '../backfill/dry-run.ts';
import type { Kind } from '../compliance/kinds.ts';
import type { Compared } from '../ops/operations.ts';
import { systemClock } from '../platform/clock.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { riskIdsReader } from '../service/risk-ids.ts';
import type { Store } from '../store/store.ts';
import { type Cli, writeJson } from './cli.ts';
import { commandClient, complianceSettings } from './client.ts';
import { withLockedStore, withStore } from './database.ts';
import { describeDifferences } from './differences.ts';
import { DifferenceFound } from './exit.ts';
import { livingReplicas, runningService } from './operator.ts';
import { printable } from './text.ts';

/**
 * Compares with the API and writes nothing. A running service does it, since the request budget is its own; without
 * one it is done here. Rejects with DifferenceFound where anything differs, and with MirrorError where nothing does in
 * a list that cannot be the whole one.
 */
export async function dryRun(cli: Cli, kinds: readonly Kind[], options: { json?: true }): Promise<void> {
  const config = loadConfig(cli.env);
  const service = await runningService(config);
  // Of a service elsewhere the settings are there and not here.
  if (service === null) complianceSettings(config);
  const compared: Compared[] = [];
  for (const kind of kinds) {
    if (cli.err.isTerminal) cli.err.write(`Comparing ${kind} …\n`);
    if (service === null) {
      compared.push({ kind, ...(await compareHere(cli, config, kind)) });
    } else {
      const answer = await service.postPatiently('/api/sync-runs', { dry_run: true, kinds: [kind] });
      compared.push(...(answer as { kinds: Compared[] }).kinds);
    }
  }
  const differs = compared.some(({ missing, extra, different }) => missing + extra + different > 0);
  const incomplete = compared.filter((one) => one.incomplete !== null);
  const inSync = !differs && incomplete.length === 0;
  if (options.json) writeJson(cli.out, { in_sync: inSync, kinds: compared });
  else for (const differences of compared) cli.out.write(describeDifferences(differences.kind, differences));
  if (differs)
    throw new DifferenceFound('the mirror differs from the API', '"sync" without --dry-run repairs it');
  if (incomplete.length > 0) {
    const kindsRead = incomplete.map(({ kind }) => kind).join(', ');
    throw new MirrorError('incomplete', `not the whole list: ${kindsRead}`, {
      remedy: 'nothing differs in what was read; a list that moves while it is read can be compared again',
    });
  }
}

async function compareHere(cli: Cli, config: Config, kind: Kind) {
  const clock = systemClock();
  const work = async (store: Store) => {
    if ((await livingReplicas(store, clock)) > 0) {
      throw new UsageError(
        'services run on this database, and the request budget is theirs',
        'set OPS_URL and OPS_TOKEN: then one of them compares',
      );
    }
    const compare = createDryRun({
      client: commandClient(cli, config, store, { actor: 'cli', needs: 'read', silent: true }),
      ...{ store, clock, random: Math.random, pointers: config.idPointers },
      signal: new AbortController().signal,
      riskIds: riskIdsReader(config.riskIdsFile, { warn: (what: unknown) => complain(cli, what) }).read,
      paging: complianceSettings(config).paging,
    });
    return await compare(kind, 'person');
  };
  // Tokens may have to be renewed, and that is written.
  const isReading = complianceSettings(config).auth === 'api_key';
  return isReading ? await withStore(cli, work) : await withLockedStore(cli, work);
}

function complain(cli: Cli, what: unknown): void {
  cli.err.write(`RISK_IDS_FILE cannot be read: ${printable(String((what as { error?: unknown }).error))}\n`);
}
