import { Argument, Command, Option } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { type ApiClient, answered, atRecord, found } from '../ops/api/client.ts';
import { type MirrorError, UsageError } from '../platform/errors.ts';
import type { ChangeReport, RecordOrder, RecordReport } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { type ListView, notFound, writeList, writeOne } from './lists.ts';
import { withApi } from './ops-api.ts';
import {
  afterOption,
  jsonOption,
  type ListOptions,
  limitOption,
  pagingOf,
  parseInstant,
  parseKind,
} from './options.ts';
import { type PastRecord, recordsAt } from './records-at.ts';

const RECORDS: ListView<RecordReport> = [
  ['ID', (record) => record.id],
  ['NAME', (record) => record.name],
  ['STATUS', (record) => record.status],
  ['VERIFIED', (record) => record.verified_at],
  ['DELETED', (record) => record.deleted_at],
  ['UNVERIFIED SINCE', (record) => record.unverified_since],
  ['SYNCED', (record) => record.synced_at],
  ['CAUSE', (record) => record.cause],
];

const HISTORY: ListView<ChangeReport> = [
  ['SEQ', (change) => change.seq],
  ['AT', (change) => change.at],
  ['OPERATION', (change) => change.operation],
  ['CAUSE', (change) => change.cause],
  ['BEFORE', (change) => JSON.stringify(change.before)],
  ['AFTER', (change) => JSON.stringify(change.after)],
];

const PAST: ListView<PastRecord> = [
  ['ID', (record) => record.id],
  ['NAME', (record) => record.name],
  ['VERSION', (record) => record.version],
  ['STATUS', (record) => record.status],
  ['DELETED', (record) => record.deleted_at],
  ['DATA', (record) => JSON.stringify(record.data)],
];

interface RecordFilter extends ListOptions {
  search?: string;
  status?: string;
  field?: string;
  order?: RecordOrder;
  unverified?: true;
  deleted?: true;
  at?: string;
}

export function recordsCommand(cli: Cli): Command {
  const records = new Command('records').description('mirrored records: list, show, history');

  records
    .command('list')
    .description('records of a kind')
    .addArgument(kindArgument())
    .option('--search <text>', 'only ids that begin so and names that hold it')
    .option('--status <status>', 'only those of this status')
    .option('--field <name=value>', 'only those with this value in a field of their data: owner.team=Legal')
    .addOption(
      new Option('--order <order>', 'changed: the last change first').choices(['id', 'name', 'changed']),
    )
    .option('--unverified', 'only those that the API has still to confirm')
    .option('--deleted', 'only the deleted')
    .addOption(
      new Option('--at <instant>', 'as they were then, from the history: 2026-11-01T12:00:00Z').argParser(
        parseInstant,
      ),
    )
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((kind: Kind, options: RecordFilter) =>
      withApi(cli, 'read', async (api) => {
        if (options.at !== undefined) {
          await listPast(cli, api, kind, { ...options, at: options.at });
          return;
        }
        const query = {
          ...{ ...pagingOf(options), search: options.search, status: options.status },
          ...{ field: options.field, order: options.order },
          ...(options.unverified ? { unverified: 'true' as const } : {}),
          ...(options.deleted ? { deleted: 'true' as const } : {}),
        };
        writeList(
          cli,
          await answered(api.records[':kind'].$get({ param: { kind }, query })),
          options,
          RECORDS,
        );
      }),
    );

  records
    .command('show')
    .description('one record, whole')
    .addArgument(kindArgument())
    .argument('<id>')
    .addOption(jsonOption())
    .action((kind: Kind, id: string, options: { json?: true }) =>
      withApi(cli, 'read', async (api) => {
        const record = await found(api.records[':kind'][':id'].$get(atRecord(kind, id)));
        if (record === null) throw noSuchRecord(kind, id);
        writeOne(cli, record, options);
      }),
    );

  records
    .command('history')
    .description('what changed in a record, and what caused it, newest first')
    .addArgument(kindArgument())
    .argument('<id>')
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((kind: Kind, id: string, options: ListOptions) =>
      withApi(cli, 'read', async (api) => {
        const query = pagingOf(options);
        const changes = await found(
          api.records[':kind'][':id'].history.$get({ ...atRecord(kind, id), query }),
        );
        if (changes === null) throw noSuchRecord(kind, id);
        writeList(cli, changes, options, HISTORY);
      }),
    );

  return records;
}

async function listPast(
  cli: Cli,
  api: ApiClient,
  kind: Kind,
  options: RecordFilter & { at: string },
): Promise<void> {
  if (options.search !== undefined || options.unverified) {
    throw new UsageError('--at goes with neither --search nor --unverified', 'they speak of the present');
  }
  const { limit, after, deleted } = options;
  writeList(cli, await recordsAt(api, kind, options.at, { limit, after, deleted }), options, PAST);
}

function kindArgument(): Argument {
  return new Argument('<kind>', 'policy, risk_assessment or vendor').argParser(parseKind);
}

function noSuchRecord(kind: Kind, id: string): MirrorError {
  return notFound(`the mirror holds no ${kind} with the id ${id}`, 'records list');
}
