import { pointersToSet } from '../../compliance/pointers.ts';
import type { OpsHandlerContext } from '../access.ts';
import type { OpsContext } from '../context.ts';
import type { Snapshot, Snapshots } from '../snapshot.ts';
import { age, kindNoun } from '../words.ts';
import { ActionButton } from './controls.tsx';
import { DeliveriesTile } from './deliveries-tile.tsx';
import type { Content } from './layout.tsx';
import { Instant } from './pieces.tsx';
import { ProblemsTile } from './problems.tsx';
import { hereWith } from './query.ts';
import { SyncsTile } from './syncs.tsx';
import { KindCards, ServiceTile, UpstreamTile, verdictWords } from './tiles.tsx';

/** Everything on it that changes is in a part, which the script of the open page replaces. */
export const overview =
  ({ snapshots }: OpsContext & { snapshots: Snapshots }) =>
  async (c: OpsHandlerContext): Promise<Content> => {
    const snapshot = await snapshots.current();
    return {
      title: snapshot.verdict.sentence,
      heading: null,
      current: 'Overview',
      again: hereWith(c, {}),
      body: (
        <>
          <VerdictSection {...snapshot} />
          <div class="grid">
            <KindCards {...snapshot} />
            <ProblemsTile {...snapshot} />
            <DeliveriesTile {...snapshot} />
            <SyncsTile {...snapshot} />
            <UpstreamTile {...snapshot} />
            <ServiceTile {...snapshot} />
          </div>
        </>
      ),
    };
  };

function VerdictSection(snapshot: Snapshot) {
  const { verdict, at, summary, live, problems } = snapshot;
  const toSet = pointersToSet(summary?.learned_pointers ?? [], live.idPointers);
  const isPaused = problems.some(({ reason }) => reason === 'paused');
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
        {verdict.action === null ? null : <p class="remedy">{verdict.action}</p>}
        {toSet.map(({ kind, path, setting, record_id, used }) => (
          <p class="remedy">
            The id of the {kindNoun(kind, 1)} <code>{record_id}</code> was found at “{path}”, where no setting
            looks. {used ? 'Events are read there now.' : 'The API is asked for each such event’s record.'}{' '}
            Set <code>{setting}</code> and restart.
          </p>
        ))}
      </div>
      <div class="actions">
        {isPaused ? (
          <ActionButton action="/actions/resume" id="resume" first>
            Resume
          </ActionButton>
        ) : (
          <>
            {live.eventsOnly ? null : (
              <ActionButton action="/actions/sync" id="sync">
                Full sync now
              </ActionButton>
            )}
            <ActionButton action="/actions/pause" id="pause">
              Pause
            </ActionButton>
          </>
        )}
      </div>
    </section>
  );
}
