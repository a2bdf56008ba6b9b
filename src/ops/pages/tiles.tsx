import type { KindStatus, OpenGaps } from '../../store/reports.ts';
import type { CredentialFacts, UpstreamFacts } from '../context.ts';
import { gapText, oldestOf } from '../gap-texts.ts';
import type { Snapshot } from '../snapshot.ts';
import { cycleOf, cycleWords } from '../status-report.ts';
import { age, bytes, count, figure, kindPlural } from '../words.ts';
import { gapsByReason } from './lists.tsx';
import { Ago, Facts, Instant, Tile } from './pieces.tsx';

export const VERDICT_WORDS = {
  in_sync: 'In sync',
  catching_up: 'Catching up',
  stale: 'Stale',
  unreachable: 'Unreachable',
  action_required: 'Action required',
  unverified: 'Unverified',
} as const;

/** For each kind: how many records there are, and how far they can be trusted. */
export function KindCards({ snapshot }: { snapshot: Snapshot }) {
  const { summary, live } = snapshot;
  if (summary === null) {
    return (
      <Tile part="records" title="Records">
        <p class="note">The database could not be read.</p>
      </Tile>
    );
  }
  return summary.kinds.map((kind) => (
    <Tile
      part={kind.kind}
      width="third"
      title={<a href={`/records/${kind.kind}`}>{sentenceCase(kindPlural(kind.kind))}</a>}
      aside={<span class={`state ${kind.verdict}`}>{VERDICT_WORDS[kind.verdict]}</span>}
    >
      <Figures kind={kind} />
      <p class="reach">
        {sentenceCase(kind.coverage)}
        {kind.kind === 'risk_assessment' && !live.eventsOnly
          ? `. Reading them all: ${cycleWords(cycleOf(snapshot))}`
          : ''}
      </p>
    </Tile>
  ));
}

function Figures({ kind }: { kind: KindStatus }) {
  return (
    <>
      <p class="big">
        {figure(kind.records)}{' '}
        <small>
          {kind.records === 1 ? 'record' : 'records'}
          {kind.deleted > 0 ? `, and ${figure(kind.deleted)} deleted` : ''}
        </small>
      </p>
      <Facts
        className="pairs"
        facts={[
          [
            'Verified',
            kind.records === kind.verified ? (
              figure(kind.verified)
            ) : (
              <a href={`/records/${kind.kind}?unverified=yes`}>
                {figure(kind.verified)} of {figure(kind.records)}
              </a>
            ),
          ],
          [
            'Complete through',
            kind.complete_through === null ? (
              <span class="quiet">no instant yet</span>
            ) : (
              <Instant at={kind.complete_through} />
            ),
          ],
          [
            'Last full sync',
            kind.last_full_sync_at === null ? (
              <span class="quiet">none yet</span>
            ) : (
              <Ago at={kind.last_full_sync_at} />
            ),
          ],
        ]}
      />
    </>
  );
}

function sentenceCase(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A line for each reason. Its meaning and remedy are on the gaps' page. Empty while no gap is open. */
export function GapsTile({ snapshot: { summary, gaps } }: { snapshot: Snapshot }) {
  const groups = gapsByReason(summary?.open_gaps_by ?? []);
  if (groups.length === 0) return <div data-part="gaps" />;
  return (
    <Tile part="gaps" title={<a href="/gaps">Open gaps</a>}>
      <ul class="gaps">
        {groups.map(([reason, counted]) => (
          <GapLine
            reason={reason}
            counted={counted}
            error={gaps.find((gap) => gap.reason === reason && gap.error !== null)?.error ?? null}
          />
        ))}
      </ul>
    </Tile>
  );
}

function GapLine({
  reason,
  counted,
  error,
}: {
  reason: string;
  /** All that are open, by kind. */
  counted: readonly OpenGaps[];
  error: string | null;
}) {
  const open = counted.reduce((sum, gap) => sum + gap.count, 0);
  const since = oldestOf(counted);
  const kinds = counted.map((gap) => gap.kind).filter((kind) => kind !== null);
  return (
    <li>
      <div>
        <a href={`/gaps#gap-${encodeURIComponent(reason)}`}>{gapText(reason).title}</a>
        {error === null ? null : <div class="error">{error}</div>}
      </div>
      <span class="quiet">
        {open > 1 ? `${figure(open)} times, ` : ''}
        {kinds.length > 0 ? `${kinds.map(kindPlural).join(', ')}, ` : ''}
        {since === null ? null : (
          <>
            since <Instant at={since} />
          </>
        )}
      </span>
    </li>
  );
}

export function EventsTile({ snapshot: { summary } }: { snapshot: Snapshot }) {
  return (
    <Tile part="backlog" title={<a href="/events">Events</a>} width="third">
      <p class="big">
        {summary === null ? '–' : figure(summary.events.pending)}{' '}
        <small>{summary?.events.pending === 1 ? 'event waits' : 'events wait'}</small>
      </p>
      {summary === null ? (
        <p class="note">The database could not be read.</p>
      ) : (
        <>
          <p class="note">
            {summary.oldest_pending_at === null ? (
              'All events are processed.'
            ) : (
              <>
                The oldest was received <Ago at={summary.oldest_pending_at} />.
              </>
            )}
          </p>
          <Facts
            className="pairs"
            facts={[
              ['Processed', figure(summary.events.processed + summary.events.ignored)],
              [
                <a href="/events?state=failed">Failed</a>,
                figure(summary.events.failed),
                { isWarning: summary.events.failed > 0 },
              ],
              [<a href="/quarantine">In quarantine</a>, figure(summary.quarantined)],
              [
                <a href="/gaps?show=resolved">Gaps resolved in the last day</a>,
                figure(summary.resolved_gaps_last_day),
              ],
            ]}
          />
        </>
      )}
    </Tile>
  );
}

/** A smaller difference can come from the network. */
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
