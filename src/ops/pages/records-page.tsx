import type { Child } from 'hono/jsx';
import { z } from 'zod';
import type { Kind } from '../../compliance/kinds.ts';
import {
  type RecordFilter,
  type RecordOrder,
  type RecordReport,
  STATUS_COUNT_MAX,
  type StatusCount,
} from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { queries } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import { recordsCsv } from '../csv.ts';
import type { Snapshots } from '../snapshot.ts';
import { figure, kindPlural, sentenceCase } from '../words.ts';
import { anyOf, Filters } from './controls.tsx';
import { ListPage } from './list-page.tsx';
import { type Column, Instant, NO_NAME, nameOr, quiet, RecordId, Table, Tabs, Word } from './pieces.tsx';
import { kindAt, linksOf, PAGE_ROWS, pageQuery } from './query.ts';
import { Verified } from './record-page.tsx';

const yesOrNo = z
  .enum(['yes', 'no'])
  .transform((answer) => answer === 'yes')
  .optional();

const query = queries.records.omit({ limit: true }).extend({
  unverified: yesOrNo,
  deleted: yesOrNo,
});

export async function recordsPage(
  { store, snapshots }: OpsContext & { snapshots: Snapshots },
  c: OpsHandlerContext,
): Promise<Child> {
  const kind = kindAt(c);
  const { after, order, ...filter } = pageQuery(c, query);
  const [{ items, next, searched_to: searchedTo }, statuses, { summary }] = await Promise.all([
    store.listRecords(kind, filter, { limit: PAGE_ROWS, after, order }),
    store.listStatuses(kind),
    snapshots.current(),
  ]);
  const links = linksOf(c, next);
  const { pathname, search } = new URL(c.req.url);
  const title = sentenceCase(kindPlural(kind));
  return (
    <ListPage
      {...links}
      name="Records"
      title={title}
      note="What the tables hold, as last written."
      form={
        <>
          <Tabs
            label="Kinds"
            tabs={(summary?.kinds ?? []).map((each) => ({
              href: `/records/${each.kind}`,
              words: [`${kindPlural(each.kind)} `, quiet(figure(each.records))],
              isShown: each.kind === kind,
            }))}
          />
          {filtersOf(kind, statuses, filter, order)}
        </>
      }
      empty={items.length === 0 ? emptyWords(kind, filter, searchedTo) : null}
      foot={
        <p class="note" role="status">
          {searchedTo === null ? null : (
            <>
              This page searched to <code>{searchedTo}</code>. There are more records.{' '}
            </>
          )}
          {filter.deleted === undefined ? 'Deleted records are shown too. ' : ''}
          {order === 'changed' ? 'Records whose last change was trimmed are not shown. ' : ''}
          <a href={`/download${links.first ?? pathname + search}`} download>
            Download them as CSV
          </a>
        </p>
      }
      more={searchedTo === null ? 'More' : 'Search further'}
    >
      <Table
        label={title}
        rows={items}
        columns={[
          ['Id', ({ id }) => <RecordId kind={kind} id={id} />],
          ['Name', (record) => nameOr(record, NO_NAME), 'full'],
          ...(kind === 'policy' ? [VERSION] : []),
          [
            'Status',
            ({ deleted_at, status }) => (deleted_at === null ? <Word text={status} /> : DELETED),
            'wide',
          ],
          ['Verified', Verified, 'wide'],
          ['Written', (record) => <Instant at={record.synced_at} />, 'wide'],
        ]}
      />
    </ListPage>
  );
}

/** All records of the page's filters, as CSV. */
export function recordsDownload(context: OpsContext, c: OpsHandlerContext): Response {
  const kind = kindAt(c);
  const { after: _, order, ...filter } = pageQuery(c, query);
  const lines = ReadableStream.from(recordsCsv(context, kind, filter, order));
  return new Response(lines.pipeThrough(new TextEncoderStream()), {
    headers: {
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': `attachment; filename="${kindPlural(kind).replaceAll(' ', '-')}.csv"`,
    },
  });
}

const VERSION: Column<RecordReport> = ['Version', ({ version = null }) => <Word text={version} />];
const DELETED = <span class="state">deleted</span>;

const yesNo = (value: boolean | undefined) => (value === undefined ? undefined : value ? 'yes' : 'no');

function filtersOf(
  kind: Kind,
  statuses: readonly StatusCount[],
  filter: RecordFilter,
  order: RecordOrder | undefined,
) {
  const { field } = filter;
  const records = new Map(statuses.map((each) => [each.status, each.records]));
  // The chosen status is among them, even if no record has it any more.
  const choices = new Set([...records.keys(), ...(filter.status === undefined ? [] : [filter.status])]);
  const statusWords = (status: string) => {
    const number = records.get(status);
    if (number === undefined) return status;
    return `${status} (${figure(number)}${number === STATUS_COUNT_MAX ? '+' : ''})`;
  };
  return (
    <Filters
      action={`/records/${kind}`}
      label="Filter"
      fields={[
        ['search', 'Id or name', filter.search],
        ['status', 'Status', filter.status, anyOf([...choices], statusWords)],
        ['field', 'Field=value', field && `${field.path.join('.')}=${field.value}`, FIELD],
        ['unverified', 'Verified', yesNo(filter.unverified), VERIFIED],
        ['deleted', 'Deleted', yesNo(filter.deleted), LIVE],
        ['order', 'Order', order, ORDERS],
      ]}
    />
  );
}

const FIELD = { pattern: '[^=]+=.*', title: 'such as owner.team=Legal' };
const VERIFIED = anyOf(['no', 'yes'], (value) => (value === 'no' ? 'verified' : 'not yet'));
const LIVE = anyOf(['no', 'yes'], (value) => (value === 'no' ? 'live' : 'deleted'));
const ORDERS = [
  ['', 'by id'],
  ['name', 'by name'],
  ['changed', 'last changed first'],
] as const;

function emptyWords(kind: Kind, filter: RecordFilter, searchedTo: string | null): string {
  if (searchedTo !== null) return 'No matching record among these.';
  return Object.values(filter).some((value) => value !== undefined)
    ? `No matching ${kindPlural(kind)}.`
    : `No ${kindPlural(kind)} yet. They come with the first full sync, or with the first event about one.`;
}
