import { createInterface } from 'node:readline/promises';
import { Command } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { type ApiClient, answered, changed } from '../ops/api/client.ts';
import { digestOf } from '../ops/pending-deletions.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { PAGE_LIMIT_MAX, type PendingDeletionReport } from '../store/reports.ts';
import type { Cli, Columns } from './cli.ts';
import { listing, notFound } from './lists.ts';
import { withApi } from './ops-api.ts';
import { rowId } from './options.ts';
import { printable } from './text.ts';

const DELETIONS: Columns<PendingDeletionReport> = [
  ...(['sync_run_id', 'kind', 'id', 'name', 'status'] as const),
  ...([['LAST CHANGE', 'synced_at'], 'pending_since', 'approved_until'] as const),
];

export function deletionsCommand(cli: Cli): Command {
  const deletions = new Command('deletions').description('deletions that wait for a person: list, approve');

  listing(
    cli,
    deletions
      .command('list')
      .description('which wait, or are approved and wait for their proof, by kind and id'),
    DELETIONS,
    (api, { limit, after }) => answered(api.deletions.$get({ query: { limit, after } })),
  );

  deletions
    .command('approve')
    .description('approve exactly the deletions that one full sync found, for one hour')
    .addArgument(rowId('number of the full sync'))
    .option('--yes <digest>', 'without being asked: exactly the ids that were shown with this digest')
    .action((id: number, options: { yes?: string }) =>
      withApi(cli, 'change', async (api) => {
        const pending = await pendingOf(api, id);
        if (pending === null) {
          throw notFound(`no deletions of full sync ${id} wait for approval`, 'deletions list');
        }
        if (options.yes === undefined) await askFor(cli, id, pending);
        else if (options.yes !== pending.digest) throw deletionsChanged(id);
        const approved = await changed(api.deletions.approve.$post({ json: { digest: pending.digest } }));
        if (approved === null || 'whyNot' in approved) throw deletionsChanged(id);
        cli.out.write(`Approved for one hour, the next proof deletes these:\n${indented(approved.done.ids)}`);
      }),
    );

  return deletions;
}

interface DeletionsToApprove {
  ids: string[];
  /** Names exactly these ids. */
  digest: string;
}

/** Null: nothing that this sync run found waits. The digest is the first page's: what changes after it is rejected with it. */
async function pendingOf(api: ApiClient, syncRunId: number): Promise<DeletionsToApprove | null> {
  const ids: string[] = [];
  let first: { kind: Kind; digest: string | null } | undefined;
  for (let after: string | undefined; ; ) {
    const query = { sync_run: syncRunId, limit: PAGE_LIMIT_MAX, after };
    const { sync_runs, items, next } = await answered(api.deletions.$get({ query }));
    first ??= sync_runs[0];
    if (first === undefined || first.digest === null) return null;
    const now = Date.now();
    const waiting = items.filter((item) => !(Date.parse(item.approved_until ?? '') > now));
    ids.push(...waiting.map((item) => item.id));
    if (next === null) {
      // Asked page by page, and judged by two clocks: what is approved is what was shown, or nothing.
      if (digestOf(first.kind, ids) !== first.digest) throw deletionsChanged(syncRunId);
      return { ids, digest: first.digest };
    }
    after = next;
  }
}

function deletionsChanged(syncRunId: number): MirrorError {
  return new MirrorError('deletions_changed', 'the pending deletions have changed since they were shown', {
    remedy: `look at them again: deletions approve ${syncRunId}`,
  });
}

/** Shows what waits, and asks. Where nobody can be asked, nothing is approved. */
async function askFor(cli: Cli, syncRunId: number, { ids, digest }: DeletionsToApprove): Promise<void> {
  cli.out.write(`Found by full sync ${syncRunId}, gone upstream as far as can be seen:\n${indented(ids)}`);
  if (!cli.err.isTerminal || process.stdin.isTTY !== true) {
    const command = `deletions approve ${syncRunId} --yes ${digest}`;
    throw new UsageError('nothing is approved yet', `to approve exactly these ids: ${command}`);
  }
  using lines = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await lines.question(`Delete these ${ids.length} here as well? Type yes to approve: `);
  if (answer.trim() !== 'yes') throw new MirrorError('not_approved', 'nothing is approved');
}

const indented = (ids: readonly string[]) => ids.map((id) => `  ${printable(id)}\n`).join('');
