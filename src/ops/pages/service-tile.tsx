import type { Snapshot } from '../snapshot.ts';
import { bytes, count, figure } from '../words.ts';
import { Ago, Tile } from './pieces.tsx';

export function ServiceTile({ snapshot: { live, summary, at } }: { snapshot: Snapshot }) {
  return (
    <Tile
      part="service"
      title="This service"
      width="third"
      aside={
        <span class={`state ${live.paused ? 'stale' : live.state === 'running' ? 'in_sync' : ''}`}>
          {live.paused ? 'paused' : live.state}
        </span>
      }
    >
      <p class="note">
        Version {live.version}, started <Ago at={new Date(live.startedAt).toISOString()} now={at} />.
      </p>
      <dl class="pairs">
        <dt>Full sync every</dt>
        <dd>{live.fullSyncMs === 0 ? 'on demand only' : minutesWords(live.fullSyncMs)}</dd>
        <dt>Reads settle after</dt>
        <dd>{figure(live.settleMs / 1000)} s</dd>
        {summary === null ? null : (
          <>
            <dt>Database</dt>
            <dd>{bytes(summary.database_bytes)}</dd>
            <dt>Write-ahead log</dt>
            <dd>{bytes(summary.wal_bytes)}</dd>
          </>
        )}
      </dl>
      <h3>Signing secrets, and their last use</h3>
      {live.secrets.length === 0 ? (
        <p class="note warn">None: every delivery is rejected.</p>
      ) : (
        <dl class="pairs">
          {live.secrets.map((secret) => (
            <>
              <dt>
                {secret.position}.{' '}
                {secret.registration === null ? 'configured' : `of the registration ${secret.registration}`}
              </dt>
              <dd>
                {secret.lastUsedAt === null ? (
                  'not since the start'
                ) : (
                  <Ago at={new Date(secret.lastUsedAt).toISOString()} now={at} />
                )}
              </dd>
            </>
          ))}
        </dl>
      )}
    </Tile>
  );
}

function minutesWords(ms: number): string {
  return ms < 60_000 ? count(Math.round(ms / 1000), 'second') : count(Math.round(ms / 6000) / 10, 'minute');
}
