import type { Child } from 'hono/jsx';
import { type PendingDeletionReport, pendingDeletionKey } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { nextKey } from '../api/answers.ts';
import { queries } from '../api/query.ts';
import { shortened } from '../body-text.ts';
import type { OpsContext } from '../context.ts';
import { isApproved, type PendingOfSyncRun, pendingBySyncRun } from '../pending-deletions.ts';
import { codeWords, count, figure, kindNoun, kindPlural } from '../words.ts';
import { ActionForm, Button } from './controls.tsx';
import { Frame } from './layout.tsx';
import {
  Facts,
  Instant,
  NO_NAME,
  nameOr,
  Pager,
  RecordId,
  State,
  Table,
  Title,
  useVisit,
  Word,
} from './pieces.tsx';
import { type Links, linksOf, pageQuery, rowAt } from './query.ts';
import { DifferencesDetails, Running, tookWords } from './sync-runs.tsx';

/** Ids of pending deletions on one page. */
const PENDING_SHOWN = 200;

const query = queries.pendingDeletions.pick({ after: true });

export async function syncRunPage({ store, clock, facts }: OpsContext, c: OpsHandlerContext): Promise<Child> {
  const { after } = pageQuery(c, query);
  const syncRun = await rowAt(c, store, 'sync_runs', 'There is no full sync of this number.');
  const [pending] = await pendingBySyncRun(store, clock.wall(), syncRun.id);
  const shown = await store.listPendingDeletions({ syncRunId: syncRun.id }, { limit: PENDING_SHOWN, after });
  const links = linksOf(c, nextKey(shown, PENDING_SHOWN, pendingDeletionKey));
  const { kind, started_at, finished_at, outcome, error } = syncRun;
  return (
    <Frame title={`Sync run ${syncRun.id}`} current="Sync runs">
      <Title>
        Sync run {syncRun.id} of the {kindPlural(kind)}
      </Title>
      <Running syncRuns={facts().runningSyncRuns.filter((each) => each.id === syncRun.id)} />
      <Facts
        facts={[
          ['Why', codeWords(syncRun.reason)],
          ['Began', <Instant at={started_at} precise />],
          ['Ended', <Instant at={finished_at} precise otherwise="not yet" />],
          finished_at !== null && ['Took', tookWords(syncRun)],
          ['Outcome', <State state={outcome ?? ''} words={codeWords(outcome ?? 'under way')} />],
          error !== null && ['Error', <span class="warn">{error}</span>],
          ['Read', `${count(syncRun.seen, 'record')} on ${count(syncRun.pages, 'page')}`],
          [
            'Wrote',
            `${figure(syncRun.inserted)} new, ${figure(syncRun.updated)} changed, ${figure(syncRun.deleted)} deleted; ${figure(syncRun.unchanged)} unchanged`,
          ],
        ]}
      />
      {pending === undefined ? null : <PendingDeletions {...pending} {...links} shown={shown} />}
      <h2>Differences</h2>
      <p class="lead">What differed although no event had announced it.</p>
      <DifferencesDetails kind={kind} differences={syncRun.differences} />
    </Frame>
  );
}

/** Records that the sentence of the approval names; the others are counted. */
const NAMED = 3;

/** `shown`: one page of them. */
type PendingOnPage = PendingOfSyncRun & { shown: readonly PendingDeletionReport[] };

/** Each name is in `bdi`, so that one that is written from right to left does not reorder the words beside it. */
function Named({ shown, waiting }: Pick<PendingOnPage, 'shown' | 'waiting'>) {
  const { now } = useVisit();
  const names = shown
    .filter(({ approved_until }) => !isApproved(approved_until, now))
    .slice(0, NAMED)
    .map((record) => `“${shortened(nameOr(record, record.id), 60)}”`);
  const others = waiting - names.length;
  const all = [...names, ...(others > 0 ? [count(others, 'other')] : [])];
  const parts = new Intl.ListFormat('en').formatToParts(all);
  return <>{parts.map(({ type, value }) => (type === 'element' ? <bdi>{value}</bdi> : value))}</>;
}

function PendingDeletions({ next, first, ...pending }: Links & PendingOnPage) {
  const { waiting, approved, digest, shown } = pending;
  const { now } = useVisit();
  const until = shown.find(({ approved_until }) => isApproved(approved_until, now))?.approved_until ?? null;
  return (
    <section class="group action_required" id="pending" aria-labelledby="pending-title">
      <h2 id="pending-title">
        {waiting > 0
          ? `${count(waiting, 'deletion')} ${waiting === 1 ? 'waits' : 'wait'} for approval`
          : `${count(approved, 'deletion')} approved`}
      </h2>
      <p class="lead">
        {waiting > 0
          ? 'The compliance service does not show these any more: unusually many, or the last one. Nothing has been deleted here. Check there first that they were really deleted.'
          : 'The next full sync that proves them gone deletes exactly these.'}
        {approved > 0 && until !== null ? (
          <>
            {' '}
            The approval lasts until <Instant at={until} />.
          </>
        ) : null}
      </p>
      <Table
        label="Pending deletions"
        rows={shown}
        columns={[
          ['Id', RecordId],
          ['Name', (record) => nameOr(record, NO_NAME), 'full'],
          ['Status', ({ status }) => <Word text={status} />, 'wide'],
          ['Last change', ({ synced_at }) => <Instant at={synced_at} />, 'wide'],
          ['Approval', ({ approved_until: at }) => (isApproved(at, now) ? APPROVED : WAITS), 'wide'],
        ]}
      />
      {next !== null || first !== null ? (
        <p class="note">
          {figure(shown.length)} of {figure(waiting + approved)} are on this page.
        </p>
      ) : null}
      <Pager next={next} first={first} words="More deletions" />
      {digest === null ? null : <Approval {...pending} digest={digest} />}
    </section>
  );
}

function Approval({ digest, ...pending }: PendingOnPage & { digest: string }) {
  const { kind, waiting } = pending;
  const records = kindNoun(kind, waiting);
  return (
    <ActionForm action="/actions/approve-deletions" className="approval" fields={{ digest }}>
      <label>
        <input type="checkbox" name="sure" value="yes" required id="sure" />
        <span>
          I have made sure that the {records} <Named {...pending} /> {waiting === 1 ? 'is' : 'are'} gone from
          the compliance service.
        </span>
      </label>
      <Button id="approve" first>
        Approve the deletion of {figure(waiting)} {records}
      </Button>
    </ActionForm>
  );
}

const APPROVED = <State state="complete" words="approved" />;
const WAITS = <State state="pending" words="waits" />;
