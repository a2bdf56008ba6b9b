import { Argument, Command } from 'commander';
import type { Differences } from '../ops/context.ts';
import { MirrorError } from '../platform/errors.ts';
import type { SyncRunReport } from '../store/reports.ts';
import { type Cli, writeJson } from './cli.ts';
import { describeDifferences } from './differences.ts';
import { type ListView, writeList } from './lists.ts';
import { afterOption, jsonOption, type ListOptions, limitOption, pagingOf, parseRowId } from './options.ts';
import { withReports } from './reports.ts';
import { renderPairs } from './table.ts';

const SYNC_RUNS: ListView<SyncRunReport> = {
  keyOf: (syncRun) => String(syncRun.id),
  columns: [
    ['ID', (syncRun) => syncRun.id],
    ['KIND', (syncRun) => syncRun.kind],
    ['REASON', (syncRun) => syncRun.reason],
    ['STARTED', (syncRun) => syncRun.started_at],
    ['OUTCOME', (syncRun) => syncRun.outcome ?? 'running'],
    ['PAGES', (syncRun) => syncRun.pages],
    ['SEEN', (syncRun) => syncRun.seen],
    ['INSERTED', (syncRun) => syncRun.inserted],
    ['UPDATED', (syncRun) => syncRun.updated],
    ['DELETED', (syncRun) => syncRun.deleted],
    ['ERROR', (syncRun) => syncRun.error],
  ],
};

export function syncRunsCommand(cli: Cli): Command {
  const syncRuns = new Command('sync-runs').description('full syncs, and what each did: list, show');

  syncRuns
    .command('list')
    .description('full syncs, newest first')
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((options: ListOptions) =>
      withReports(cli, async (store) => {
        writeList(cli, await store.listSyncRuns(pagingOf(options)), options, SYNC_RUNS);
      }),
    );

  syncRuns
    .command('show')
    .description('one full sync')
    .addArgument(fullSyncArgument())
    .addOption(jsonOption())
    .action((id: number, options: { json?: true }) =>
      withReports(cli, async (store) => {
        const syncRun = await store.showSyncRun(id);
        if (syncRun === null) {
          throw new MirrorError('not_found', `no full sync with the id ${id}`, {
            remedy: 'see "sync-runs list"',
          });
        }
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
