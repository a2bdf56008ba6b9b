import { z } from 'zod';
import type { Kind } from '../../compliance/kinds.ts';
import type { ChangeReport, RecordReport } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { nextKey } from '../api/answers.ts';
import { FIELDS_SHOWN, fieldChanges, NAME_SHOWN_CHARACTERS, shortened } from '../body-text.ts';
import type { OpsContext } from '../context.ts';
import { kindNoun } from '../words.ts';
import { type Answers, missing } from './answers.tsx';
import { Text } from './body.tsx';
import { Frame } from './layout.tsx';
import { ActionForm, Cause, Empty, EventLink, Facts, Instant, Pager, Table, Title } from './pieces.tsx';
import { idText, type Links, linksOf, numberCursor, PAGE_ROWS, recordHref } from './query.ts';

const query = z.strictObject({ after: numberCursor.optional(), id: idText });

export const recordPage =
  (context: OpsContext, { paged }: Answers) =>
  (c: OpsHandlerContext, kind: Kind, id: string): Promise<Response> =>
    paged(query, async (c, { after }) => {
      const { store, facts } = context;
      const record = await store.showRecord(kind, id);
      if (record === null) return missing('There is no record of this kind and id.');
      const changes = await store.recordHistory(kind, id, { limit: PAGE_ROWS, after });
      const next = nextKey(changes, PAGE_ROWS, (change) => change.seq);
      const { eventsOnly } = facts();
      return <RecordPage {...{ kind, record, changes, eventsOnly, ...linksOf(c, next) }} />;
    })(c);

function RecordPage({
  kind,
  record,
  changes,
  eventsOnly,
  next,
  first,
}: Links & {
  kind: Kind;
  record: RecordReport;
  changes: readonly ChangeReport[];
  eventsOnly: boolean;
}) {
  const events = `/events?${new URLSearchParams({ kind, record_id: record.id })}`;
  return (
    <Frame title={shortened(record.name ?? record.id, NAME_SHOWN_CHARACTERS)} current="Records">
      <Title
        note={
          <>
            {kindNoun(kind, 1)} <code>{record.id}</code>
          </>
        }
      >
        {shortened(record.name ?? record.id, NAME_SHOWN_CHARACTERS)}
      </Title>
      <Facts
        facts={[
          ['Status', record.status ?? 'none'],
          kind === 'policy' ? ['Version', record.version ?? 'none'] : null,
          record.deleted_at === null ? null : ['Deleted', <Instant at={record.deleted_at} />],
          ['Verified', <Verified record={record} />],
          ['First seen', <Instant at={record.first_seen_at} />],
          [
            'Last written',
            <>
              <Instant at={record.synced_at} />, by <Cause cause={record.cause} />
            </>,
          ],
          record.last_event_id === null ? null : ['Last event', <EventLink id={record.last_event_id} />],
          ['Events about it', <a href={events}>show them</a>],
        ]}
      />
      {!eventsOnly ? (
        <ActionForm action="/actions/refetch" className="actions">
          <input type="hidden" name="kind" value={kind} />
          <input type="hidden" name="id" value={record.id} />
          <input type="hidden" name="back" value={recordHref(kind, record.id)} />
          <button class="button" type="submit">
            Fetch it again
          </button>
        </ActionForm>
      ) : null}
      <h2>Data</h2>
      <Text text={JSON.stringify(record.data)} label="Data" />
      <h2>History</h2>
      {changes.length === 0 ? (
        <Empty>No change is kept. Those older than RETENTION_HISTORY_DAYS are trimmed.</Empty>
      ) : (
        changes.map((change) => <Change change={change} />)
      )}
      <Pager next={next} first={first} words="Earlier changes" />
    </Frame>
  );
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
          <Instant at={change.at} precise />, by <Cause cause={change.cause} />, change {change.seq}
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
  return value === null ? <span class="quiet">not there</span> : <code>{shortened(value)}</code>;
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
