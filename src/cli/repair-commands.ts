import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { isAddressable, isUsableId, MAX_ID_LENGTH } from '../compliance/pointers.ts';
import { answered } from '../ops/api/client.ts';
import { describeError, UsageError } from '../platform/errors.ts';
import { PAGE_LIMIT_MAX } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { withApi } from './ops-api.ts';
import { kindArgument } from './options.ts';

export function refetchCommand(cli: Cli): Command {
  return new Command('refetch')
    .description(
      'read records from the API again; policies, which have no address of their own, by one list scan',
    )
    .addArgument(kindArgument())
    .argument('[ids...]', 'ids, known to the mirror or not; none: all that is known of the kind')
    .option('--ids <file>', 'a file with one id a line; # begins a comment line')
    .action((kind: Kind, ids: string[], options: { ids?: string }) =>
      withApi(cli, 'change', async (api) => {
        const given = [...ids, ...(options.ids === undefined ? [] : idsIn(options.ids))];
        // An empty file is a mistake somewhere else, and must not become a request for everything.
        const isAll = ids.length === 0 && options.ids === undefined;
        const wanted = isAll ? [] : checkIds(given);
        const { service } = await answered(api.status.$get());
        const isServed = service.state !== 'stopped';
        // A service that starts reads everything anyway.
        if (isAll && isServed) await answered(api['sync-runs'].$post({ json: { kinds: [kind] } }));
        for (let at = 0; at < wanted.length; at += PAGE_LIMIT_MAX) {
          const json = { ids: wanted.slice(at, at + PAGE_LIMIT_MAX) };
          await answered(api.records[':kind'].refetch.$post({ param: { kind }, json }));
        }
        const what = isAll ? `All of ${kind}` : wanted.length === 1 ? '1 record' : `${wanted.length} records`;
        const when = !isServed
          ? 'as soon as the service runs'
          : service.paused
            ? 'after "resume": the mirror is paused'
            : 'now';
        cli.out.write(`${what} will be read again ${when}.\n`);
      }),
    );
}

function idsIn(path: string): string[] {
  try {
    return (
      readFileSync(path, 'utf8')
        .split(/\r?\n/)
        .map((line) => line.trim())
        // As in RISK_IDS_FILE: one file may serve for both.
        .filter((line) => line !== '' && !line.startsWith('#'))
    );
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
  return new Command('resume').description('go on after a pause').action(() =>
    withApi(cli, 'change', async (api) => {
      await answered(api.resume.$post());
      const { service } = await answered(api.status.$get());
      cli.out.write(
        service.state === 'stopped' ? 'Resumed: the service will work when it next starts.\n' : 'Resumed.\n',
      );
    }),
  );
}
