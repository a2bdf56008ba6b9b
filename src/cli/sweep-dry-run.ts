import { createDryRun } from '../backfill/dry-run.ts';
import { createUpstream } from '../backfill/upstream.ts';
import { systemClock } from '../clock.ts';
import type { Kind } from '../compliance/kinds.ts';
import { type Config, loadConfig } from '../config.ts';
import type { Compared } from '../ops/operations.ts';
import type { Store } from '../store/store.ts';
import { type Cli, writeJson } from './cli.ts';
import { commandClient, complianceSettings } from './client.ts';
import { withLockedStore, withStore } from './database.ts';
import { describeDrift } from './drift.ts';
import { DifferenceFound } from './exit.ts';
import { runningService } from './operator.ts';

/**
 * Compares with the API and writes nothing. A running service does it, since the request budget is its own; without
 * one it is done here. Rejects with DifferenceFound where anything differs.
 */
export async function dryRun(cli: Cli, kinds: readonly Kind[], options: { json?: true }): Promise<void> {
  const config = loadConfig(cli.env);
  complianceSettings(config);
  const service = await runningService(config);
  const compared: Compared[] = [];
  for (const kind of kinds) {
    if (cli.err.isTerminal) cli.err.write(`Comparing ${kind} …\n`);
    if (service === null) {
      compared.push({ kind, ...(await compareHere(cli, config, kind)) });
    } else {
      const answer = await service.postPatiently('/api/sweeps', { dry_run: true, kinds: [kind] });
      compared.push(...(answer as { kinds: Compared[] }).kinds);
    }
  }
  const inStep = compared.every(({ missing, extra, different }) => missing + extra + different === 0);
  if (options.json) writeJson(cli.out, { in_step: inStep, kinds: compared });
  else for (const drift of compared) cli.out.write(describeDrift(drift.kind, drift));
  if (!inStep)
    throw new DifferenceFound('the mirror differs from the API', 'a sweep without --dry-run repairs it');
}

async function compareHere(cli: Cli, config: Config, kind: Kind) {
  const clock = systemClock();
  const work = async (store: Store) => {
    const { signal } = new AbortController();
    const upstream = createUpstream({
      client: commandClient(cli, config, store, { actor: 'cli', needs: 'read' }),
      // What it learns of the upstream is the service's to write down.
      gaps: { open: nothing, heal: nothing, healed: () => undefined, credentials: nothing },
      ...{ store, clock, signal, random: Math.random },
    });
    const compare = createDryRun({
      ...{ store, upstream, signal, pointers: config.idPointers },
      firstPage: complianceSettings(config).paging.firstPage,
    });
    return await compare(kind, 'person');
  };
  // Tokens may have to be renewed, and that is written.
  const isReading = complianceSettings(config).auth === 'api_key';
  return isReading ? await withStore(cli, work) : await withLockedStore(cli, work);
}

const nothing = async () => undefined;
