import { reasonsOf, type TrafficPoint, type TrafficSeries } from '../series.ts';
import type { Snapshot } from '../snapshot.ts';
import { codeWords, count, figure } from '../words.ts';
import { Chart, Legend } from './chart.tsx';
import { Ago, Tile } from './pieces.tsx';

/** Colours that can be told apart beside each other; what is rarer shares the last one. */
const REASON_LAYERS = 4;

const SPANS = [
  { of: 'hour', words: 'Last hour', step: 'one minute', from: '60 minutes ago' },
  { of: 'day', words: 'Last day', step: '15 minutes', from: '24 hours ago' },
] as const;

export function DeliveriesTile({ snapshot: { traffic, live, summary, at } }: { snapshot: Snapshot }) {
  const layers = [
    { className: 'ok', name: 'accepted' },
    { className: 'again', name: 'duplicate' },
    { className: 'bad', name: 'rejected' },
  ];
  const { lastMinute } = live.deliveries;
  const hour = deliveredIn(traffic.hour.points);
  return (
    <Tile part="deliveries" title="Deliveries" width="two-thirds">
      <p class="big">
        {figure(hour.accepted)} <small>accepted in the last hour</small>
      </p>
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
      <div class="charts">
        {SPANS.map(({ of, words, step, from }) => {
          const { points } = traffic[of];
          const values = points.map((point) => [point.accepted, point.duplicate, rejectedIn(point)]);
          const most = highest(values);
          const totals = deliveredIn(points);
          return (
            <Chart
              label={`Deliveries of the ${words.toLowerCase()}: ${figure(totals.accepted)} accepted, ${figure(totals.duplicate)} duplicate, ${figure(totals.rejected)} rejected; at most ${figure(most)} in ${step}`}
              span={words}
              from={from}
              peak={`at most ${figure(most)} in ${step}`}
              layers={layers}
              most={most}
              bars={points.map((point, index) => ({
                at: point.at,
                values: values[index]!,
                words: `${clock(point.at)} · ${figure(point.accepted)} accepted, ${figure(point.duplicate)} duplicate, ${figure(rejectedIn(point))} rejected`,
              }))}
            />
          );
        })}
      </div>
      <Legend
        layers={layers.map((layer) => ({
          ...layer,
          total: `${figure(hour[layer.name as keyof typeof hour])} · ${figure(deliveredIn(traffic.day.points)[layer.name as keyof typeof hour])}`,
        }))}
      />
      <p class="note small">Figures: the last hour, then the last day.</p>
    </Tile>
  );
}

export function RejectionsTile({ snapshot: { traffic } }: { snapshot: Snapshot }) {
  const named = reasonsOf(traffic.day)
    .slice(0, REASON_LAYERS)
    .map(([reason]) => reason);
  const layers = [
    ...named.map((reason, index) => ({ className: `r${index}`, name: codeWords(reason) })),
    { className: `r${REASON_LAYERS}`, name: 'other reasons' },
  ];
  const valuesOf = ({ rejected }: TrafficPoint) => {
    const parts = named.map((reason) => rejected.get(reason) ?? 0);
    const all = [...rejected.values()].reduce((sum, times) => sum + times, 0);
    return [...parts, all - parts.reduce((sum, times) => sum + times, 0)];
  };
  const total = (series: TrafficSeries, layer: number) =>
    series.points.reduce((sum, point) => sum + valuesOf(point)[layer]!, 0);
  return (
    <Tile part="rejections" title="Rejected, by reason" width="half">
      {named.length === 0 ? (
        <p class="note">No delivery was rejected in the last day.</p>
      ) : (
        <>
          <div class="charts">
            {SPANS.map(({ of, words, step, from }) => {
              const { points } = traffic[of];
              const most = highest(points.map(valuesOf));
              const told = reasonsOf(traffic[of])
                .map(([reason, times]) => `${codeWords(reason)} ${figure(times)}`)
                .join(', ');
              return (
                <Chart
                  label={`Rejected deliveries of the ${words.toLowerCase()}: ${told === '' ? 'none' : told}`}
                  span={words}
                  from={from}
                  peak={most === 0 ? 'none' : `at most ${figure(most)} in ${step}`}
                  layers={layers}
                  most={most}
                  bars={points.map((point) => ({
                    at: point.at,
                    values: valuesOf(point),
                    words: `${clock(point.at)} · ${
                      [...point.rejected]
                        .map(([reason, times]) => `${codeWords(reason)} ${figure(times)}`)
                        .join(', ') || 'none rejected'
                    }`,
                  }))}
                />
              );
            })}
          </div>
          <Legend
            layers={layers
              .map((layer, index) => ({
                ...layer,
                day: total(traffic.day, index),
                hour: total(traffic.hour, index),
              }))
              .filter(({ day }) => day > 0)
              .map(({ day, hour, ...layer }) => ({ ...layer, total: `${figure(hour)} · ${figure(day)}` }))}
          />
          <p class="note small">
            Figures: the last hour, then the last day. <a href="/rejections">Why each was rejected</a>
          </p>
        </>
      )}
    </Tile>
  );
}

