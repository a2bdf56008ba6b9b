import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { RecordReport } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import { kindPlural } from '../words.ts';
import { recordHref } from './hrefs.ts';
import { Frame } from './layout.tsx';
import { Choice, Empty, Field, Instant, Pager, Table, Title } from './pieces.tsx';

export interface RecordsView {
  kind: Kind;
  identity: Identity;
  now: number;
  filter: { search?: string | undefined; unverified?: boolean | undefined; deleted?: boolean | undefined };
  records: readonly RecordReport[];
  next: string | null;
  first: string | null;
}

const yesNo = (value: boolean | undefined) => (value === undefined ? undefined : value ? 'yes' : 'no');

export function RecordsPage({ kind, identity, now, filter, records, next, first }: RecordsView) {
  const name = kindPlural(kind);
  const title = name.charAt(0).toUpperCase() + name.slice(1);
  return (
    <Frame title={title} current="Records" identity={identity} now={now} wide>
      <Title note="What the tables hold, as last written.">{title}</Title>
      <nav class="tabs" aria-label="Kinds">
        <ul>
          {KINDS.map((each) => (
            <li>
              <a href={`/records/${each}`} {...(each === kind ? { 'aria-current': 'true' } : {})}>
                {kindPlural(each)}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <form class="filters" method="get" action={`/records/${kind}`} aria-label="Filter">
        <Field name="search" label="Id or name begins with" value={filter.search} />
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
        <button class="button" type="submit">
          Show
        </button>
      </form>
      {records.length === 0 ? (
        <Empty>
          {Object.values(filter).some((value) => value !== undefined)
            ? `None of the ${name} is like that.`
            : `No ${name} yet. They come with the first full sync, or with the first event about one.`}
        </Empty>
      ) : (
        <Table
          label={title}
          head={['Id', 'Name', ...(kind === 'policy' ? ['Version'] : []), 'Status', 'Verified', 'Written']}
        >
          {records.map((record) => (
            <tr>
              <th scope="row">
                <a href={recordHref(kind, record.id)}>
                  <code>{record.id}</code>
                </a>
              </th>
              <td class="full" data-label="Name">
                {record.name ?? <span class="quiet">no name</span>}
              </td>
              {kind === 'policy' ? <td data-label="Version">{record.version}</td> : null}
              <td class="wide" data-label="Status">
                {record.deleted_at === null ? record.status : <span class="state discarded">deleted</span>}
              </td>
              <td class="wide" data-label="Verified">
                <Verified record={record} now={now} />
              </td>
              <td class="wide" data-label="Written">
                <Instant at={record.synced_at} now={now} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Pager next={next} first={first} words="More" />
    </Frame>
  );
}

export function Verified({ record, now }: { record: RecordReport; now: number }) {
  if (record.unverified_since !== null) {
    return (
      <span class="state pending">
        not since <Instant at={record.unverified_since} now={now} />
      </span>
    );
  }
  return record.verified_at === null ? (
    <span class="quiet">never, known from payloads</span>
  ) : (
    <Instant at={record.verified_at} now={now} />
  );
}
