import { z } from 'zod';
import { KINDS, type Kind } from '../../compliance/kinds.ts';
import { describeError } from '../../platform/errors.ts';
import type { SyncRunReport } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { nextKey } from '../api/answers.ts';
import type { OpsContext } from '../context.ts';
import type { Compared, Operations } from '../operations.ts';
import type { Snapshot, Snapshots } from '../snapshot.ts';
import { count, kindPlural } from '../words.ts';
import type { Answers } from './answers.tsx';
import { Frame } from './layout.tsx';
import { ActionForm, Ago, Empty, Pager, Title } from './pieces.tsx';
import { type Links, linksOf, numberCursor, PAGE_ROWS } from './query.ts';
import { DifferencesDetails, Running, SyncRuns } from './sync-runs.tsx';

export function syncRunsPages(
  { store }: OpsContext,
  snapshots: Snapshots,
  dryRuns: DryRuns,
  { paged, parts }: Answers,
) {
  const view = async (c: OpsHandlerContext, after?: string): Promise<SyncRunsView> => {
    const syncRuns = await store.list('sync_runs', { limit: PAGE_ROWS, after });
    const next = nextKey(syncRuns, PAGE_ROWS, ({ id }) => id);
    const snapshot = await snapshots.current();
    return { syncRuns, snapshot, dryRun: dryRuns.current(), ...linksOf(c, next) };
  };
  return {
    page: paged(z.strictObject({ after: numberCursor.optional() }), async (c, { after }) => (
      <SyncRunsPage {...(await view(c, after))} />
    )),
    stream: async (c: OpsHandlerContext) => parts(c, 'Sync runs', <SyncRunsParts {...(await view(c))} />),
  };
}

interface SyncRunsView extends Links {
  snapshot: Snapshot;
  syncRuns: readonly SyncRunReport[];
  dryRun: DryRun;
}

function SyncRunsPage(view: SyncRunsView) {
  const { snapshot, first } = view;
  return (
    <Frame title="Sync runs" current="Sync runs" stream={first === null ? '/stream/sync-runs' : null}>
      <Title note="A full sync compares every record of a kind with the compliance service, and repairs what differs.">
        Sync runs
      </Title>
      {snapshot.live.eventsOnly ? null : <Start />}
      <SyncRunsParts {...view} />
    </Frame>
  );
}

/** What the stream sends. */
function SyncRunsParts({ snapshot, syncRuns, dryRun, next, first }: SyncRunsView) {
  const { live, pending } = snapshot;
  const running = new Set(live.runningSyncRuns.map((syncRun) => syncRun.id));
  const ended = syncRuns.filter((syncRun) => !running.has(syncRun.id));
  return (
    <>
      <section class="group" data-part="running" aria-label="Running now">
        {pending.map(({ syncRunId, kind, count: waiting }) => (
          <p class="told action_required">
            <a href={`/sync-runs/${syncRunId}#pending`}>
              {count(waiting, 'deletion')} of {kindPlural(kind)} {waiting === 1 ? 'waits' : 'wait'} for
              approval
            </a>
          </p>
        ))}
        {live.runningSyncRuns.length === 0 ? (
          <Empty>
            {live.eventsOnly
              ? 'There are no API credentials, so there is nothing to compare with.'
              : 'None is running now. One begins at the start, on the timer, and whenever it is asked for.'}
          </Empty>
        ) : (
          <Running syncRuns={live.runningSyncRuns} />
        )}
        <LastDryRun dryRun={dryRun} />
      </section>
      <section class="group" data-part="ended" aria-label="Ended">
        <h2>Ended</h2>
        {ended.length === 0 ? (
          <Empty>None has ended yet. What each found different will stand here.</Empty>
        ) : (
          <SyncRuns label="Ended full syncs" syncRuns={ended} />
        )}
        <Pager next={next} first={first} words="Older full syncs" />
      </section>
    </>
  );
}

function Start() {
  return (
    <ActionForm action="/actions/sync-runs" className="filters">
      <fieldset>
        <legend>Which kinds</legend>
        {KINDS.map((kind) => (
          <label class="tick">
            <input type="checkbox" name="kind" value={kind} checked />
            <span>{kindPlural(kind)}</span>
          </label>
        ))}
      </fieldset>
      <button class="button" type="submit" name="do" value="sync" id="start">
        Full sync now
      </button>
      <button class="button" type="submit" name="do" value="compare" id="compare">
        Dry run: compare only
      </button>
    </ActionForm>
  );
}

function LastDryRun({ dryRun }: { dryRun: DryRun }) {
  if (dryRun.state === 'none') return null;
  if (dryRun.state === 'running') {
    const kinds = dryRun.kinds.map((kind: Kind) => kindPlural(kind)).join(', ');
    return (
      <div class="running">
        <div>
          <p id="dry-run">Dry run: comparing the {kinds}. Nothing is written.</p>
          <progress aria-labelledby="dry-run" />
        </div>
      </div>
    );
  }
  const ended = <Ago at={dryRun.endedAt} />;
  if (dryRun.state === 'failed') {
    return (
      <p class="told action_required">
        The dry run failed {ended}: {dryRun.error}
      </p>
    );
  }
  return (
    <section class="dry-run" aria-labelledby="dry-run-title">
      <h2 id="dry-run-title">
        Dry run <small>{ended}; nothing was written</small>
      </h2>
      {dryRun.compared.map(({ kind, ...differences }) => (
        <>
          <h3>{kindPlural(kind)}</h3>
          <DifferencesDetails kind={kind} differences={differences} dry />
        </>
      ))}
    </section>
  );
}

/** The last dry run started on the page. Instants are wall-clock milliseconds. */
type DryRun =
  | { state: 'none' }
  | { state: 'running'; kinds: readonly Kind[]; startedAt: number }
  | { state: 'done'; endedAt: number; compared: readonly Compared[] }
  | { state: 'failed'; endedAt: number; error: string };

export interface DryRuns {
  current(): DryRun;
  /** Starts one, unless one is running. */
  start(kinds: readonly Kind[]): void;
}

/** The request budget makes a dry run too long for a browser to wait for: it runs alone, and the page shows its result. */
export function createDryRuns(
  operations: Pick<Operations, 'dryRun'>,
  { clock, signal, logger }: Pick<OpsContext, 'clock' | 'signal' | 'logger'>,
): DryRuns {
  let last: DryRun = { state: 'none' };

  async function compare(kinds: readonly Kind[]): Promise<DryRun> {
    try {
      const done = await operations.dryRun([...kinds], signal);
      const endedAt = clock.wall();
      if (done.status === 'done') return { state: 'done', endedAt, compared: done.value };
      const error = done.status === 'conflict' ? done.detail : 'There is nothing to compare.';
      return { state: 'failed', endedAt, error };
    } catch (error) {
      logger.warn({ outcome: 'failed', error: describeError(error) }, 'dry run');
      return { state: 'failed', endedAt: clock.wall(), error: describeError(error) };
    }
  }

  return {
    current: () => last,
    start(asked) {
      if (last.state === 'running') return;
      const kinds = asked.length === 0 ? KINDS : asked;
      last = { state: 'running', kinds, startedAt: clock.wall() };
      // `compare` never rejects.
      void compare(kinds).then((outcome) => {
        last = outcome;
      });
    },
  };
}
