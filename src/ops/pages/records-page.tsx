import type { Kind } from '../../compliance/kinds.ts';
import {
  type KindStatus,
  type RecordFilter,
  type RecordOrder,
  type RecordReport,
  STATUS_COUNT_MAX,
  type StatusCount,
} from '../../store/reports.ts';
import { NAME_SHOWN_CHARACTERS, shortened } from '../body-text.ts';
import { figure, kindPlural } from '../words.ts';
import { Frame, type ListView } from './layout.tsx';
import { Choice, Empty, Field, Instant, Pager, Table, Title } from './pieces.tsx';
import { recordHref } from './query.ts';

export interface RecordsView extends ListView {
  kind: Kind;
  /** With how many are held of each; none where that could not be read. */
  kinds: readonly KindStatus[];
  statuses: readonly StatusCount[];
  filter: RecordFilter;
  order: RecordOrder | undefined;
  records: readonly RecordReport[];
  /** The page ended there, before its rows were full. Null: it did not. */
  searchedTo: string | null;
  /** Where all that fit can be had. */
  csv: string;
}

const yesNo = (value: boolean | undefined) => (value === undefined ? undefined : value ? 'yes' : 'no');

export function RecordsPage(view: RecordsView) {
  const { kind, kinds, filter, records, searchedTo } = view;
  const name = kindPlural(kind);
  const title = name.charAt(0).toUpperCase() + name.slice(1);
  return (
    <Frame title={title} current="Records">
      <Title note="What the tables hold, as last written.">{title}</Title>
      <nav class="tabs" aria-label="Kinds">
        <ul>
          {kinds.map((each) => (
            <li>
              <a href={`/records/${each.kind}`} {...(each.kind === kind ? { 'aria-current': 'true' } : {})}>
                {kindPlural(each.kind)} <span class="quiet">{figure(each.records)}</span>
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <Filters {...view} />
      {records.length === 0 ? (
        <Empty>{emptyWords(view)}</Empty>
      ) : (
        <Table
          label={title}
          rows={records}
          columns={[
            [
              'Id',
              ({ id }) => (
                <a href={recordHref(kind, id)}>
                  <code>{id}</code>
                </a>
              ),
            ],
            [
              'Name',
              ({ name }) =>
                name === null ? <span class="quiet">no name</span> : shortened(name, NAME_SHOWN_CHARACTERS),
              'full',
            ],
            ...(kind === 'policy' ? [['Version', (record: RecordReport) => record.version] as const] : []),
            [
              'Status',
              (record) => (record.deleted_at === null ? record.status : <span class="state">deleted</span>),
              'wide',
            ],
            ['Verified', (record) => <Verified record={record} />, 'wide'],
            ['Written', (record) => <Instant at={record.synced_at} />, 'wide'],
          ]}
        />
      )}
      <p class="note" role="status">
        {searchedTo === null ? null : (
          <>
            This page searched to <code>{searchedTo}</code>. There are more records.{' '}
          </>
        )}
        {filter.deleted === undefined ? 'Deleted ones are among them. ' : ''}
        {view.order === 'changed' ? 'Those whose last change is trimmed are not. ' : ''}
        <a href={view.csv} download>
          Download them as CSV
        </a>
      </p>
      <Pager next={view.next} first={view.first} words={searchedTo === null ? 'More' : 'Search further'} />
    </Frame>
  );
}

function Filters({ kind, statuses, filter, order }: RecordsView) {
  const { field } = filter;
  return (
    <form class="filters" method="get" action={`/records/${kind}`} aria-label="Filter">
      <Field name="search" label="Id or name" value={filter.search} />
      <Choice
        name="status"
        label="Status"
        value={filter.status}
        options={[
          ['', 'any'],
          ...statuses.map(({ status, records }): [string, string] => [
            status,
            `${status} (${figure(records)}${records === STATUS_COUNT_MAX ? '+' : ''})`,
          ]),
        ]}
      />
      <Field
        name="field"
        label="Field=value"
        value={field === undefined ? undefined : `${field.path.join('.')}=${field.value}`}
      />
      <Choice
        name="unverified"
        label="Verified"
        value={yesNo(filter.unverified)}
        options={[
          ['', 'any'],
          ['no', 'verified'],
          ['yes', 'not yet'],
        ]}
      />
      <Choice
        name="deleted"
        label="Deleted"
        value={yesNo(filter.deleted)}
        options={[
          ['', 'any'],
          ['no', 'live'],
          ['yes', 'deleted'],
        ]}
      />
      <Choice
        name="order"
        label="Order"
        value={order}
        options={[
          ['', 'by id'],
          ['name', 'by name'],
          ['changed', 'last changed first'],
        ]}
      />
      <button class="button" type="submit">
        Show
      </button>
    </form>
  );
}

function emptyWords({ kind, filter, searchedTo }: RecordsView): string {
  if (searchedTo !== null) return 'No record like that among these.';
  return Object.values(filter).some((value) => value !== undefined)
    ? `None of the ${kindPlural(kind)} is like that.`
    : `No ${kindPlural(kind)} yet. They come with the first full sync, or with the first event about one.`;
}

export function Verified({ record }: { record: RecordReport }) {
  if (record.unverified_since !== null) {
    return (
      <span class="state pending">
        not since <Instant at={record.unverified_since} />
      </span>
    );
  }
  return record.verified_at === null ? (
    <span class="quiet">never, known from payloads</span>
  ) : (
    <Instant at={record.verified_at} />
  );
}