const LAG_LAYERS = [
  { className: 'ok', name: 'on average' },
  { className: 'peak', name: 'the slowest' },
];

export function LagTile({ snapshot: { traffic } }: { snapshot: Snapshot }) {
  const day = lagIn(traffic.day.points, 'verification');
  const provisional = lagIn(traffic.hour.points, 'provisional');
  const hour = lagIn(traffic.hour.points, 'verification');
  return (
    <Tile part="lag" title="From change to verified" width="half">
      {day.times === 0 ? (
        <p class="note">Nothing was verified in the last day, so there is no lag to show.</p>
      ) : (
        <>
          <div class="charts">
            {SPANS.map(({ of, words, from }) => {
              const { points } = traffic[of];
              const values = points.map(({ lag: { verification } }) => {
                const mean = verification.times === 0 ? 0 : verification.totalMs / verification.times;
                return [mean, Math.max(0, verification.maxMs - mean)];
              });
              const most = highest(values);
              const all = lagIn(points, 'verification');
              return (
                <Chart
                  label={`How long records stayed unverified in the ${words.toLowerCase()}: ${all.times === 0 ? 'none did' : `${duration(all.meanMs)} on average, ${duration(all.maxMs)} at most`}`}
                  span={words}
                  from={from}
                  peak={most === 0 ? 'none' : `at most ${duration(most)}`}
                  layers={LAG_LAYERS}
                  most={most}
                  bars={points.map((point, index) => ({
                    at: point.at,
                    values: values[index]!,
                    words: `${clock(point.at)} · ${lagWords(point.lag.verification)}`,
                  }))}
                />
              );
            })}
          </div>
          <Legend
            layers={[
              { ...LAG_LAYERS[0]!, total: `${duration(hour.meanMs)} · ${duration(day.meanMs)}` },
              { ...LAG_LAYERS[1]!, total: `${duration(hour.maxMs)} · ${duration(day.maxMs)}` },
            ]}
          />
          <p class="note small">
            Figures: the last hour, then the last day.{' '}
            {provisional.times === 0
              ? ''
              : `Payloads were in the tables ${duration(provisional.meanMs)} after their arrival, on average.`}
          </p>
        </>
      )}
    </Tile>
  );
}

function rejectedIn({ rejected }: TrafficPoint): number {
  return [...rejected.values()].reduce((sum, times) => sum + times, 0);
}

function deliveredIn(points: readonly TrafficPoint[]) {
  const total = { accepted: 0, duplicate: 0, rejected: 0 };
  for (const point of points) {
    total.accepted += point.accepted;
    total.duplicate += point.duplicate;
    total.rejected += rejectedIn(point);
  }
  return total;
}

function lagIn(points: readonly TrafficPoint[], what: 'provisional' | 'verification') {
  let [times, totalMs, maxMs] = [0, 0, 0];
  for (const { lag } of points) {
    times += lag[what].times;
    totalMs += lag[what].totalMs;
    maxMs = Math.max(maxMs, lag[what].maxMs);
  }
  return { times, maxMs, meanMs: times === 0 ? 0 : totalMs / times };
}

function lagWords({ times, totalMs, maxMs }: TrafficPoint['lag']['verification']): string {
  if (times === 0) return 'nothing verified';
  return `${count(times, 'record')} verified, ${duration(totalMs / times)} on average, ${duration(maxMs)} at most`;
}

function highest(values: readonly (readonly number[])[]): number {
  return Math.max(0, ...values.map((parts) => parts.reduce((sum, part) => sum + part, 0)));
}

/** As short as it can be said: `340 ms`, `12 s`, `4 min`, `3 h`. */
function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  return ms < 2 * 3_600_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`;
}

function clock(at: number): string {
  return `${new Date(at).toISOString().slice(11, 16)} UTC`;
}
