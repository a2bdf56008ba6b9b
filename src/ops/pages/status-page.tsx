import type { OpsHandlerContext } from '../access.ts';
import { attentionOf } from '../attention.ts';
import type { OpsContext } from '../context.ts';
import { createCharts, isRange } from '../series.ts';
import type { Snapshot, Snapshots } from '../snapshot.ts';
import type { Answers } from './answers.tsx';
import { DeliveriesTile, streamOf, type Traffic } from './deliveries-tile.tsx';
import { EventsTile } from './events-tile.tsx';
import { GapsTile } from './gaps-tile.tsx';
import { KindCards } from './kind-cards.tsx';
import { Frame } from './layout.tsx';
import { ServiceTile } from './service-tile.tsx';
import { SyncRunsTile } from './sync-runs-tile.tsx';
import { UpstreamTile } from './upstream-tile.tsx';
import { VerdictSection } from './verdict-section.tsx';

export function statusPages(context: OpsContext, snapshots: Snapshots, { html, parts }: Answers) {
  const charts = createCharts(context);
  const view = async (c: OpsHandlerContext): Promise<Props> => {
    const asked = c.req.query('range') ?? '';
    const range = isRange(asked) ? asked : 'hour';
    const [snapshot, series] = await Promise.all([snapshots.current(), charts(range)]);
    return { snapshot, traffic: { range, series } };
  };
  return {
    page: async (c: OpsHandlerContext) => html(c, <StatusPage {...(await view(c))} />),
    stream: async (c: OpsHandlerContext) => parts(c, 'Status', <StatusParts {...(await view(c))} />),
  };
}

interface Props {
  snapshot: Snapshot;
  traffic: Traffic;
}

/** What the stream sends anew. Everything that changes stands in a part; nothing outside one does. */
function StatusParts({ snapshot, traffic }: Props) {
  return (
    <>
      <VerdictSection snapshot={snapshot} />
      <AttentionSection snapshot={snapshot} />
      <div class="grid">
        <KindCards snapshot={snapshot} />
        <DeliveriesTile snapshot={snapshot} traffic={traffic} />
        <SyncRunsTile snapshot={snapshot} />
        <GapsTile snapshot={snapshot} />
        <EventsTile snapshot={snapshot} />
        <UpstreamTile snapshot={snapshot} />
        <ServiceTile snapshot={snapshot} />
      </div>
    </>
  );
}

/** Its part is there also when nothing stands in it, so that the stream can fill it. */
function AttentionSection({ snapshot }: { snapshot: Snapshot }) {
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

function StatusPage({ snapshot, traffic }: Props) {
  return (
    <Frame title={snapshot.verdict.sentence} current="Status" stream={streamOf(traffic.range)}>
      <StatusParts {...{ snapshot, traffic }} />
      <noscript>
        <p class="note">
          Without scripts this page stands still: <a href={`/?range=${traffic.range}`}>reload</a> it to see
          what has changed.
        </p>
      </noscript>
    </Frame>
  );
}
