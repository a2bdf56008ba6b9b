import type { PendingDeletionReport, SyncRunReport } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import type { RunningSyncRun } from '../context.ts';
import type { PendingOfSyncRun } from '../pending-deletions.ts';
import { codeWords, count, figure, kindPlural } from '../words.ts';
import { DifferencesDetails } from './differences-details.tsx';
import { recordHref } from './hrefs.ts';
import { Frame } from './layout.tsx';
import { ActionForm, Facts, Instant, Pager, Title, Told } from './pieces.tsx';
import { Running } from './sync-runs-tile.tsx';

export interface PendingOnPage extends Pick<PendingOfSyncRun, 'waiting' | 'approved' | 'digest'> {
  /** One page of both. */
  shown: readonly PendingDeletionReport[];
}

export function SyncRunPage({
  syncRun,
  running,
  pending,
  identity,
  now,
  told,
  next,
  first,
}: {
  syncRun: SyncRunReport;
  running: RunningSyncRun | null;
  pending: PendingOnPage | null;
  identity: Identity;
  now: number;
  told: string | null;
  next: string | null;
  first: string | null;
}) {
  return (
    <Frame title={`Sync run ${syncRun.id}`} current="Sync runs" identity={identity} now={now}>
      <Title>
        Sync run {syncRun.id} of the {kindPlural(syncRun.kind)}
      </Title>
      <Told text={told} />
      {running === null ? null : (
        <div class="running">
          <Running syncRun={running} />
        </div>
      )}
      <Facts
        facts={[
          ['Why', codeWords(syncRun.reason)],
          ['Began', <Instant at={syncRun.started_at} now={now} />],
          [
            'Ended',
            syncRun.finished_at === null ? 'not yet' : <Instant at={syncRun.finished_at} now={now} />,
          ],
          ['Outcome', syncRun.outcome === null ? 'under way' : codeWords(syncRun.outcome)],
          syncRun.error === null ? null : ['Error', <span class="warn">{syncRun.error}</span>],
          ['Read', `${count(syncRun.seen, 'record')} on ${count(syncRun.pages, 'page')}`],
          [
            'Wrote',
            `${figure(syncRun.inserted)} new, ${figure(syncRun.updated)} changed, ${figure(syncRun.deleted)} deleted; ${figure(syncRun.unchanged)} as they were`,
          ],
        ]}
      />
      {pending === null ? null : <PendingDeletions {...{ syncRun, pending, identity, now, next, first }} />}
      <h2>Differences</h2>
      <p class="lead">What differed although no delivery had announced it.</p>
      <DifferencesDetails kind={syncRun.kind} differences={syncRun.differences} />
    </Frame>
  );
}

function PendingDeletions({
  syncRun,
  pending,
  identity,
  now,
  next,
  first,
}: {
  syncRun: SyncRunReport;
  pending: PendingOnPage;
  identity: Identity;
  now: number;
  next: string | null;
  first: string | null;
}) {
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
            The approval lasts until <Instant at={until} now={now} />.
          </>
        ) : null}
      </p>
      <ul class="ids pending" aria-label="Pending deletions">
        {pending.shown.map(({ kind, id }) => (
          <li>
            <a href={recordHref(kind, id)}>
              <code>{id}</code>
            </a>
          </li>
        ))}
      </ul>
      {next !== null || first !== null ? (
        <p class="note">
          {figure(pending.shown.length)} of {figure(pending.waiting + pending.approved)} stand on this page.
        </p>
      ) : null}
      <Pager next={next} first={first} words="More of them" />
      {pending.waiting > 0 && identity.role === 'operate' ? (
        <ActionForm action="/actions/approve-deletions" csrf={identity.csrf} className="approval">
          <input type="hidden" name="digest" value={pending.digest ?? ''} />
          <label>
            <input type="checkbox" name="sure" value="yes" required id="sure" />
            <span>
              I have made sure that these {figure(pending.waiting)} {kindPlural(syncRun.kind)} are gone from
              the compliance service.
            </span>
          </label>
          <button class="button first" id="approve" type="submit">
            Approve {count(pending.waiting, 'deletion')}
          </button>
        </ActionForm>
      ) : null}
    </section>
  );
}
