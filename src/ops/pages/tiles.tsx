import type { Verdict } from '../../mirror/problems.ts';
import type { Snapshot } from '../snapshot.ts';
import { bytes, codeWords, count, figure, kindPlural, sentenceCase } from '../words.ts';
import { ActionButton } from './controls.tsx';
import { Ago, Facts, Instant, quiet, State, Tile } from './pieces.tsx';

export const verdictWords = (verdict: Verdict) => sentenceCase(codeWords(verdict));

/** For each kind: how many records there are, and how far they can be trusted. */
export function KindCards({ kinds, summary, live }: Snapshot) {
  if (summary === null) {
    return (
      <Tile part="records" title="Records">
        <p class="note">The database could not be read.</p>
      </Tile>
    );
  }
  return kinds.map(({ kind, verdict, records, unverified, deleted, ...reads }) => (
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
            'To be verified',
            unverified === 0 ? '0' : <a href={`/records/${kind}?unverified=yes`}>{figure(unverified)}</a>,
          ],
          !live.eventsOnly && [
            'Complete through',
            <Instant
              at={reads.complete_through}
              otherwise={quiet(reads.complete ? 'not yet' : 'not proven')}
            />,
          ],
          !live.eventsOnly && [
            'Last full sync',
            <Ago at={reads.last_full_sync_at} otherwise={quiet('none yet')} />,
          ],
          reads.accepted > 0 && ['Differences accepted', figure(reads.accepted)],
        ]}
      />
    </Tile>
  ));
}

export function UpstreamTile({ live: { upstream } }: Snapshot) {
  const { configured, origin, ok, last_error, budget_left, budget_per_minute, waits_until } = upstream;
  if (!configured) return <div data-part="upstream" />;
  const state = ok === false ? 'unreachable' : ok === true ? 'in_sync' : '';
  const words = ok === false ? 'cannot be read' : ok === true ? 'answers' : 'not asked yet';
  const waits = (
    <>
      <Instant at={waits_until} />, as the service asked (Retry-After)
    </>
  );
  return (
    <Tile
      part="upstream"
      title="Compliance service"
      width="half"
      aside={<State state={state} words={words} />}
    >
      <p class="note">{[origin, ok === false && last_error].filter((each) => !!each).join(': ')}</p>
      <Facts
        className="pairs"
        facts={[
          ok === false && ['Failures in a row', figure(upstream.consecutive_failures), { isWarning: true }],
          waits_until !== null && ['Waits until', waits, { isWarning: true }],
          upstream.last_ok_at !== null && ['Last useful answer', <Ago at={upstream.last_ok_at} />],
          ['Requests left', `${figure(budget_left)} of ${figure(budget_per_minute)} a minute`],
        ]}
      />
    </Tile>
  );
}

export function ServiceTile({ live, summary }: Snapshot) {
  return (
    <Tile
      part="service"
      title="This service"
      width="half"
      aside={<State state={live.state === 'running' ? 'in_sync' : ''} words={live.state} />}
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
          summary && ['Database', bytes(summary.database_bytes)],
        ]}
      />
      <h3>Signing secrets, and their last use</h3>
      <Facts
        className="pairs"
        facts={live.secrets.map(({ position, registration, lastUsedAt }) => [
          `${position}. ${registration === null ? 'configured' : `of the registration ${registration}`}`,
          <Ago at={lastUsedAt} otherwise="not since the start" />,
        ])}
      />
      {live.notifies ? (
        <ActionButton action="/actions/notify-test" id="notify-test">
          Test NOTIFY_URL
        </ActionButton>
      ) : null}
    </Tile>
  );
}

function minutesWords(ms: number): string {
  return ms < 60_000 ? count(Math.round(ms / 1000), 'second') : count(Math.round(ms / 6000) / 10, 'minute');
}
