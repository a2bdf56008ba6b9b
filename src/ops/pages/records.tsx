import type { Child } from 'hono/jsx';
import type { z } from 'zod';
import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { RecordReport } from '../../store/reports.ts';
import { queries } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import { count, figure, kindNoun, kindPlural, sentenceCase } from '../words.ts';
import { ActionForm, anyOf, Button, Filters } from './controls.tsx';
import type { List } from './list-page.tsx';
import { type Column, Instant, NO_NAME, nameOr, RecordId, Tabs, Word } from './pieces.tsx';
import { Verified } from './record-page.tsx';

const filters = queries.records.omit({ limit: true, after: true, typed: true, at: true });

type Filter = z.output<typeof filters>;

export const recordsList = (context: OpsContext, kind: Kind): List<typeof filters, RecordReport> => ({
  name: 'Records',
  title: sentenceCase(kindPlural(kind)),
  note: 'What the tables hold, as last written, deleted records too.',
  noun: ['record', 'records'],
  filters,
  cursor: queries.records.shape.after.unwrap(),
  read: (filter, paging) => context.store.list('records', { kind, ...filter, ...paging }),
  async head(filter) {
    const { items } = await context.store.list('statuses', { kind, limit: STATUSES_LISTED });
    const statuses = items.map(({ status }) => status);
    return (
      <>
        <Tabs
          label="Kinds"
          tabs={KINDS.map((each) => ({
            href: `/records/${each}`,
            words: kindPlural(each),
            isShown: each === kind,
          }))}
        />
        {filtersOf(kind, statuses, filter)}
        {filter.deletion_pending ? await pendingSection(context, kind) : null}
      </>
    );
  },
  columns: [
    ['Id', ({ id }) => <RecordId kind={kind} id={id} />],
    ['Name', (record) => nameOr(record, NO_NAME), 'full'],
    ...(kind === 'policy' ? [VERSION] : []),
    [
      'Status',
      ({ deleted_at, deletion_pending_since, status }) => {
        if (deleted_at !== null) return <span class="state">deleted</span>;
        return deletion_pending_since === null ? (
          <Word text={status} />
        ) : (
          <span class="warn">deletion pending</span>
        );
      },
      'wide',
    ],
    ['Verified', Verified, 'wide'],
    ['Written', (record) => <Instant at={record.synced_at} />, 'wide'],
  ],
  empty: (isFiltered) =>
    isFiltered
      ? `No matching ${kindPlural(kind)}.`
      : `No ${kindPlural(kind)} yet. They come with the first full sync, or with the first event about one.`,
});

/** Nobody chooses from a longer list. */
const STATUSES_LISTED = 50;

const VERSION: Column<RecordReport> = ['Version', ({ version = null }) => <Word text={version} />];

function filtersOf(kind: Kind, statuses: readonly string[], filter: Filter): Child {
  const { search, status, field, unverified, deleted, deletion_pending } = filter;
  // The chosen status is among them, even if no record has it any more.
  const choices = new Set([...statuses, ...(status === undefined ? [] : [status])]);
  return (
    <Filters
      action={`/records/${kind}`}
      label="Filter"
      fields={[
        ['search', 'Id or name', search],
        ['status', 'Status', status, anyOf([...choices])],
        ['field', 'Field=value', field && `${field.path.join('.')}=${field.value}`, FIELD],
        ['unverified', 'Verified', unverified?.toString(), VERIFIED],
        ['deleted', 'Deleted', deleted?.toString(), LIVE],
        ['deletion_pending', 'Deletion', deletion_pending?.toString(), PENDING],
      ]}
    />
  );
}

const FIELD = { pattern: '[^=]+=.*', title: 'such as owner.team=Legal' };
const VERIFIED = anyOf(['false', 'true'], (value) => (value === 'false' ? 'verified' : 'not yet'));
const LIVE = anyOf(['false', 'true'], (value) => (value === 'false' ? 'live' : 'deleted'));
const PENDING = anyOf(['true', 'false'], (value) => (value === 'true' ? 'pending' : 'not pending'));

/** What a person can say of the pending deletions of a kind, above the list of them. Null: there are none. */
async function pendingSection({ store, clock }: OpsContext, kind: Kind) {
  const pending = await store.pendingOf(kind, clock.wall());
  if (pending.count === 0) return null;
  const reasons = ['pending_deletions'];
  const { items } = await store.list('problems', { open: true, reasons, limit: 10 });
  const problem = items.find((each) => each.kind === kind);
  const { count: waiting, approvedUntil, digest } = pending;
  const records = `${figure(waiting)} ${kindNoun(kind, waiting)}`;
  return (
    <section class="group action_required" id="pending" aria-labelledby="pending-title">
      <h2 id="pending-title">
        {count(waiting, 'deletion')}{' '}
        {approvedUntil === null ? `${waiting === 1 ? 'waits' : 'wait'} for approval` : 'approved'}
      </h2>
      <p class="lead">
        {approvedUntil === null ? (
          'The compliance service does not show these any more, or has announced that they are gone: unusually many, or the last one. Nothing has been deleted here. Check there first that they were really deleted.'
        ) : (
          <>
            The next full sync that proves them gone deletes exactly these. The approval lasts until{' '}
            <Instant at={approvedUntil} />.
          </>
        )}
      </p>
      {problem === undefined ? null : (
        <ActionForm className="approval" body={{ digest }}>
          <label>
            <input type="checkbox" required id="sure" />
            <span>I have looked in the compliance service for the {records} below.</span>
          </label>
          <Button id="approve" formaction={`/api/problems/${problem.id}/approve`} first>
            They are gone: approve the deletion of {records}
          </Button>
          <Button id="keep" formaction={`/api/problems/${problem.id}/keep`}>
            Keep {records}
          </Button>
        </ActionForm>
      )}
    </section>
  );
}
