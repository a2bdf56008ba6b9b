import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { Command } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { idLines, isAddressable, isUsableId, MAX_ID_LENGTH } from '../compliance/pointers.ts';
import { type ApiClient, answered, changed } from '../ops/api/client.ts';
import { digestOf, isApproved } from '../ops/pending-deletions.ts';
import { kindPlural } from '../ops/words.ts';
import { describeError, MirrorError, UsageError } from '../platform/errors.ts';
import { PAGE_LIMIT_MAX } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { listing, notFound } from './lists.ts';
import { withApi } from './ops-api.ts';
import { kindArgument, rowId } from './options.ts';
import { printable } from './text.ts';

export function refetchCommand(cli: Cli): Command {
  return new Command('refetch')
    .description(
      'read records from the API again; policies, which have no address of their own, by one list scan',
    )
    .addArgument(kindArgument())
    .argument('[ids...]', 'ids, known to the mirror or not; none: all known records of the kind')
    .option('--ids <file>', 'a file with one id a line; # begins a comment line')
    .action((kind: Kind, ids: string[], options: { ids?: string }) =>
      withApi(cli, 'change', async (api) => {
        const given = [...ids, ...(options.ids === undefined ? [] : idsIn(options.ids))];
        // An empty file is a mistake, and must not be taken for a request for everything.
        const isAll = ids.length === 0 && options.ids === undefined;
        const wanted = isAll ? [] : checkIds(given);
        const { service } = await answered(api.status.$get());
        const isServed = service.state !== 'stopped';
        // A service reads everything when it starts.
        if (isAll && isServed) await answered(api['sync-runs'].$post({ json: { kinds: [kind] } }));
        for (let at = 0; at < wanted.length; at += PAGE_LIMIT_MAX) {
          const json = { ids: wanted.slice(at, at + PAGE_LIMIT_MAX) };
          await answered(api.records[':kind'].refetch.$post({ param: { kind }, json }));
        }
        const what = isAll
          ? `All ${kindPlural(kind)}`
          : wanted.length === 1
            ? '1 record'
            : `${wanted.length} records`;
        let when = 'now';
        if (!isServed) when = 'as soon as the service runs';
        else if (service.paused) when = 'after "resume": the mirror is paused';
        cli.out.write(`${what} will be read again ${when}.\n`);
      }),
    );
}

function idsIn(path: string): string[] {
  try {
    return idLines(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new UsageError(`cannot read the ids in ${path}: ${describeError(error)}`);
  }
}

function checkIds(ids: readonly string[]): string[] {
  if (ids.length === 0)
    throw new UsageError(
      'the file of --ids holds no id',
      'without ids and without --ids, all of the kind is read',
    );
  const unusable = ids.find((id): boolean => !isUsableId(id));
  if (unusable !== undefined) {
    throw new UsageError(
      `"${unusable.slice(0, 40)}" cannot be a record's id`,
      `ids have 1 to ${MAX_ID_LENGTH} characters and no control characters`,
    );
  }
  if (!ids.every(isAddressable)) {
    throw new UsageError('"." and ".." cannot be asked for: no path can carry them', 'leave them out');
  }
  return [...new Set(ids)];
}

export function pauseCommand(cli: Cli): Command {
  return new Command('pause')
    .description('stop processing and repairs, across restarts too; deliveries are still received and kept')
    .action(() =>
      withApi(cli, 'change', async (api) => {
        await answered(api.pause.$post());
        cli.out.write('Paused. Deliveries are still received and kept.\n');
      }),
    );
}

export function resumeCommand(cli: Cli): Command {
  return new Command('resume').description('end a pause').action(() =>
    withApi(cli, 'change', async (api) => {
      await answered(api.resume.$post());
      const { service } = await answered(api.status.$get());
      cli.out.write(
        service.state === 'stopped' ? 'Resumed: the service will work when it next starts.\n' : 'Resumed.\n',
      );
    }),
  );
}

export function deletionsCommand(cli: Cli): Command {
  const deletions = new Command('deletions').description('deletions that wait for a person: list, approve');

  const list = deletions
    .command('list')
    .description('pending deletions, and approved ones that wait for their proof, by kind and id');
  listing(cli, list, {
    read: (api, { limit, after }) => answered(api.deletions.$get({ query: { limit, after } })),
    // biome-ignore format: names side by side
    columns: [
      'sync_run_id', 'kind', 'id', 'name', 'status', ['LAST CHANGE', 'synced_at'], 'pending_since', 'approved_until',
    ],
  });

  deletions
    .command('approve')
    .description('approve exactly the deletions that one full sync found, for one hour')
    .addArgument(rowId('number of the full sync'))
    .option('--yes <digest>', 'do not ask: approve exactly the ids that were shown with this digest')
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
        const { paused } = (await answered(api.status.$get())).service;
        const proof = paused ? 'the next proof, which begins after "resume",' : 'the next proof';
        cli.out.write(`Approved for one hour, ${proof} deletes these:\n${indented(approved.done.ids)}`);
      }),
    );

  return deletions;
}

interface DeletionsToApprove {
  ids: string[];
  /** Names exactly these ids. */
  digest: string;
}

/** The deletions of a sync run that wait for approval; null: none. Rejects if they change while the pages are read. */
async function pendingOf(api: ApiClient, syncRunId: number): Promise<DeletionsToApprove | null> {
  const ids: string[] = [];
  let first: { kind: Kind; digest: string | null } | undefined;
  for (let after: string | undefined; ; ) {
    const query = { sync_run: syncRunId, limit: PAGE_LIMIT_MAX, after };
    const { sync_runs, items, next } = await answered(api.deletions.$get({ query }));
    first ??= sync_runs[0];
    if (first === undefined || first.digest === null) return null;
    const now = Date.now();
    const waiting = items.filter((item) => !isApproved(item.approved_until, now));
    ids.push(...waiting.map((item) => item.id));
    if (next === null) {
      // The list may have changed between the pages, and the clocks may differ. Only exactly what is shown may be approved.
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

/** Shows what waits and asks for approval. @throws UsageError if there is nobody to ask. */
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
