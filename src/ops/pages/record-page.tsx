import type { Kind } from '../../compliance/kinds.ts';
import { recordIdOf } from '../../compliance/pointers.ts';
import type { ChangeReport, RecordReport } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { found } from '../api/answers.ts';
import { idFromPath } from '../api/ids.ts';
import { queries } from '../api/query.ts';
import { FIELDS_SHOWN, fieldChanges, NAME_SHOWN_CHARACTERS, shortened } from '../body-text.ts';
import type { OpsContext } from '../context.ts';
import { kindNoun } from '../words.ts';
import { ActionButton } from './controls.tsx';
import type { Content } from './layout.tsx';
import { Cause, Empty, EventLink, Facts, Instant, nameOr, Pager, quiet, Table, Text } from './pieces.tsx';
import { linksOf, PAGE_ROWS, pageQuery, pathWith, pendingHref } from './query.ts';

const query = queries.byNumber.pick({ after: true });

export async function recordPage(
  { store, facts }: OpsContext,
  kind: Kind,
  c: OpsHandlerContext,
): Promise<Content> {
  const id = recordIdOf(idFromPath(c.req.param('id') ?? ''));
  const { after } = pageQuery(c, query);
  const record = found(await store.show('records', { kind, id }), 'There is no record of this kind and id.');
  const { items: changes, next } = await store.list('changes', {
    kind,
    record_id: id,
    limit: PAGE_ROWS,
    after,
  });
  const isWhole = changes.at(-1)?.operation === 'insert';
  const links = linksOf(c, isWhole ? null : next);
  const about: Facts = [
    ['Status', shortened(record.status ?? 'none', NAME_SHOWN_CHARACTERS)],
    kind === 'policy' && ['Version', shortened(record.version ?? 'none', NAME_SHOWN_CHARACTERS)],
    record.deleted_at !== null && ['Deleted', <Instant at={record.deleted_at} />],
    record.deletion_pending_since !== null && [
      'Deletion pending',
      <>
        since <Instant at={record.deletion_pending_since} /> · <a href={pendingHref(kind)}>decide</a>
      </>,
    ],
    ['Verified', <Verified {...record} />],
    record.read_error !== null && ['Last read', `failed: ${shortened(record.read_error)}`],
    ['First seen', <Instant at={record.first_seen_at} />],
    [
      'Last written',
      <>
        <Instant at={record.synced_at} />, by <Cause {...record} />
      </>,
    ],
    record.last_event_id !== null && ['Last event', <EventLink id={record.last_event_id} />],
    ['Deliveries about it', <a href={pathWith('/deliveries', { kind, record_id: id })}>show them</a>],
  ];
  return {
    title: nameOr(record, id),
    note: (
      <>
        {kindNoun(kind, 1)} <code>{id}</code>
      </>
    ),
    current: 'Records',
    body: (
      <>
        <Facts facts={about} />
        {facts().service.events_only ? null : (
          <ActionButton action="/api/syncs" className="actions" body={{ kind, ids: [id] }}>
            Fetch it again
          </ActionButton>
        )}
        <h2>Data</h2>
        <Text text={JSON.stringify(record.data)} label="Data" />
        <h2>History</h2>
        {changes.map((change) => (
          <Change change={change} />
        ))}
        {links.next === null && !isWhole ? (
          <Empty>No earlier change is kept. Those older than RETENTION_HISTORY_DAYS are trimmed.</Empty>
        ) : null}
        <Pager {...links} words="Earlier changes" />
      </>
    ),
  };
}

const OPERATIONS = {
  insert: 'Appeared',
  update: 'Changed',
  delete: 'Deleted',
  restore: 'Came back',
} as const;

export function Change({ change }: { change: ChangeReport }) {
  const fields = fieldChanges(change.before, change.after);
  return (
    <article class="change">
      <h3>
        {OPERATIONS[change.operation]}{' '}
        <small>
          <Instant at={change.at} precise />, by <Cause {...change} />, change {change.seq}
        </small>
      </h3>
      {fields.length === 0 ? (
        <p class="note">No field differs.</p>
      ) : (
        <Table
          label={`Fields of change ${change.seq}`}
          rows={fields.slice(0, FIELDS_SHOWN)}
          columns={[
            ['Field', ({ field }) => shortened(field)],
            ['Before', ({ before }) => <Value value={before} />, 'half'],
            ['After', ({ after }) => <Value value={after} />, 'half'],
          ]}
        />
      )}
      {fields.length > FIELDS_SHOWN ? (
        <p class="note">{fields.length - FIELDS_SHOWN} more fields are in the API.</p>
      ) : null}
    </article>
  );
}

function Value({ value }: { value: string | null }) {
  return value === null ? quiet('not there') : <code>{shortened(value)}</code>;
}

export function Verified({ unverified_since, verified_at }: RecordReport) {
  return unverified_since === null ? (
    <Instant at={verified_at} otherwise={quiet('never, known from payloads')} />
  ) : (
    <span class="state pending">
      <span>
        not since <Instant at={unverified_since} />
      </span>
    </span>
  );
}
