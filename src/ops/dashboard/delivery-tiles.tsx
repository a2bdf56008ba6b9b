import { type RecentDeliveries, refusedTotal } from '../recent.ts';
import type { Snapshot } from '../snapshot.ts';
import { codeWords, count, figure } from '../words.ts';
import { Ago, Tile } from './pieces.tsx';

export function DeliveriesTile({ snapshot: { live, summary, at } }: { snapshot: Snapshot }) {
  const { lastHour, lastMinute } = live.deliveries;
  const refused = Object.entries(lastHour.refused).sort((a, b) => b[1] - a[1]);
  return (
    <Tile part="deliveries" title="Deliveries in the last hour" width="two-thirds">
      <p class="big">
        {figure(lastHour.accepted)}{' '}
        <small>
          accepted, {figure(lastHour.duplicate)} duplicate, {figure(refusedTotal(lastHour))} refused
        </small>
      </p>
      <Bars perMinute={live.deliveries.perMinute} />
      <div class="axis">
        <span>60 minutes ago</span>
        <span>now</span>
      </div>
      <p class="note">
        {figure(lastMinute.accepted + lastMinute.duplicate)} in the last minute.{' '}
        {summary?.last_delivery_at == null ? (
          'None has ever arrived.'
        ) : (
          <>
            The last one arrived <Ago at={summary.last_delivery_at} now={at} />.
          </>
        )}
      </p>
      {refused.length === 0 ? null : (
        <dl class="pairs" aria-label="Refused deliveries by reason">
          {refused.map(([reason, times]) => (
            <>
              <dt>Refused: {codeWords(reason)}</dt>
              <dd>{figure(times)}</dd>
            </>
          ))}
        </dl>
      )}
    </Tile>
  );
}

const BAR_PITCH = 10;
const BAR_WIDTH = 6;
const CHART_HEIGHT = 56;
/** What came once must still be seen beside what came a thousand times. */
const BAR_MIN = 2;

function Bars({ perMinute }: Pick<RecentDeliveries, 'perMinute'>) {
  const most = Math.max(1, ...perMinute.map(({ delivered, refused }) => delivered + refused));
  const height = (times: number) =>
    times === 0 ? 0 : Math.max(BAR_MIN, Math.round((times / most) * (CHART_HEIGHT - 2)));
  const width = perMinute.length * BAR_PITCH - (BAR_PITCH - BAR_WIDTH);
  return (
    <svg
      class="bars"
      viewBox={`0 0 ${width} ${CHART_HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Deliveries per minute over the last hour, at most ${figure(most)} in one minute`}
    >
      <rect class="base" x="0" y={CHART_HEIGHT - 1} width={width} height="1" />
      {perMinute.map(({ delivered, refused }, minute) => {
        const good = height(delivered);
        const bad = Math.min(height(refused), CHART_HEIGHT - good);
        return (
          <>
            {good > 0 ? (
              <rect
                class="ok"
                x={minute * BAR_PITCH}
                y={CHART_HEIGHT - good}
                width={BAR_WIDTH}
                height={good}
              />
            ) : null}
            {bad > 0 ? (
              <rect
                class="bad"
                x={minute * BAR_PITCH}
                y={CHART_HEIGHT - good - bad}
                width={BAR_WIDTH}
                height={bad}
              />
            ) : null}
          </>
        );
      })}
    </svg>
  );
}

export function BacklogTile({ snapshot: { summary, at } }: { snapshot: Snapshot }) {
  return (
    <Tile part="backlog" title="Backlog" width="third">
      <p class="big">
        {summary === null ? '–' : figure(summary.events.pending)}{' '}
        <small>{summary?.events.pending === 1 ? 'event waits' : 'events wait'}</small>
      </p>
      <p class="note">
        {summary?.oldest_pending_at == null ? (
          'Every event received has been worked off.'
        ) : (
          <>
            The oldest was received <Ago at={summary.oldest_pending_at} now={at} />.
          </>
        )}
      </p>
      {summary === null ? null : (
        <dl class="pairs">
          <dt>Worked off</dt>
          <dd>{figure(summary.events.done + summary.events.ignored)}</dd>
          <dt>Dead letters</dt>
          <dd class={summary.events.dead > 0 ? 'warn' : ''}>{figure(summary.events.dead)}</dd>
          <dt>In quarantine</dt>
          <dd>{figure(summary.quarantined)}</dd>
        </dl>
      )}
      {summary === null ? (
        <p class="note">The database could not be read: {count(0, 'figure')} to show.</p>
      ) : null}
    </Tile>
  );
}
