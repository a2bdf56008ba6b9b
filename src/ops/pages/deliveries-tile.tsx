import type { Snapshot } from '../snapshot.ts';
import { reasonsOf, rejectedIn, type TrafficCounts, type TrafficSeries } from '../traffic.ts';
import { codeWords, count, duration, figure } from '../words.ts';
import { Ago, Tile } from './pieces.tsx';

/** From the bottom of a bar up; `className` has its colour. */
const LAYERS = [
  { className: 'ok', name: 'accepted', of: ({ accepted }: TrafficCounts) => accepted },
  { className: 'again', name: 'duplicate', of: ({ duplicate }: TrafficCounts) => duplicate },
  { className: 'held', name: 'quarantined', of: ({ quarantined }: TrafficCounts) => quarantined },
  { className: 'bad', name: 'rejected', of: rejectedIn },
] as const;

export function DeliveriesTile({ summary, traffic }: Snapshot) {
  const { total } = traffic;
  const { last_delivery_at: last = null, oldest_pending_at: oldest = null, events } = summary ?? {};
  const isFirst = summary !== null && last === null;
  return (
    <Tile part="deliveries" title={<a href="/deliveries">Deliveries</a>}>
      <p class="big">
        {figure(total.accepted)} <small>accepted in the last hour</small>
      </p>
      <p class="note">
        {isFirst ? NONE_YET : null}
        {last === null ? null : (
          <>
            The last one arrived <Ago at={last} />.{' '}
          </>
        )}
        {oldest === null || events === undefined ? null : (
          <>
            {count(events.pending, 'event waits', 'events wait')}, the oldest since <Ago at={oldest} />.{' '}
          </>
        )}
        {lagWords(total)}
      </p>
      {isFirst ? null : <Chart {...traffic} />}
      <ul class="legend">
        {LAYERS.map(({ className, name, of }) => (
          <li>
            <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">
              <rect class={className} width="10" height="10" rx="2" />
            </svg>
            {name} <strong>{figure(of(total))}</strong>
          </li>
        ))}
      </ul>
      {rejectedIn(total) === 0 ? null : (
        <p class="note">
          Rejected for{' '}
          {reasonsOf(total)
            .map(([reason, times]) => `${codeWords(reason)} (${figure(times)})`)
            .join(', ')}
          . <a href="/deliveries?outcome=rejected">Why each was rejected</a>
        </p>
      )}
    </Tile>
  );
}

const NONE_YET = (
  <>
    No delivery has arrived yet. <code>compliance-mirror setup</code> asks for what is missing, registers the
    webhook and waits for a first delivery.{' '}
  </>
);

const countWords = (counts: TrafficCounts) =>
  LAYERS.map(({ name, of }) => `${figure(of(counts))} ${name}`).join(', ');

/** How long records stayed unverified. */
function lagWords({ verification: { times, totalMs, maxMs } }: TrafficCounts): string {
  if (times === 0) return '';
  return `From change to verified: ${duration(totalMs / times)} on average, ${duration(maxMs)} at most.`;
}

/** Sizes in units of the drawing, which is stretched to the width of its tile. */
const PITCH = 10;
const GAP = 3;
const HEIGHT = 96;
/** Above the highest bar. */
const HEADROOM = 2;
/** One delivery must still be visible beside a thousand. */
const BAR_MIN = 2;

/**
 * Stacked bars, drawn by the server as SVG. Libraries that draw by script were refused: without scripts the page would show
 * nothing. Sizes are attributes, because the content security policy allows no inline style.
 */
function Chart({ points, total }: TrafficSeries) {
  const most = Math.max(...points.map((point) => LAYERS.reduce((sum, { of }) => sum + of(point), 0)));
  const peak = `at most ${figure(most)} in one minute`;
  const width = points.length * PITCH - GAP;
  return (
    <figure class="chart">
      <svg
        viewBox={`0 0 ${width} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Deliveries of the last hour: ${countWords(total)}; ${peak}`}
      >
        <rect class="base" x="0" y={HEIGHT - 1} width={width} height="1" />
        {points.map((point, index) => (
          <Bar point={point} x={index * PITCH} unit={(HEIGHT - HEADROOM) / most} />
        ))}
      </svg>
      <div class="axis">
        <span>60 minutes ago</span>
        <span>{peak}</span>
        <span>now</span>
      </div>
    </figure>
  );
}

/** `unit`: the height of one delivery. */
function Bar({ point, x, unit }: { point: TrafficSeries['points'][number]; x: number; unit: number }) {
  let top = HEIGHT;
  const layers = LAYERS.filter(({ of }) => of(point) > 0).map(({ className, of }) => {
    const height = Math.min(top, Math.max(BAR_MIN, Math.round(of(point) * unit)));
    top -= height;
    return <rect class={className} x={x} y={top} width={PITCH - GAP} height={height} />;
  });
  // An empty bar would say nothing, and most bars of a quiet hour are empty.
  if (layers.length === 0) return null;
  return (
    <g class="bar">
      <rect class="hit" x={x} y="0" width={PITCH} height={HEIGHT} />
      {layers}
      <title>
        {new Date(point.at).toISOString().slice(0, 16).replace('T', ' ')} UTC · {countWords(point)}
      </title>
    </g>
  );
}
