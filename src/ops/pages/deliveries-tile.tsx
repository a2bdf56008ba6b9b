import { RANGES, type Range, reasonsOf, type TrafficPoint, type TrafficSeries } from '../series.ts';
import type { Snapshot } from '../snapshot.ts';
import { codeWords, count, duration, figure } from '../words.ts';
import { Chart, Legend } from './chart.tsx';
import { Ago, Tile } from './pieces.tsx';

/** What the chart shows. */
export interface Traffic {
  range: Range;
  series: TrafficSeries;
}

const STEPS: Readonly<Record<Range, { step: string; from: string }>> = {
  hour: { step: 'one minute', from: '60 minutes ago' },
  day: { step: '15 minutes', from: '24 hours ago' },
  week: { step: 'two hours', from: '7 days ago' },
};

const LAYERS = [
  { className: 'ok', name: 'accepted' },
  { className: 'again', name: 'duplicate' },
  { className: 'held', name: 'quarantined' },
  { className: 'bad', name: 'rejected' },
] as const;

/** The stream of the status page with this range. */
export const streamOf = (range: Range) => (range === 'hour' ? '/stream' : `/stream?range=${range}`);

export function DeliveriesTile({ snapshot, traffic }: { snapshot: Snapshot; traffic: Traffic }) {
  const { live, summary } = snapshot;
  if (summary !== null && summary.last_delivery_at === null) return <FirstSteps snapshot={snapshot} />;
  const { range, series } = traffic;
  const { lastMinute } = live.deliveries;
  const totals = totalsOf(series.points);
  return (
    <Tile
      part="deliveries"
      title={<a href="/deliveries">Deliveries</a>}
      aside={
        <nav class="tabs" aria-label="Range of the chart">
          <ul>
            {(Object.keys(RANGES) as Range[]).map((each) => (
              <li>
                <a
                  href={`/?range=${each}`}
                  data-range={streamOf(each)}
                  {...(each === range ? { 'aria-current': 'true' } : {})}
                >
                  {each}
                </a>
              </li>
            ))}
          </ul>
        </nav>
      }
    >
      <p class="big">
        {figure(totals.accepted)} <small>accepted in the last {range}</small>
      </p>
      <p class="note">
        {figure(lastMinute.accepted)} in the last minute.{' '}
        {summary === null || summary.last_delivery_at === null ? null : (
          <>
            The last one arrived <Ago at={summary.last_delivery_at} />.{' '}
          </>
        )}
        {lagWords(series.points)}
      </p>
      <Bars {...traffic} totals={totals} />
      <Legend layers={LAYERS.map((layer) => ({ ...layer, total: figure(totals[layer.name]) }))} />
      {totals.rejected === 0 ? null : (
        <p class="note">
          Rejected for{' '}
          {reasonsOf(series)
            .map(([reason, times]) => `${codeWords(reason)} (${figure(times)})`)
            .join(', ')}
          . <a href="/deliveries?outcome=rejected">Why each was rejected</a>
        </p>
      )}
    </Tile>
  );
}

type Totals = Record<(typeof LAYERS)[number]['name'], number>;

function Bars({ range, series, totals }: Traffic & { totals: Totals }) {
  const { step, from } = STEPS[range];
  const bars = series.points.map((point) => {
    const counts = totalsOf([point]);
    return {
      at: point.at,
      values: LAYERS.map(({ name }) => counts[name]),
      words: `${instant(point.at)} · ${totalsWords(counts)}`,
    };
  });
  const most = Math.max(0, ...bars.map(({ values }) => values.reduce((sum, value) => sum + value, 0)));
  const peak = `at most ${figure(most)} in ${step}`;
  return (
    <Chart
      label={`Deliveries of the last ${range}: ${totalsWords(totals)}; ${peak}`}
      layers={LAYERS}
      brush={{ href: '/deliveries', stepMs: series.stepMs }}
      {...{ bars, most, from, peak }}
    />
  );
}

function totalsOf(points: readonly TrafficPoint[]): Totals {
  const totals = { accepted: 0, duplicate: 0, quarantined: 0, rejected: 0 };
  for (const { accepted, duplicate, quarantined, rejected } of points) {
    totals.accepted += accepted;
    totals.duplicate += duplicate;
    totals.quarantined += quarantined;
    for (const times of rejected.values()) totals.rejected += times;
  }
  return totals;
}

const totalsWords = (totals: Totals) =>
  LAYERS.map(({ name }) => `${figure(totals[name])} ${name}`).join(', ');

/** How long records stayed unverified, in the range of the chart. */
function lagWords(points: readonly TrafficPoint[]): string {
  let [times, totalMs, maxMs] = [0, 0, 0];
  for (const { verification } of points) {
    times += verification.times;
    totalMs += verification.totalMs;
    maxMs = Math.max(maxMs, verification.maxMs);
  }
  if (times === 0) return '';
  return `From change to verified: ${duration(totalMs / times)} on average, ${duration(maxMs)} at most.`;
}

function instant(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}

/** Replaces the chart until the first delivery: the steps of the set-up that are left. */
function FirstSteps({ snapshot: { live } }: { snapshot: Snapshot }) {
  const rejected = Object.values(live.deliveries.lastHour.rejected).reduce((sum, times) => sum + times, 0);
  const steps: [what: string, how: unknown, isDone: boolean][] = [
    [
      'Give it access to the API',
      <>
        <code>COMPLIANCE_BASE_URL</code> and <code>COMPLIANCE_API_KEY</code>. Without them the mirror knows
        only what deliveries say.
      </>,
      !live.eventsOnly,
    ],
    [
      'Set the signing secret',
      <>
        <code>WEBHOOK_SECRETS</code>, as the compliance service shows it. One that registering brings is
        stored by itself.
      </>,
      live.signingSecrets > 0,
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
        <code>compliance-mirror setup</code> asks for all of it, step by step.
      </p>
    </Tile>
  );
}
