import type { OpsHandlerContext } from '../access.ts';
import type { Status } from '../api/schemas.ts';
import type { Snapshots } from '../status.ts';
import { age } from '../words.ts';
import { ActionButton } from './controls.tsx';
import type { Content } from './layout.tsx';
import { Instant } from './pieces.tsx';
import { ProblemsTile } from './problems.tsx';
import { hereWith } from './query.ts';
import { SyncsTile } from './syncs.tsx';
import { DeliveriesTile, KindCards, ServiceTile, UpstreamTile, verdictWords } from './tiles.tsx';

/** Shows what `/api/status` answers. Everything on it that changes is in a part, which the script of the open page replaces. */
export const overview =
  (snapshots: Snapshots) =>
  async (c: OpsHandlerContext): Promise<Content> => {
    const { status } = await snapshots.current();
    return {
      title: status.sentence,
      heading: null,
      current: 'Overview',
      again: hereWith(c, {}),
      body: (
        <>
          <VerdictSection {...status} />
          <div class="grid">
            <KindCards {...status} />
            <ProblemsTile {...status} />
            <DeliveriesTile {...status} />
            <UpstreamTile {...status} />
            <ServiceTile {...status} />
            <SyncsTile {...status} />
          </div>
        </>
      ),
    };
  };

function VerdictSection({ verdict, since, sentence, action, at, problems, service }: Status) {
  const isPaused = problems.some(({ reason }) => reason === 'paused');
  return (
    <section class={`verdict ${verdict}`} data-part="verdict" aria-label="Verdict">
      <div>
        <p class="eyebrow">
          <strong class={`state ${verdict}`}>{verdictWords(verdict)}</strong>
          {since === null ? null : (
            <span>
              since <Instant at={since} /> · {age(Date.parse(at) - Date.parse(since))}
            </span>
          )}
        </p>
        <h1>{sentence}</h1>
        {action === null ? null : <p class="remedy">{action}</p>}
      </div>
      <div class="actions">
        {isPaused ? (
          <ActionButton action="/api/resume" id="resume" first>
            Resume
          </ActionButton>
        ) : (
          <>
            {service.events_only ? null : (
              <ActionButton action="/api/syncs" id="sync">
                Full sync now
              </ActionButton>
            )}
            <ActionButton action="/api/pause" id="pause">
              Pause
            </ActionButton>
          </>
        )}
      </div>
    </section>
  );
}
