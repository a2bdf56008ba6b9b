import type { Identity } from '../access.ts';
import type { Snapshot } from '../snapshot.ts';
import { BacklogTile, DeliveriesTile } from './delivery-tiles.tsx';
import { GapsTile } from './gaps-tile.tsx';
import { Layout } from './layout.tsx';
import { ActionForm } from './pieces.tsx';
import { RecordsTile } from './records-tile.tsx';
import { SweepsTile } from './sweeps-tile.tsx';
import { ServiceTile, UpstreamTile } from './upstream-tile.tsx';
import { VerdictSection } from './verdict-section.tsx';

interface Props {
  snapshot: Snapshot;
  identity: Identity;
}

/** What the stream sends anew. Everything that changes stands in a part; nothing outside one does. */
export function StatusParts({ snapshot, identity }: Props) {
  return (
    <>
      <VerdictSection snapshot={snapshot} identity={identity} />
      <div class="grid">
        <DeliveriesTile snapshot={snapshot} />
        <BacklogTile snapshot={snapshot} />
        <RecordsTile snapshot={snapshot} />
        <GapsTile snapshot={snapshot} />
        <SweepsTile snapshot={snapshot} />
        <UpstreamTile snapshot={snapshot} />
        <ServiceTile snapshot={snapshot} />
      </div>
    </>
  );
}

export function StatusPage({ snapshot, identity }: Props) {
  return (
    <Layout title={snapshot.verdict.sentence}>
      <a class="hidden skip" href="#main">
        Skip to the verdict
      </a>
      <div class="wrap">
        <header class="top">
          <span class="name">compliance mirror</span>
          <span class="live" data-live>
            as of {new Date(snapshot.at).toISOString().slice(11, 19)} UTC
          </span>
          <noscript>
            <a href="/">Reload</a>
          </noscript>
          <span>
            {identity.name}
            {identity.role === 'read' ? ', may read' : ''}
          </span>
          {identity.csrf === null ? null : (
            <ActionForm action="/sign-out" csrf={identity.csrf}>
              <button class="plain" type="submit">
                Sign out
              </button>
            </ActionForm>
          )}
        </header>
        <main id="main" data-stream="/events/stream">
          <StatusParts snapshot={snapshot} identity={identity} />
        </main>
        <footer class="foot">
          <span>All times are UTC.</span>
          <a href="/api/status">These figures as JSON</a>
          <a href="/metrics">Metrics</a>
        </footer>
      </div>
    </Layout>
  );
}
