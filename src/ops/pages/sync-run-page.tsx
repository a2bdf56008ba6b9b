import { z } from 'zod';
import type { Kind } from '../../compliance/kinds.ts';
import { type PendingDeletionReport, pendingDeletionKey, type SyncRunReport } from '../../store/reports.ts';
import { nextKey } from '../api/answers.ts';
import { shortened } from '../body-text.ts';
import type { OpsContext, RunningSyncRun } from '../context.ts';
import { type PendingOfSyncRun, pendingBySyncRun } from '../pending-deletions.ts';
import { codeWords, count, figure, kindNoun, kindPlural } from '../words.ts';
import { type Answers, missing } from './answers.tsx';
import { Frame } from './layout.tsx';
import { ActionForm, Facts, Instant, Pager, Table, Title, useVisit } from './pieces.tsx';
import { type Links, linksOf, recordHref, rowNumber, TEXT_MAX_LENGTH } from './query.ts';
import { DifferencesDetails, Running, tookWords } from './sync-runs.tsx';

/** Ids of pending deletions on one page. */
const PENDING_SHOWN = 200;

const query = z.strictObject({
  // The kind is before the id.
  after: z
    .string()
    .max(TEXT_MAX_LENGTH + 100)
    .optional(),
});

export const syncRunPage = (context: OpsContext, { paged }: Answers) =>
  paged(query, async (c, { after }) => {
    const { store, clock, facts } = context;
    const id = rowNumber(c.req.param('id'));
    const syncRun = id === null ? null : await store.show('sync_runs', id);
    if (syncRun === null) return missing('There is no full sync of this number.');
    const [pending] = await pendingBySyncRun(store, clock.wall(), syncRun.id);
    const shown =
      pending === undefined
        ? []
        : await store.listPendingDeletions({ syncRunId: syncRun.id }, { limit: PENDING_SHOWN, after });
    return (
      <SyncRunPage
        {...{ syncRun, ...linksOf(c, nextKey(shown, PENDING_SHOWN, pendingDeletionKey)) }}
        running={facts().runningSyncRuns.find((each) => each.id === syncRun.id) ?? null}
        pending={pending === undefined ? null : { ...pending, shown }}
      />
    );
  });

interface PendingOnPage extends Pick<PendingOfSyncRun, 'waiting' | 'approved' | 'digest'> {
  /** One page of both. */
  shown: readonly PendingDeletionReport[];
}

function SyncRunPage({
  syncRun,
  running,
  pending,
  next,
  first,
}: Links & { syncRun: SyncRunReport; running: RunningSyncRun | null; pending: PendingOnPage | null }) {
  return (
    <Frame title={`Sync run ${syncRun.id}`} current="Sync runs">
      <Title>
        Sync run {syncRun.id} of the {kindPlural(syncRun.kind)}
      </Title>
      {running === null ? null : <Running syncRuns={[running]} />}
      <Facts
        facts={[
          ['Why', codeWords(syncRun.reason)],
          ['Began', <Instant at={syncRun.started_at} precise />],
          ['Ended', syncRun.finished_at === null ? 'not yet' : <Instant at={syncRun.finished_at} precise />],
          syncRun.finished_at === null ? null : ['Took', tookWords(syncRun)],
          [
            'Outcome',
            <span class={`state ${syncRun.outcome}`}>{codeWords(syncRun.outcome ?? 'under way')}</span>,
          ],
          syncRun.error === null ? null : ['Error', <span class="warn">{syncRun.error}</span>],
          ['Read', `${count(syncRun.seen, 'record')} on ${count(syncRun.pages, 'page')}`],
          [
            'Wrote',
            `${figure(syncRun.inserted)} new, ${figure(syncRun.updated)} changed, ${figure(syncRun.deleted)} deleted; ${figure(syncRun.unchanged)} as they were`,
          ],
        ]}
      />
      {pending === null ? null : <PendingDeletions {...{ syncRun, pending, next, first }} />}
      <h2>Differences</h2>
      <p class="lead">What differed although no delivery had announced it.</p>
      <DifferencesDetails kind={syncRun.kind} differences={syncRun.differences} />
    </Frame>
  );
}

const isApproved = (until: string | null, now: number) => until !== null && Date.parse(until) > now;

/** So many records are named in the sentence; the others are counted. */
const NAMED = 3;

function namedWords(kind: Kind, { shown, waiting }: PendingOnPage, now: number): string {
  const names = shown
    .filter(({ approved_until }) => !isApproved(approved_until, now))
    .slice(0, NAMED)
    .map(({ name, id }) => `“${shortened(name ?? id, 60)}”`);
  const others = waiting - names.length;
  const all = [...names, ...(others > 0 ? [count(others, 'other')] : [])];
  const verb = waiting === 1 ? 'is' : 'are';
  return `the ${kindNoun(kind, waiting)} ${new Intl.ListFormat('en').format(all)} ${verb}`;
}

function PendingDeletions({
  syncRun,
  pending,
  next,
  first,
}: Links & { syncRun: SyncRunReport; pending: PendingOnPage }) {
  const { now } = useVisit();
  const until = pending.shown.find(({ approved_until }) => approved_until !== null)?.approved_until ?? null;
  return (
    <section class="group action_required" id="pending" aria-labelledby="pending-title">
      <h2 id="pending-title">
        {pending.waiting > 0
          ? `${count(pending.waiting, 'deletion')} ${pending.waiting === 1 ? 'waits' : 'wait'} for approval`
          : `${count(pending.approved, 'deletion')} approved`}
      </h2>
      <p class="lead">
        {pending.waiting > 0
          ? 'These are gone from the compliance service’s list, and they are too many to believe without a person. Nothing has been deleted here. Make sure of it there first.'
          : 'The next proof that they are gone deletes exactly these.'}
        {pending.approved > 0 && until !== null ? (
          <>
            {' '}
            The approval lasts until <Instant at={until} />.
          </>
        ) : null}
      </p>
      <Table
        label="Pending deletions"
        rows={pending.shown}
        columns={[
          [
            'Id',
            ({ kind, id }) => (
              <a href={recordHref(kind, id)}>
                <code>{id}</code>
              </a>
            ),
          ],
          ['Name', ({ name }) => name ?? <span class="quiet">no name</span>, 'full'],
          ['Status', ({ status }) => status, 'wide'],
          ['Last change', ({ synced_at: at }) => at && <Instant at={at} />, 'wide'],
          [
            'Approval',
            ({ approved_until }) =>
              isApproved(approved_until, now) ? (
                <span class="state complete">approved</span>
              ) : (
                <span class="state pending">waits</span>
              ),
            'wide',
          ],
        ]}
      />
      {next !== null || first !== null ? (
        <p class="note">
          {figure(pending.shown.length)} of {figure(pending.waiting + pending.approved)} stand on this page.
        </p>
      ) : null}
      <Pager next={next} first={first} words="More of them" />
      {pending.waiting > 0 ? (
        <ActionForm action="/actions/approve-deletions" className="approval">
          <input type="hidden" name="digest" value={pending.digest ?? ''} />
          <label>
            <input type="checkbox" name="sure" value="yes" required id="sure" />
            <span>
              I have made sure that {namedWords(syncRun.kind, pending, now)} gone from the compliance service.
            </span>
          </label>
          <button class="button first" id="approve" type="submit">
            Approve the deletion of {figure(pending.waiting)} {kindNoun(syncRun.kind, pending.waiting)}
          </button>
        </ActionForm>
      ) : null}
    </section>
  );
}
