import type { SyncRunReport } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import type { RunningSyncRun } from '../context.ts';
import { HELD_SHOWN, type HeldUnderSyncRun } from '../held.ts';
import { recordHref } from '../hrefs.ts';
import { codeWords, count, figure, kindPlural } from '../words.ts';
import { DifferencesDetails } from './differences-details.tsx';
import { Frame } from './layout.tsx';
import { ActionForm, Facts, Instant, Pager, Title, Told } from './pieces.tsx';
import { Running } from './sync-runs-tile.tsx';

export function SyncRunPage({
  syncRun,
  running,
  held,
  identity,
  now,
  told,
  next,
  first,
}: {
  syncRun: SyncRunReport;
  running: RunningSyncRun | null;
  held: HeldUnderSyncRun;
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
      {held.waiting + held.consented === 0 ? null : (
        <PendingDeletions {...{ syncRun, held, identity, now, next, first }} />
      )}
      <h2>Differences</h2>
      <p class="lead">What differed although no delivery had announced it.</p>
      <DifferencesDetails kind={syncRun.kind} differences={syncRun.differences} />
    </Frame>
  );
}

function PendingDeletions({
  syncRun,
  held,
  identity,
  now,
  next,
  first,
}: {
  syncRun: SyncRunReport;
  held: HeldUnderSyncRun;
  identity: Identity;
  now: number;
  next: string | null;
  first: string | null;
}) {
  const until = held.shown.find(({ consent_until }) => consent_until !== null)?.consent_until ?? null;
  return (
    <section class="group action_required" id="held" aria-labelledby="held-title">
      <h2 id="held-title">
        {held.waiting > 0
          ? `${count(held.waiting, 'deletion')} ${held.waiting === 1 ? 'awaits' : 'await'} consent`
          : `${count(held.consented, 'deletion')} consented to`}
      </h2>
      <p class="lead">
        {held.waiting > 0
          ? 'These are gone from the compliance service’s list, and they are too many to believe without a person. Nothing has been deleted here. Make sure of it there first.'
          : 'The next proof that they are gone deletes exactly these.'}
        {held.consented > 0 && until !== null ? (
          <>
            {' '}
            The consent holds until <Instant at={until} now={now} />.
          </>
        ) : null}
      </p>
      <ul class="ids held" aria-label="Pending deletions">
        {held.shown.map(({ kind, id }) => (
          <li>
            <a href={recordHref(kind, id)}>
              <code>{id}</code>
            </a>
          </li>
        ))}
      </ul>
      {held.waiting + held.consented > HELD_SHOWN ? (
        <p class="note">
          {figure(HELD_SHOWN)} of {figure(held.waiting + held.consented)} stand on this page.
        </p>
      ) : null}
      <Pager next={next} first={first} words="More of them" />
      {held.waiting > 0 && identity.role === 'operate' ? (
        <ActionForm action="/actions/approve-deletions" csrf={identity.csrf} className="consent">
          <input type="hidden" name="sync_run" value={String(syncRun.id)} />
          <input type="hidden" name="ids" value={held.digest} />
          <label>
            <input type="checkbox" name="sure" value="yes" required id="sure" />
            <span>
              I have made sure that these {figure(held.waiting)} {kindPlural(syncRun.kind)} are gone from the
              compliance service.
            </span>
          </label>
          <button class="button first" id="consent" type="submit">
            Consent to {count(held.waiting, 'deletion')}
          </button>
        </ActionForm>
      ) : null}
    </section>
  );
}
