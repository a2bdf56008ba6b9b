import { scaleLinear } from 'd3-scale';
import { stack } from 'd3-shape';
import type { LiveFacts } from '../context.ts';
import type { Snapshot } from '../snapshot.ts';
import {
  RANGES,
  type Range,
  reasonsOf,
  rejectedIn,
  type TrafficCounts,
  type TrafficSeries,
} from '../traffic.ts';
import { codeWords, count, duration, figure } from '../words.ts';
import { Ago, Tabs, Tile } from './pieces.tsx';

/** From the bottom of a bar up; `className` has its colour. */
const LAYERS = [
  { className: 'ok', name: 'accepted', of: ({ accepted }: TrafficCounts) => accepted },
  { className: 'again', name: 'duplicate', of: ({ duplicate }: TrafficCounts) => duplicate },
  { className: 'held', name: 'quarantined', of: ({ quarantined }: TrafficCounts) => quarantined },
  { className: 'bad', name: 'rejected', of: rejectedIn },
] as const;

/** The stream of the status page with this range. */
export const streamOf = (range: Range) => (range === 'hour' ? '/stream' : `/stream?range=${range}`);

export function DeliveriesTile({ snapshot, series }: { snapshot: Snapshot; series: TrafficSeries }) {
  const { live, summary } = snapshot;
  if (summary !== null && summary.last_delivery_at === null) return <FirstSteps {...live} />;
  const { range, total } = series;
  const tabs = (Object.keys(RANGES) as Range[]).map((each) => ({
    href: `/?range=${each}`,
    range: streamOf(each),
    words: each,
    isShown: each === range,
  }));
  return (
    <Tile
      part="deliveries"
      title={<a href="/deliveries">Deliveries</a>}
      aside={<Tabs label="Range of the chart" tabs={tabs} />}
    >
      <p class="big">
        {figure(total.accepted)} <small>accepted in the last {range}</small>
      </p>
      <p class="note">
        {figure(live.deliveries.last_minute.accepted)} in the last minute.{' '}
        {summary === null ? null : (
          <>
            The last one arrived <Ago at={summary.last_delivery_at} />.{' '}
          </>
        )}
        {lagWords(total)}
      </p>
      <Chart {...series} />
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
 * Stacked bars: d3 lays them out, and the server draws them as SVG. Libraries that draw by script were refused: without
 * scripts the page would show nothing. Sizes are attributes, because the content security policy allows no inline style.
 * Dragging over bars leads to the deliveries of their time.
 */
function Chart({ range, points, total }: TrafficSeries) {
  const { step, stepMs, from } = RANGES[range];
  const bars = points.map((point) => ({
    at: point.at,
    values: LAYERS.map(({ of }) => of(point)),
    words: `${new Date(point.at).toISOString().slice(0, 16).replace('T', ' ')} UTC · ${countWords(point)}`,
  }));
  const most = Math.max(...bars.map(({ values }) => values.reduce((sum, value) => sum + value, 0)));
  const peak = `at most ${figure(most)} in ${step}`;
  const width = bars.length * PITCH - GAP;
  const scale = scaleLinear([0, most], [0, HEIGHT - HEADROOM]);
  const heightOf = ({ values }: (typeof bars)[number], layer: number) =>
    values[layer] === 0 ? 0 : Math.max(BAR_MIN, Math.round(scale(values[layer]!)));
  const heaps = stack<unknown, (typeof bars)[number], number>().keys(LAYERS.keys()).value(heightOf)(bars);
  return (
    <figure class="chart">
      <svg
        viewBox={`0 0 ${width} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Deliveries of the last ${range}: ${countWords(total)}; ${peak}`}
        data-brush="/deliveries"
        data-from={bars[0]?.at}
        data-step={stepMs}
        data-bars={bars.length}
      >
        <rect class="base" x="0" y={HEIGHT - 1} width={width} height="1" />
        {bars.map(({ values, words }, index) => {
          // An empty bar would say nothing, and most bars of a quiet week are empty.
          if (values.every((value) => value === 0)) return null;
          const x = index * PITCH;
          return (
            <g class="bar">
              <rect class="hit" x={x} y="0" width={PITCH} height={HEIGHT} />
              {heaps.map((heap, layer) => {
                const [bottom, end] = heap[index]!;
                const top = Math.min(end, HEIGHT);
                return top > bottom ? (
                  <rect
                    class={LAYERS[layer]!.className}
                    x={x}
                    y={HEIGHT - top}
                    width={PITCH - GAP}
                    height={top - bottom}
                  />
                ) : null;
              })}
              <title>{words}</title>
            </g>
          );
        })}
        <rect class="brush" x="0" y="0" width="0" height={HEIGHT} />
      </svg>
      <div class="axis">
        <span>{from}</span>
        <span>{peak}</span>
        <span>now</span>
      </div>
    </figure>
  );
}

/** Replaces the chart until the first delivery: the steps of the set-up that are left. */
function FirstSteps(live: LiveFacts) {
  const rejected = rejectedIn(live.deliveries.last_hour);
  const steps: [what: string, how: unknown, isDone: boolean][] = [
    [
      'Give it access to the API',
      live.upstream.configured ? (
        (live.upstream.last_error ?? 'It has not been asked yet.')
      ) : (
        <>
          <code>COMPLIANCE_BASE_URL</code> and <code>COMPLIANCE_API_KEY</code>. Without them the mirror knows
          only what deliveries say.
        </>
      ),
      live.upstream.ok === true,
    ],
    [
      'Set the signing secret',
      <>
        <code>WEBHOOK_SECRETS</code>, as the compliance service shows it. The secret that a registration
        brings is stored automatically.
      </>,
      live.secrets.length > 0,
    ],
    [
      'Register the webhook',
      <>
        <code>compliance-mirror register --url https://…/webhooks</code>, or in the compliance service itself.
      </>,
      live.secrets.some(({ registration }) => registration !== null),
    ],
    [
      'Send a test delivery',
      <>
        Change a record in the compliance service: its delivery shows here at once.{' '}
        {rejected === 0 ? null : (
          <a href="/deliveries?outcome=rejected">
            {count(rejected, 'delivery was', 'deliveries were')} rejected: see why
          </a>
        )}
      </>,
      false,
    ],
  ];
  return (
    <Tile part="deliveries" title="No delivery has arrived yet: what to do next">
      <ol class="steps">
        {steps.map(([what, how, isDone]) => (
          <li class={isDone ? 'done' : ''}>
            <div>
              <strong>{what}</strong>
              {isDone ? <span class="quiet"> · done</span> : <p>{how}</p>}
            </div>
          </li>
        ))}
      </ol>
      <p class="note">
        <code>compliance-mirror setup</code> asks for all of this, step by step.
      </p>
    </Tile>
  );
}
