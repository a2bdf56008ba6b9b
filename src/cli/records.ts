import { Argument, type Command } from 'commander';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { idInPath } from '../ops/api/ids.ts';
import { MirrorError } from '../platform/errors.ts';
import type { Cli } from './cli.ts';
import { listCommand, type Row, showCommand } from './lists.ts';
import { found, type Service } from './service.ts';
import { AUDIT, historyOf, recordsOf } from './things.ts';

const kindArgument = () => new Argument('<kind>', 'of the records').choices(KINDS);
const idArgument = () => new Argument('<id>', 'as listed');

export function recordsCommand(cli: Cli): Command {
  const list = (name: string, description: string) =>
    listCommand<[Kind]>(cli, name, description, [kindArgument()], recordsOf, recordsOf('policy'));
  const records = list('records', 'mirrored records of a kind');
  records.addCommand(list('list', 'the same as without “list”'));
  const show = showCommand<[Kind, string]>(cli, 'one record, whole', [kindArgument(), idArgument()], read);
  records.addCommand(show);
  const history = listCommand<[Kind, string]>(
    cli,
    'history',
    'what changed in a record, and what caused it, newest first',
    [kindArgument(), idArgument()],
    historyOf,
    historyOf('policy', ''),
  );
  return records.addCommand(history);
}

async function read(service: Service, kind: Kind, id: string): Promise<Row> {
  const row = await found(service.get<Row>(`records/${kind}/${idInPath(id)}`));
  if (row !== null) return row;
  throw new MirrorError('not_found', `the mirror holds no ${kind} with the id ${id}`, {
    remedy: `see “records ${kind}”; “sync ${kind} ${id}” reads it from the API`,
  });
}

export const auditCommand = (cli: Cli): Command =>
  listCommand(
    cli,
    'audit',
    'who changed what, sign-ins and rejected credentials, newest first',
    [],
    () => AUDIT,
    AUDIT,
  );
