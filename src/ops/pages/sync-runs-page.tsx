import type { Child } from 'hono/jsx';
import { KINDS } from '../../compliance/kinds.ts';
import type { OpsHandlerContext } from '../access.ts';
import { nextKey } from '../api/answers.ts';
import type { OpsContext } from '../context.ts';
import type { DryRun, DryRuns } from '../dry-runs.ts';
import { pendingWords } from '../pending-deletions.ts';
import type { Snapshots } from '../snapshot.ts';
import { kindPlural } from '../words.ts';
import { ActionForm, Button } from './controls.tsx';
import { Frame } from './layout.tsx';
import { Ago, Empty, Pager, Title } from './pieces.tsx';
import { linksOf, PAGE_ROWS, pageQuery, queryByNumber } from './query.ts';
import { DifferencesDetails, EndedSyncRuns, Running } from './sync-runs.tsx';

export async function syncRunsPage(sources: Sources, c: OpsHandlerContext): Promise<Child> {
  const shown = await read(sources, c, pageQuery(c, queryByNumber).after);
  return (
    <Frame title="Sync runs" current="Sync runs" stream={shown.first === null ? '/stream/sync-runs' : null}>
      <Title note="A full sync compares every record of a kind with the compliance service, and repairs what differs.">
        Sync runs
      </Title>
      {shown.snapshot.live.eventsOnly ? null : <Start />}
      <SyncRunsParts {...shown} />
    </Frame>
  );
}

export async function syncRunsStream(sources: Sources, c: OpsHandlerContext): Promise<Child> {
  return <SyncRunsParts {...(await read(sources, c))} />;
}

interface Sources extends OpsContext {
  snapshots: Snapshots;
  dryRuns: DryRuns;
}

type Shown = Awaited<ReturnType<typeof read>>;

async function read(sources: Sources, c: OpsHandlerContext, after?: string) {
  const { store, snapshots, dryRuns } = sources;
  const syncRuns = await store.list('sync_runs', { limit: PAGE_ROWS, after });
  const next = nextKey(syncRuns, PAGE_ROWS, ({ id }) => id);
  return { syncRuns, snapshot: await snapshots.current(), dryRun: dryRuns.current(), ...linksOf(c, next) };
}

function SyncRunsParts({ snapshot: { live, pending }, syncRuns, dryRun, next, first }: Shown) {
  return (
    <>
      <section class="group" data-part="running" aria-label="Running now">
        {pending.map((each) => (
          <p class="notice action_required">
            <a href={`/sync-runs/${each.sync_run_id}#pending`}>{pendingWords(each)}</a>
          </p>
        ))}
        {live.runningSyncRuns.length > 0 ? null : (
          <Empty>
            {live.eventsOnly
              ? 'There are no API credentials, so there is nothing to compare with.'
              : 'None is running now. A full sync begins at the start, by the timer, and on request.'}
          </Empty>
        )}
        <Running syncRuns={live.runningSyncRuns} />
        {dryRun === null ? null : <LastDryRun dryRun={dryRun} />}
      </section>
      <section class="group" data-part="ended" aria-label="Ended">
        <h2>Ended</h2>
        <EndedSyncRuns
          label="Ended full syncs"
          live={live}
          syncRuns={syncRuns}
          none={<Empty>None has ended yet. Each is shown here with the differences that it found.</Empty>}
        />
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
      <Button id="start" does="sync">
        Full sync now
      </Button>
      <Button id="compare" does="compare">
        Dry run: compare only
      </Button>
    </ActionForm>
  );
}

function LastDryRun({ dryRun }: { dryRun: DryRun }) {
  if (dryRun.state === 'running') {
    const kinds = dryRun.kinds.map(kindPlural).join(', ');
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
      <p class="notice action_required">
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
