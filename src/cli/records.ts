import { Command, Option } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { answered, atRecord, found } from '../ops/api/client.ts';
import type { ChangeReport, RecordOrder, RecordReport } from '../store/reports.ts';
import type { Cli, Columns } from './cli.ts';
import { listing, notFound, showing } from './lists.ts';
import { kindArgument, parseInstant } from './options.ts';
import { recordsAt } from './records-at.ts';

const RECORDS: Columns<Partial<RecordReport>> = [
  ...(['id', 'name', 'status', 'verified_at', 'deleted_at'] as const),
  ...(['unverified_since', 'synced_at', 'cause'] as const),
];
const PAST: Columns<Partial<RecordReport>> = ['id', 'name', 'version', 'status', 'deleted_at', 'data'];
const HISTORY: Columns<ChangeReport> = ['seq', 'at', 'operation', 'cause', 'before', 'after'];
const RECORD = {
  group: 'records',
  missing: (kind: Kind, id: string) => `the mirror holds no ${kind} with the id ${id}`,
};

interface RecordFilter {
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

  listing(
    cli,
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
        new Option('--at <instant>', 'as they were then, from the history: 2026-11-01T12:00:00Z')
          .argParser(parseInstant)
          .conflicts(['search', 'status', 'field', 'order', 'unverified']),
      ),
    ({ at }: RecordFilter) => (at === undefined ? RECORDS : PAST),
    async (api, { limit, after }, options, kind: Kind) => {
      const { search, status, field, order, unverified, deleted, at } = options;
      if (at !== undefined) return await recordsAt(api, kind, at, { limit, after, deleted });
      const query = {
        ...{ limit, after, search, status, field, order },
        ...(unverified ? { unverified: 'true' as const } : {}),
        ...(deleted ? { deleted: 'true' as const } : {}),
      };
      return await answered(api.records[':kind'].$get({ param: { kind }, query }));
    },
  );

  showing(
    cli,
    records.command('show').description('one record, whole').addArgument(kindArgument()).argument('<id>'),
    RECORD,
    (api, kind, id) => found(api.records[':kind'][':id'].$get(atRecord(kind, id))),
  );

  listing(
    cli,
    records
      .command('history')
      .description('what changed in a record, and what caused it, newest first')
      .addArgument(kindArgument())
      .argument('<id>'),
    HISTORY,
    async (api, { limit, after }, _, kind: Kind, id: string) => {
      const query = { limit, after };
      const page = await found(api.records[':kind'][':id'].history.$get({ ...atRecord(kind, id), query }));
      if (page === null) throw notFound(RECORD.missing(kind, id), 'records list');
      return page;
    },
  );

  return records;
}
