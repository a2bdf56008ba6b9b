import type { StoreSummary, VerdictName } from '../../store/reports.ts';
import type { Upstream } from '../api/schemas.ts';
import type { CredentialFacts } from '../context.ts';
import { gapsHref, gapText, oldestOf } from '../gap-texts.ts';
import type { Snapshot } from '../snapshot.ts';
import { assessmentSyncOf, assessmentSyncWords } from '../status-report.ts';
import { sumOf } from '../verdict.ts';
import { age, bytes, codeWords, count, figure, kindPlural, sentenceCase } from '../words.ts';
import { gapsByReason } from './lists.tsx';
import { Ago, Facts, Instant, quiet, State, Tile } from './pieces.tsx';

export const verdictWords = (verdict: VerdictName) => sentenceCase(codeWords(verdict));

const UNREAD = <p class="note">The database could not be read.</p>;

/** For each kind: how many records there are, and how far they can be trusted. */
export function KindCards(snapshot: Snapshot) {
  const { summary, live } = snapshot;
  if (summary === null) {
    return (
      <Tile part="records" title="Records">
        {UNREAD}
      </Tile>
    );
  }
  return summary.kinds.map(({ kind, verdict, records, verified, deleted, coverage, ...reads }) => {
    const verifiedOf = `${figure(verified)} of ${figure(records)}`;
    return (
      <Tile
        part={kind}
        width="third"
        title={<a href={`/records/${kind}`}>{sentenceCase(kindPlural(kind))}</a>}
        aside={<State state={verdict} words={verdictWords(verdict)} />}
      >
        <p class="big">
          {figure(records)}{' '}
          <small>
            {records === 1 ? 'record' : 'records'}
            {deleted > 0 ? `, and ${figure(deleted)} deleted` : ''}
          </small>
        </p>
        <Facts
          className="pairs"
          facts={[
            [
              'Verified',
              records === verified ? (
                figure(verified)
              ) : (
                <a href={`/records/${kind}?unverified=yes`}>{verifiedOf}</a>
              ),
            ],
            !live.eventsOnly && [
              'Complete through',
              <Instant at={reads.complete_through} otherwise={quiet('not yet')} />,
            ],
            !live.eventsOnly && [
              'Last full sync',
              <Ago at={reads.last_full_sync_at} otherwise={quiet('none yet')} />,
            ],
          ]}
        />
        <p class="reach">
          {sentenceCase(coverage.replace(/\d+/g, (digits) => figure(Number(digits))))}
          {kind === 'risk_assessment' && !live.eventsOnly
            ? `. Reading them all: ${assessmentSyncWords(assessmentSyncOf(snapshot))}`
            : ''}
        </p>
      </Tile>
    );
  });
}

/** A line for each reason. Its meaning and remedy are on the gaps' page. Empty while no gap is open. */
export function GapsTile({ summary, gaps }: Snapshot) {
  const groups = gapsByReason(summary?.open_gaps_by ?? []);
  if (groups.length === 0) return <div data-part="gaps" />;
  return (
    <Tile part="gaps" title={<a href="/gaps">Open gaps</a>}>
      <ul class="gaps">
        {groups.map(([reason, counted]) => {
          const open = sumOf(counted);
          const kinds = counted.map(({ kind }) => kind).filter((kind) => kind !== null);
          const error = gaps.find((gap) => gap.reason === reason && gap.error !== null)?.error;
          return (
            <li>
              <div>
                <a href={gapsHref(reason)}>{gapText(reason).title}</a>
                {error && <div class="error">{error}</div>}
              </div>
              <span class="quiet">
                {open > 1 ? `${figure(open)} gaps: ` : ''}
                {kinds.length > 0 ? `${kinds.map(kindPlural).join(', ')}, ` : ''}
                since <Instant at={oldestOf(counted)} />
              </span>
            </li>
          );
        })}
      </ul>
    </Tile>
  );
}

export function EventsTile({ summary }: Snapshot) {
  return (
    <Tile part="backlog" title={<a href="/events">Events</a>} width="third">
      <p class="big">
        {summary === null ? '–' : figure(summary.events.pending)}{' '}
        <small>{summary?.events.pending === 1 ? 'event waits' : 'events wait'}</small>
      </p>
      {summary === null ? UNREAD : <EventFacts {...summary} />}
    </Tile>
  );
}

function EventFacts({ events, oldest_pending_at, quarantined, resolved_gaps_last_day }: StoreSummary) {
  const { processed, ignored, failed } = events;
  return (
    <>
      {oldest_pending_at === null ? null : (
        <p class="note">
          The oldest was received <Ago at={oldest_pending_at} />.
        </p>
      )}
      <Facts
        className="pairs"
        facts={[
          ['Processed', figure(processed)],
          ignored > 0 && [<a href="/events?state=ignored">Ignored, of unknown types</a>, figure(ignored)],
          [<a href="/events?state=failed">Failed</a>, figure(failed), { isWarning: failed > 0 }],
          [<a href="/quarantine">In quarantine</a>, figure(quarantined)],
          [<a href="/gaps?show=resolved">Gaps resolved in the last day</a>, figure(resolved_gaps_last_day)],
        ]}
      />
    </>
  );
}

