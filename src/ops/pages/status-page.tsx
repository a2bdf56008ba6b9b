import type { Child } from 'hono/jsx';
import { pointersToSet } from '../../compliance/pointers.ts';
import type { OpsHandlerContext } from '../access.ts';
import type { PendingCount } from '../api/schemas.ts';
import { attentionOf } from '../attention.ts';
import { gapsHref } from '../gap-texts.ts';
import type { Snapshot, Snapshots } from '../snapshot.ts';
import { type Charts, isRange } from '../traffic.ts';
import { age, count, kindNoun, kindPlural } from '../words.ts';
import { ActionButton, mayOperate } from './controls.tsx';
import { DeliveriesTile, streamOf } from './deliveries-tile.tsx';
import { Frame } from './layout.tsx';
import { Instant } from './pieces.tsx';
import { SyncRunsTile } from './sync-runs.tsx';
import { EventsTile, GapsTile, KindCards, ServiceTile, UpstreamTile, verdictWords } from './tiles.tsx';

interface Sources {
  snapshots: Snapshots;
  charts: Charts;
}

export async function statusPage(sources: Sources, c: OpsHandlerContext): Promise<Child> {
  const shown = await read(sources, c);
  const { range } = shown.series;
  return (
    <Frame title={shown.snapshot.verdict.sentence} current="Status" stream={streamOf(range)}>
      <StatusParts {...shown} />
      <noscript>
        <p class="note">
          Without scripts this page stands still: <a href={`/?range=${range}`}>reload</a> it to see what has
          changed.
        </p>
      </noscript>
    </Frame>
  );
}

export async function statusStream(sources: Sources, c: OpsHandlerContext): Promise<Child> {
  return <StatusParts {...(await read(sources, c))} />;
}

async function read({ snapshots, charts }: Sources, c: OpsHandlerContext) {
  const asked = c.req.query('range') ?? '';
  const range = isRange(asked) ? asked : 'hour';
  const [snapshot, series] = await Promise.all([snapshots.current(), charts(range)]);
  return { snapshot, series };
}

/** What the stream sends. Everything that changes is in a part. */
function StatusParts({ snapshot, series }: Awaited<ReturnType<typeof read>>) {
  return (
    <>
      <VerdictSection {...snapshot} />
      <AttentionSection {...snapshot} />
      <div class="grid">
        <KindCards {...snapshot} />
        <DeliveriesTile snapshot={snapshot} series={series} />
        <SyncRunsTile {...snapshot} />
        <GapsTile {...snapshot} />
        <EventsTile {...snapshot} />
        <UpstreamTile {...snapshot} />
        <ServiceTile {...snapshot} />
      </div>
    </>
  );
}

/** Its part exists also when it is empty, so that the stream can fill it. */
function AttentionSection(snapshot: Snapshot) {
  const list = attentionOf(snapshot);
  if (list.length === 0) return <div data-part="attention" />;
  return (
    <section class="attention" data-part="attention" aria-labelledby="attention-title">
      <h2 id="attention-title">Needs attention ({list.length})</h2>
      <ul>
        {list.map(({ what, href, action }) => (
          <li>
            <span>{what}</span> <a href={href}>{action}</a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function VerdictSection(snapshot: Snapshot) {
  const { verdict, at, summary, live } = snapshot;
  const toSet = pointersToSet(summary?.learned_pointers ?? [], live.idPointers);
  return (
    <section class={`verdict ${verdict.verdict}`} data-part="verdict" aria-label="Verdict">
      <div>
        <p class="eyebrow">
          <strong class={`state ${verdict.verdict}`}>{verdictWords(verdict.verdict)}</strong>
          {verdict.since === null ? null : (
            <span>
              since <Instant at={verdict.since} /> · {age(at - Date.parse(verdict.since))}
            </span>
          )}
        </p>
        <h1>{verdict.sentence}</h1>
        {verdict.remedy === null ? null : <p class="remedy">{verdict.remedy}</p>}
        {toSet.map(({ kind, path, setting, record_id, used }) => (
          <p class="remedy">
            The id of the {kindNoun(kind, 1)} <code>{record_id}</code> was found at “{path}”, where no setting
            looks. {used ? 'Events are read there now.' : 'The API is asked for each such event’s record.'}{' '}
            Set <code>{setting}</code> and restart.
          </p>
        ))}
      </div>
      {mayOperate() ? <Actions {...snapshot} /> : null}
    </section>
  );
}

function Actions({ verdict, live, pending }: Snapshot) {
  const isPaused = live.pausedSince !== null;
  return (
    <div class="actions">
      {isPaused ? (
        <ActionButton action="/actions/resume" id="resume" first={verdict.action === 'resume'}>
          Resume
        </ActionButton>
      ) : null}
      {/* Those of several kinds are only in the list below. */}
      {pending.length === 1 ? <Pending deletions={pending[0]!} first={verdict.action === 'approve'} /> : null}
      {verdict.action === 'retry' ? (
        <ActionButton action="/actions/retry" id="retry" first>
          Retry these events
        </ActionButton>
      ) : null}
      {verdict.action === 'resolve' ? (
        <a class="button first" id="restored" href={gapsHref('restored')}>
          Look at what is missing
        </a>
      ) : null}
      {/* While paused it would only wait. */}
      {live.eventsOnly || isPaused ? null : (
        <ActionButton action="/actions/sync" id="sync" first={verdict.action === 'sync'}>
          Full sync now
        </ActionButton>
      )}
      {isPaused ? null : (
        <ActionButton action="/actions/pause" id="pause">
          Pause
        </ActionButton>
      )}
    </div>
  );
}

/** Leads to the sync run's page, which lists the ids and has the button to approve them. */
function Pending({ deletions, first }: { deletions: PendingCount; first: boolean }) {
  const { sync_run_id: syncRunId, kind, count: pending } = deletions;
  return (
    <a
      class={first ? 'button first' : 'button'}
      id={`pending-${syncRunId}`}
      href={`/sync-runs/${syncRunId}#pending`}
    >
      Look at the {count(pending, 'deletion')} of {kindPlural(kind)}
    </a>
  );
}
