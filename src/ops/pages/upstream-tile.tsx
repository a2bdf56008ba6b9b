import type { CredentialFacts, UpstreamFacts } from '../context.ts';
import type { Snapshot } from '../snapshot.ts';
import { age, count, figure } from '../words.ts';
import { Ago, Facts, Instant, Tile } from './pieces.tsx';

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
      <Facts
        className="pairs"
        facts={[
          upstream.ok === false
            ? ['Failures in a row', figure(upstream.consecutiveFailures), { isWarning: true }]
            : null,
          upstream.waitsUntil === null
            ? null
            : [
                'Waits until',
                <>
                  <Instant at={new Date(upstream.waitsUntil).toISOString()} />, as the service asked
                  (Retry-After)
                </>,
                { isWarning: true },
              ],
          upstream.lastOkAt === null ? null : ['Last useful answer', <Ago at={upstream.lastOkAt} />],
          ['Its clock', skewWords(upstream.skewMs)],
          credentials && [
            AUTH_WORDS[credentials.auth],
            expiryWords(credentials, at),
            { isWarning: credentials.refusal !== null },
          ],
          [
            'Requests left',
            `${figure(upstream.budgetLeft)} of ${figure(upstream.budgetPerMinute)} a minute`,
            { id: 'budget-label' },
          ],
          upstream.budgetLost.length === 0 ? null : ['Waits for lost replicas', lostWords(upstream, at)],
        ]}
      />
      <progress aria-labelledby="budget-label" value={upstream.budgetLeft} max={upstream.budgetPerMinute} />
    </Tile>
  );
}

function lostWords({ budgetLost }: UpstreamFacts, now: number): string {
  const requests = budgetLost.reduce((sum, { places }) => sum + places, 0);
  const names = budgetLost.map(({ replica }) => replica).join(', ');
  return `${figure(requests)} requests, for ${age(budgetLost[0]!.until - now)}: ${names}`;
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
