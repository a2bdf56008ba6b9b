import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { SweepReport } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import type { DryRun } from '../dry-runs.ts';
import type { Snapshot } from '../snapshot.ts';
import { count, kindPlural } from '../words.ts';
import { DriftDetails } from './drift-details.tsx';
import { Frame } from './layout.tsx';
import { ActionForm, Ago, Empty, Pager, Table, Title, Told } from './pieces.tsx';
import { Ended, Running, SWEEP_COLUMNS } from './sweeps-tile.tsx';

export interface SweepsView {
  snapshot: Snapshot;
  sweeps: readonly SweepReport[];
  dryRun: DryRun;
  identity: Identity;
  told: string | null;
  next: string | null;
  first: string | null;
}

export function SweepsPage(view: SweepsView) {
  const { snapshot, identity } = view;
  return (
    <Frame
      title="Sweeps"
      current="Sweeps"
      identity={identity}
      now={snapshot.at}
      stream={view.first === null ? '/stream/sweeps' : null}
    >
      <Title note="A sweep compares every record of a kind with the compliance service, and repairs what differs.">
        Sweeps
      </Title>
      <Told text={view.told} />
      {identity.role === 'operate' && !snapshot.live.eventsOnly ? <Start csrf={identity.csrf} /> : null}
      <SweepsParts {...view} />
    </Frame>
  );
}

/** What the stream sends anew. */
export function SweepsParts({ snapshot, sweeps, dryRun, next, first }: SweepsView) {
  const { live, held, at } = snapshot;
  const running = new Set(live.runningSweeps.map((sweep) => sweep.id));
  const ended = sweeps.filter((sweep) => !running.has(sweep.id));
  return (
    <>
      <section class="group" data-part="running" aria-label="Running now">
        {held.map(({ sweepId, kind, count: waiting }) => (
          <p class="told blocked">
            <a href={`/sweeps/${sweepId}#held`}>
              {count(waiting, 'deletion')} of {kindPlural(kind)} {waiting === 1 ? 'awaits' : 'await'} consent
            </a>
          </p>
        ))}
        {live.runningSweeps.length === 0 ? (
          <Empty>
            {live.eventsOnly
              ? 'There are no API credentials, so nothing can be swept.'
              : 'None is running now. One begins at the start, on the timer, and whenever it is asked for.'}
          </Empty>
        ) : (
          <div class="running">
            {live.runningSweeps.map((sweep) => (
              <Running sweep={sweep} />
            ))}
          </div>
        )}
        <Compared dryRun={dryRun} now={at} />
      </section>
      <section class="group" data-part="ended" aria-label="Ended">
        <h2>Ended</h2>
        {ended.length === 0 ? (
          <Empty>None has ended yet. What each found different will stand here.</Empty>
        ) : (
          <Table label="Ended sweeps" head={SWEEP_COLUMNS} figures={['Seen']}>
            {ended.map((sweep) => (
              <Ended sweep={sweep} now={at} />
            ))}
          </Table>
        )}
        <Pager next={next} first={first} words="Older sweeps" />
      </section>
    </>
  );
}

function Start({ csrf }: { csrf: string | null }) {
  return (
    <ActionForm action="/actions/sweeps" csrf={csrf} className="filters">
      <fieldset>
        <legend>Which kinds</legend>
        {KINDS.map((kind) => (
          <label class="tick">
            <input type="checkbox" name="kind" value={kind} checked />
            <span>{kindPlural(kind)}</span>
          </label>
        ))}
      </fieldset>
      <button class="button" type="submit" name="do" value="sweep" id="start">
        Sweep now
      </button>
      <button class="button" type="submit" name="do" value="compare" id="compare">
        Dry run: compare only
      </button>
    </ActionForm>
  );
}

function Compared({ dryRun, now }: { dryRun: DryRun; now: number }) {
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
  const ended = <Ago at={new Date(dryRun.endedAt).toISOString()} now={now} />;
  if (dryRun.state === 'failed') {
    return (
      <p class="told blocked">
        The dry run failed {ended}: {dryRun.error}
      </p>
    );
  }
  return (
    <section class="dry-run" aria-labelledby="dry-run-title">
      <h2 id="dry-run-title">
        Dry run <small>{ended}; nothing was written</small>
      </h2>
      {dryRun.compared.map(({ kind, ...drift }) => (
        <>
          <h3>{kindPlural(kind)}</h3>
          <DriftDetails kind={kind} drift={drift} dry />
        </>
      ))}
    </section>
  );
}
