import { Argument, Command } from 'commander';
import { answered, at, found } from '../ops/api/client.ts';
import type { Differences } from '../ops/context.ts';
import type { SyncRunReport } from '../store/reports.ts';
import { type Cli, writeJson } from './cli.ts';
import { describeDifferences } from './differences.ts';
import { type ListView, listByTime, notFound } from './lists.ts';
import { withApi } from './ops-api.ts';
import { jsonOption, parseRowId } from './options.ts';
import { renderPairs } from './table.ts';

const SYNC_RUNS: ListView<SyncRunReport> = [
  ['ID', (syncRun) => syncRun.id],
  ['KIND', (syncRun) => syncRun.kind],
  ['STARTED', (syncRun) => syncRun.started_at],
  ['OUTCOME', (syncRun) => syncRun.outcome ?? 'running'],
  ['INSERTED', (syncRun) => syncRun.inserted],
  ['UPDATED', (syncRun) => syncRun.updated],
  ['DELETED', (syncRun) => syncRun.deleted],
  ['SEEN', (syncRun) => syncRun.seen],
  ['REASON', (syncRun) => syncRun.reason],
  ['PAGES', (syncRun) => syncRun.pages],
  ['ERROR', (syncRun) => syncRun.error],
];

export function syncRunsCommand(cli: Cli): Command {
  const syncRuns = new Command('sync-runs').description('full syncs, and what each did: list, show');

  listByTime(cli, syncRuns.command('list').description('full syncs, newest first'), SYNC_RUNS, (api, query) =>
    answered(api['sync-runs'].$get({ query })),
  );

  syncRuns
    .command('show')
    .description('one full sync')
    .addArgument(fullSyncArgument())
    .addOption(jsonOption())
    .action((id: number, options: { json?: true }) =>
      withApi(cli, 'read', async (api) => {
        const syncRun = await found(api['sync-runs'][':id'].$get(at(id)));
        if (syncRun === null) throw notFound(`no full sync with the id ${id}`, 'sync-runs list');
        if (options.json) writeJson(cli.out, syncRun);
        else {
          const { differences, ...figures } = syncRun;
          cli.out.write(renderPairs(Object.entries(figures)));
          if (differences !== null)
            cli.out.write(describeDifferences('differences', differences as unknown as Differences));
        }
      }),
    );

  return syncRuns;
}

export function fullSyncArgument(): Argument {
  return new Argument('<id>', 'number of the full sync').argParser(parseRowId);
}
