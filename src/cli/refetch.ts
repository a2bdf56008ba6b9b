import { readFileSync } from 'node:fs';
import { Argument, Command } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { isAddressable, isUsableId, MAX_ID_LENGTH } from '../compliance/pointers.ts';
import { describeError, UsageError } from '../errors.ts';
import type { Cli } from './cli.ts';
import { withOperator } from './operator.ts';
import { parseKind } from './options.ts';

export function refetchCommand(cli: Cli): Command {
  return new Command('refetch')
    .description('read records from the API again; policies, which have no address of their own, by one walk')
    .addArgument(new Argument('<kind>', 'policy, risk_assessment or vendor').argParser(parseKind))
    .argument('[ids...]', 'ids, known to the mirror or not')
    .option('--ids <file>', 'a file with one id a line')
    .action((kind: Kind, ids: string[], options: { ids?: string }) =>
      withOperator(cli, async (operator) => {
        const wanted = checkIds([...ids, ...(options.ids === undefined ? [] : idsIn(options.ids))]);
        await operator.refetch(kind, wanted);
        const count = wanted.length === 1 ? '1 record' : `${wanted.length} records`;
        cli.out.write(
          operator.service
            ? `${count} will be read again now.\n`
            : `${count} will be read again as soon as the service runs.\n`,
        );
      }),
    );
}

function idsIn(path: string): string[] {
  try {
    return readFileSync(path, 'utf8')
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line !== '');
  } catch (error) {
    throw new UsageError(`cannot read the ids in ${path}: ${describeError(error)}`);
  }
}

function checkIds(ids: readonly string[]): string[] {
  if (ids.length === 0) throw new UsageError('no ids given', 'name them, or a file with --ids');
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
