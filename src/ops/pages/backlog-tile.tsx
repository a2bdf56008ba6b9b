import type { Snapshot } from '../snapshot.ts';
import { figure } from '../words.ts';
import { Ago, Tile } from './pieces.tsx';

export function BacklogTile({ snapshot: { summary, at } }: { snapshot: Snapshot }) {
  return (
    <Tile part="backlog" title="Backlog" width="third">
      <p class="big">
        {summary === null ? '–' : figure(summary.events.pending)}{' '}
        <small>{summary?.events.pending === 1 ? 'event waits' : 'events wait'}</small>
      </p>
      <p class="note">
        {summary === null ? null : summary.oldest_pending_at === null ? (
          'All events are processed.'
        ) : (
          <>
            The oldest was received <Ago at={summary.oldest_pending_at} now={at} />.
          </>
        )}
      </p>
      {summary === null ? null : (
        <dl class="pairs">
          <dt>Processed</dt>
          <dd>{figure(summary.events.processed + summary.events.ignored)}</dd>
          <dt>
            <a href="/events?state=failed">Failed</a>
          </dt>
          <dd class={summary.events.failed > 0 ? 'warn' : ''}>{figure(summary.events.failed)}</dd>
          <dt>
            <a href="/quarantine">In quarantine</a>
          </dt>
          <dd>{figure(summary.quarantined)}</dd>
        </dl>
      )}
      {summary === null ? <p class="note">The database could not be read.</p> : null}
    </Tile>
  );
}
