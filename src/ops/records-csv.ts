import type { Kind } from '../compliance/kinds.ts';
import { PAGE_LIMIT_MAX, type RecordFilter, type RecordOrder } from '../store/reports.ts';
import type { OpsContext } from './context.ts';
import { csvLine } from './csv.ts';

/** As in the database, in the order of the columns there. */
export const recordColumns = (kind: Kind): readonly string[] => [
  ...['id', 'name', ...(kind === 'policy' ? ['version'] : []), 'status', 'data', 'first_seen_at'],
  ...[
    'synced_at',
    'verified_at',
    'unverified_since',
    'deleted_at',
    'last_event_id',
    'last_event_at',
    'cause',
  ],
];

/**
 * All records that fit, a page in memory at a time and as fast as they are read. For a person's spreadsheet, so that no name is run
 * there as a formula; `export` writes them as they are stored. Ends in an error where the service stops before the last.
 */
export function recordsCsv(
  { store, signal }: Pick<OpsContext, 'store' | 'signal'>,
  kind: Kind,
  filter: RecordFilter,
  order: RecordOrder | undefined,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const columns = recordColumns(kind);
  let head = csvLine(columns, { spreadsheet: false });
  let after: string | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (let lines = head; ; ) {
          signal.throwIfAborted();
          const { items, next } = await store.listRecords(kind, filter, {
            ...{ limit: PAGE_LIMIT_MAX, after, order },
          });
          for (const record of items) {
            const cells = columns.map((column) => record[column as keyof typeof record]);
            lines += csvLine(cells, { spreadsheet: true });
          }
          head = '';
          after = next ?? undefined;
          if (lines !== '') controller.enqueue(encoder.encode(lines));
          if (next === null) return controller.close();
          if (lines !== '') return;
        }
      },
    },
    { highWaterMark: 0 },
  );
}
