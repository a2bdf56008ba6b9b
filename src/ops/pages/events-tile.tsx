import type { Snapshot } from '../snapshot.ts';
import { figure } from '../words.ts';
import { Ago, Facts, Tile } from './pieces.tsx';

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