/** A smaller difference can come from the network. */
const SKEW_SHOWN_MS = 2_000;
/** As for the alert ClockSkewed. */
const SKEW_BAD_MS = 60_000;

export function UpstreamTile(snapshot: Snapshot) {
  const { upstream } = snapshot.live;
  return (
    <Tile part="upstream" title="Compliance service" width="third" aside={upstreamState(upstream)}>
      {upstream.configured ? (
        <UpstreamFacts {...snapshot} />
      ) : (
        <p class="note">Without API credentials the mirror only knows what deliveries say.</p>
      )}
    </Tile>
  );
}

function upstreamState({ configured, ok }: Upstream) {
  if (!configured) return <State state="" words="not asked" />;
  if (ok === null) return <State state="" words="not asked yet" />;
  if (!ok) return <State state="unreachable" words="cannot be read" />;
  return <State state="in_sync" words="answers" />;
}

function UpstreamFacts({ live: { upstream }, credentials, at }: Snapshot) {
  const { budget_left, budget_per_minute, waits_until, budget_waits_for } = upstream;
  const waits = (
    <>
      <Instant at={waits_until} />, as the service asked (Retry-After)
    </>
  );
  return (
    <>
      <p class="note">
        {upstream.origin}
        {upstream.ok === false && upstream.last_error !== null ? `: ${upstream.last_error}` : ''}
      </p>
      <Facts
        className="pairs"
        facts={[
          upstream.ok === false && [
            'Failures in a row',
            figure(upstream.consecutive_failures),
            { isWarning: true },
          ],
          waits_until !== null && ['Waits until', waits, { isWarning: true }],
          upstream.last_ok_at !== null && ['Last useful answer', <Ago at={upstream.last_ok_at} />],
          [
            'Its clock',
            skewWords(upstream.skew_ms),
            { isWarning: Math.abs(upstream.skew_ms ?? 0) > SKEW_BAD_MS },
          ],
          credentials && [
            AUTH_WORDS[credentials.auth],
            expiryWords(credentials, at),
            { isWarning: credentials.refusal !== null },
          ],
          [
            'Requests left',
            `${figure(budget_left)} of ${figure(budget_per_minute)} a minute`,
            { id: 'budget-label' },
          ],
          budget_waits_for.length > 0 && ['Waits for lost replicas', lostWords(budget_waits_for, at)],
        ]}
      />
      <progress aria-labelledby="budget-label" value={budget_left} max={budget_per_minute} />
    </>
  );
}

function lostWords(lost: Upstream['budget_waits_for'], now: number): string {
  const requests = lost.reduce((sum, each) => sum + each.requests, 0);
  const names = lost.map(({ replica }) => replica).join(', ');
  return `${figure(requests)} requests, for ${age(Date.parse(lost[0]!.until) - now)}: ${names}`;
}

const AUTH_WORDS = {
  api_key: 'API key',
  oauth: 'Sign-in (OAuth)',
  service_account: 'Service account',
} as const;

function expiryWords({ auth, expiresAt, refusal }: CredentialFacts, now: number): string {
  if (refusal !== null) return refusal;
  if (auth === 'api_key') return 'end date not known';
  if (expiresAt === null) return 'no token yet';
  if (expiresAt <= now) return 'token has expired, and is renewed';
  return `token for ${age(expiresAt - now)}, then renewed`;
}

function skewWords(skewMs: number | null): string {
  if (skewMs === null) return 'unknown';
  if (Math.abs(skewMs) < SKEW_SHOWN_MS) return 'agrees with ours';
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  return `${count(seconds, 'second')} ${skewMs > 0 ? 'ahead' : 'behind'}`;
}

export function ServiceTile({ live, summary }: Snapshot) {
  const isPaused = live.pausedSince !== null;
  const state = isPaused ? 'stale' : live.state === 'running' ? 'in_sync' : '';
  return (
    <Tile
      part="service"
      title="This service"
      width="third"
      aside={<State state={state} words={isPaused ? 'paused' : live.state} />}
    >
      <p class="note">
        Version {live.version}, started <Ago at={live.startedAt} />.
      </p>
      <Facts
        className="pairs"
        facts={[
          !live.eventsOnly && [
            'Full syncs',
            live.fullSyncMs === 0 ? 'at the start, on demand' : `every ${minutesWords(live.fullSyncMs)}`,
          ],
          ['Consistency window', `${figure(live.settleMs / 1000)} s`],
          summary && ['Database', bytes(summary.database_bytes)],
          // PostgreSQL has one for all its databases.
          summary !== null && summary.wal_bytes > 0 && ['Write-ahead log', bytes(summary.wal_bytes)],
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
            <Ago at={lastUsedAt} otherwise="not since the start" />,
          ])}
        />
      )}
    </Tile>
  );
}

function minutesWords(ms: number): string {
  return ms < 60_000 ? count(Math.round(ms / 1000), 'second') : count(Math.round(ms / 6000) / 10, 'minute');
}
