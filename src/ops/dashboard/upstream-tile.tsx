import type { Snapshot } from '../snapshot.ts';
import { bytes, count, figure } from '../words.ts';
import { Ago, Tile } from './pieces.tsx';

/** Clocks that differ by less than this are the network's doing. */
const SKEW_SHOWN_MS = 2_000;

export function UpstreamTile({ snapshot: { live, at } }: { snapshot: Snapshot }) {
  const { upstream } = live;
  if (!upstream.configured) {
    return (
      <Tile part="upstream" title="Compliance service" width="half">
        <p class="big">not asked</p>
        <p class="note">Without API credentials the mirror only knows what deliveries say.</p>
      </Tile>
    );
  }
  return (
    <Tile part="upstream" title="Compliance service" width="half">
      <p class="big">
        {upstream.ok === null ? 'not asked yet' : upstream.ok ? 'answers' : 'does not answer'}
      </p>
      <p class="note">
        {upstream.origin}
        {upstream.ok === false && upstream.lastError !== null ? `: ${upstream.lastError}` : ''}
      </p>
      <dl class="pairs">
        {upstream.ok === false ? (
          <>
            <dt>Failures in a row</dt>
            <dd class="warn">{figure(upstream.consecutiveFailures)}</dd>
          </>
        ) : null}
        {upstream.lastOkAt === null ? null : (
          <>
            <dt>Last useful answer</dt>
            <dd>
              <Ago at={new Date(upstream.lastOkAt).toISOString()} now={at} />
            </dd>
          </>
        )}
        <dt>Its clock</dt>
        <dd>{skewWords(upstream.skewMs)}</dd>
        <dt id="budget-label">Requests left this minute</dt>
        <dd>
          {figure(upstream.budgetLeft)} of {figure(upstream.budgetPerMinute)}
        </dd>
      </dl>
      <progress
        class="budget"
        aria-labelledby="budget-label"
        value={upstream.budgetLeft}
        max={upstream.budgetPerMinute}
      />
    </Tile>
  );
}

function skewWords(skewMs: number | null): string {
  if (skewMs === null) return 'unknown';
  if (Math.abs(skewMs) < SKEW_SHOWN_MS) return 'agrees with ours';
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  return `${count(seconds, 'second')} ${skewMs > 0 ? 'ahead' : 'behind'}`;
}

export function ServiceTile({ snapshot: { live, summary, at } }: { snapshot: Snapshot }) {
  return (
    <Tile part="service" title="This service" width="half">
      <p class="big">{live.paused ? 'paused' : live.state}</p>
      <p class="note">
        Version {live.version}, started <Ago at={new Date(live.startedAt).toISOString()} now={at} />.
      </p>
      <dl class="pairs">
        <dt>Signing secrets</dt>
        <dd>{figure(live.signingSecrets)}</dd>
        <dt>Sweeps every</dt>
        <dd>{live.sweepMs === 0 ? 'on demand only' : minutesWords(live.sweepMs)}</dd>
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
    </Tile>
  );
}

function minutesWords(ms: number): string {
  return ms < 60_000 ? count(Math.round(ms / 1000), 'second') : count(Math.round(ms / 6000) / 10, 'minute');
}
