import type { CredentialFacts } from '../context.ts';
import type { Snapshot } from '../snapshot.ts';
import { age, count, figure } from '../words.ts';
import { Ago, Tile } from './pieces.tsx';

/** Clocks that differ by less than this are the network's doing. */
const SKEW_SHOWN_MS = 2_000;

export function UpstreamTile({ snapshot: { live, credentials, at } }: { snapshot: Snapshot }) {
  const { upstream } = live;
  if (!upstream.configured) {
    return (
      <Tile
        part="upstream"
        title="Compliance service"
        width="third"
        aside={<span class="state">not asked</span>}
      >
        <p class="note">Without API credentials the mirror only knows what deliveries say.</p>
      </Tile>
    );
  }
  return (
    <Tile
      part="upstream"
      title="Compliance service"
      width="third"
      aside={
        <span class={`state ${upstream.ok === null ? '' : upstream.ok ? 'in_sync' : 'unreachable'}`}>
          {upstream.ok === null ? 'not asked yet' : upstream.ok ? 'answers' : 'cannot be read'}
        </span>
      }
    >
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
        {credentials === null ? null : (
          <>
            <dt>{AUTH_WORDS[credentials.auth]}</dt>
            <dd class={credentials.refusal === null ? '' : 'warn'}>{expiryWords(credentials, at)}</dd>
          </>
        )}
        <dt id="budget-label">Requests left</dt>
        <dd>
          {figure(upstream.budgetLeft)} of {figure(upstream.budgetPerMinute)} a minute
        </dd>
        {upstream.budgetLost.length === 0 ? null : (
          <>
            <dt>Waits for lost replicas</dt>
            <dd>
              {figure(upstream.budgetLost.reduce((sum, { places }) => sum + places, 0))} requests, for{' '}
              {age(upstream.budgetLost[0]!.until - at)}:{' '}
              {upstream.budgetLost.map(({ replica }) => replica).join(', ')}
            </dd>
          </>
        )}
      </dl>
      <progress aria-labelledby="budget-label" value={upstream.budgetLeft} max={upstream.budgetPerMinute} />
    </Tile>
  );
}

const AUTH_WORDS = {
  api_key: 'API key',
  oauth: 'Sign-in (OAuth)',
  service_account: 'Service account',
} as const;

function expiryWords({ auth, expiresAt, refusal }: CredentialFacts, now: number): string {
  if (refusal !== null) return refusal;
  if (auth === 'api_key') return 'its end is not known here';
  if (expiresAt === null) return 'no token yet';
  return expiresAt <= now ? 'token ran out, is renewed' : `token for ${age(expiresAt - now)}, then renewed`;
}

function skewWords(skewMs: number | null): string {
  if (skewMs === null) return 'unknown';
  if (Math.abs(skewMs) < SKEW_SHOWN_MS) return 'agrees with ours';
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  return `${count(seconds, 'second')} ${skewMs > 0 ? 'ahead' : 'behind'}`;
}
