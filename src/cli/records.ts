import { Command, Option } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import type { JsonObject } from '../compliance/pointers.ts';
import { type ApiClient, answered, atRecord, found } from '../ops/api/client.ts';
import { MirrorError } from '../platform/errors.ts';
import {
  type ChangeReport,
  PAGE_LIMIT_MAX,
  type RecordOrder,
  type RecordReport,
  recordKey,
} from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { type ListPage, listing, notFound, showing } from './lists.ts';
import { kindArgument, parseInstant } from './options.ts';

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

  const list = records
    .command('list')
    .description('records of a kind')
    .addArgument(kindArgument())
    .option('--search <text>', 'only ids that begin with it, and names that contain it')
    .option('--status <status>', 'only those with this status')
    .option('--field <name=value>', 'only those with this value in a field of their data: owner.team=Legal')
    .addOption(
      new Option('--order <order>', 'changed: the last change first').choices(['id', 'name', 'changed']),
    )
    .option('--unverified', 'only those that the API has not confirmed yet')
    .option('--deleted', 'only the deleted')
    .addOption(
      new Option('--at <instant>', 'as they were then, from the history: 2026-11-01T12:00:00Z')
        .argParser(parseInstant)
        .conflicts(['search', 'status', 'field', 'order', 'unverified']),
    );
  listing(cli, list, {
    async read(
      api,
      { limit, after },
      options: RecordFilter,
      kind: Kind,
    ): Promise<ListPage<Partial<RecordReport>>> {
      const { search, status, field, order, unverified, deleted, at } = options;
      if (at !== undefined) return await recordsAt(api, kind, at, { limit, after, deleted });
      const flag = (isSet?: true): 'true' | undefined => (isSet ? 'true' : undefined);
      const filter = { search, status, field, order, unverified: flag(unverified), deleted: flag(deleted) };
      const query = { ...filter, limit, after };
      return await answered(api.records[':kind'].$get({ param: { kind }, query }));
    },
    columns: ({ at }) =>
      at === undefined
        ? ['id', 'name', 'status', 'verified_at', 'deleted_at', 'unverified_since', 'synced_at', 'cause']
        : ['id', 'name', 'version', 'status', 'deleted_at', 'data'],
  });

  const show = records.command('show').description('one record, whole').addArgument(kindArgument());
  showing(cli, show.argument('<id>'), RECORD, (api, kind, id) =>
    found(api.records[':kind'][':id'].$get(atRecord(kind, id))),
  );

  const history = records
    .command('history')
    .description('what changed in a record, and what caused it, newest first')
    .addArgument(kindArgument())
    .argument('<id>');
  listing(cli, history, {
    async read(api, { limit, after }, _, kind: Kind, id: string) {
      const query = { limit, after };
      const page = await found(api.records[':kind'][':id'].history.$get({ ...atRecord(kind, id), query }));
      if (page === null) throw notFound(RECORD.missing(kind, id), 'records list');
      return page;
    },
    columns: ['seq', 'at', 'operation', 'cause', 'before', 'after'],
    note: (changes) =>
      changes.at(-1)?.operation === 'insert'
        ? null
        : 'No earlier change is kept. Those older than RETENTION_HISTORY_DAYS are trimmed.',
  });

  return records;
}

/** A record as it was at an instant. */
type PastRecord = Pick<RecordReport, 'id' | 'name' | 'version' | 'status' | 'data' | 'deleted_at'>;

/** The record as it was at `instant` (ISO 8601 UTC); null: it did not exist. Undoes `changes`, at least the later ones. Pure. */
export function recordAt(
  record: RecordReport,
  changes: readonly ChangeReport[],
  instant: string,
): PastRecord | null {
  const { id, name, status, data, deleted_at } = record;
  const version = 'version' in record ? { version: record.version ?? null } : {};
  let past: PastRecord = { id, name, ...version, status, data, deleted_at };
  for (const change of changes.filter((one) => one.at > instant).toSorted((a, b) => b.seq - a.seq)) {
    if (change.operation === 'insert') return null;
    past = withoutChange(past, change);
  }
  return past;
}

function withoutChange(row: PastRecord, change: ChangeReport): PastRecord {
  const { data: dataBefore = {}, ...columns } = change.before as JsonObject & { data?: JsonObject };
  const dataAfter = (change.after['data'] ?? {}) as JsonObject;
  const data = new Map(Object.entries(row.data));
  for (const field of Object.keys(dataAfter)) data.delete(field);
  for (const [field, value] of Object.entries(dataBefore)) data.set(field, value);
  return { ...row, ...columns, data: Object.fromEntries(data) };
}

/** At most so many a page: each needs its history, which takes 40 ms among millions of changes. */
const PAST_AT_ONCE = 25;

/** A page of a kind's records as they were at `instant`, by id. Rejects if the history of that time has been trimmed. */
export async function recordsAt(
  api: ApiClient,
  kind: Kind,
  instant: string,
  { limit, after, deleted }: { limit: number; after?: string | undefined; deleted?: boolean | undefined },
): Promise<ListPage<PastRecord>> {
  const most = Math.min(limit, PAST_AT_ONCE);
  const { trimmed } = await answered(api.snapshot.$get({ query: { limit: 1 } }));
  if (trimmed !== null && trimmed.at > instant) {
    throw new MirrorError('not_kept', `the history is kept since ${trimmed.at} only`, {
      remedy: 'RETENTION_HISTORY_DAYS says how long; what was trimmed cannot be had back',
    });
  }
  const items: PastRecord[] = [];
  for (let from = after; ; ) {
    const page = await answered(
      api.records[':kind'].$get({ param: { kind }, query: { limit, after: from } }),
    );
    for (const record of page.items) {
      const past = await pastOf(api, kind, record, instant);
      if (past === null || (deleted && past.deleted_at === null)) continue;
      items.push(past);
      if (items.length === most) return { items, next: recordKey(past.id), searched_to: past.id };
    }
    if (page.next === null) return { items, next: null };
    from = page.next;
  }
}

async function pastOf(
  api: ApiClient,
  kind: Kind,
  record: RecordReport,
  instant: string,
): Promise<PastRecord | null> {
  if (record.first_seen_at > instant) return null;
  // The row was not written since then, so there is nothing to undo.
  if (record.synced_at <= instant) return recordAt(record, [], instant);
  const changes: ChangeReport[] = [];
  for (let after: string | undefined; ; ) {
    const query = { limit: PAGE_LIMIT_MAX, after };
    const some = await answered(
      api.records[':kind'][':id'].history.$get({ ...atRecord(kind, record.id), query }),
    );
    changes.push(...some.items);
    if (some.next === null || some.items.at(-1)!.at <= instant) return recordAt(record, changes, instant);
    after = some.next;
  }
}
