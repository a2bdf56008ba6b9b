import type { Snapshot } from '../snapshot.ts';
import { bytes, count, figure } from '../words.ts';
import { Ago, Facts, Tile } from './pieces.tsx';

export function ServiceTile({ snapshot: { live, summary } }: { snapshot: Snapshot }) {
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
        Version {live.version}, started <Ago at={live.startedAt} />.
      </p>
      <Facts
        className="pairs"
        facts={[
          ['Full sync every', live.fullSyncMs === 0 ? 'on demand only' : minutesWords(live.fullSyncMs)],
          ['Reads settle after', `${figure(live.settleMs / 1000)} s`],
          summary && ['Database', bytes(summary.database_bytes)],
          summary && ['Write-ahead log', bytes(summary.wal_bytes)],
        ]}
      />
      <h3>Signing secrets, and their last use</h3>
      {live.secrets.length === 0 ? (
        <p class="note warn">None: every delivery is rejected.</p>
      ) : (
        <Facts
          className="pairs"
          facts={live.secrets.map(({ position, registration, lastUsedAt }) => [
            `${position}. ${registration === null ? 'configured' : `of the registration ${registration}`}`,
            lastUsedAt === null ? 'not since the start' : <Ago at={lastUsedAt} />,
          ])}
        />
      )}
    </Tile>
  );
}

function minutesWords(ms: number): string {
  return ms < 60_000 ? count(Math.round(ms / 1000), 'second') : count(Math.round(ms / 6000) / 10, 'minute');
}
