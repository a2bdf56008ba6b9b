import { describeError } from '../platform/errors.ts';
import type { OpsContext } from './context.ts';
import { RANGES, type Range, seriesOf, seriesStart, type TrafficSeries } from './series.ts';

/** What is drawn again at each look, however many look, is read once in this time: the longer the bars, the more rows. */
const KEPT_MS: Readonly<Record<Range, number>> = { hour: 1_000, day: 5_000, week: 60_000 };

/** Deliveries over a range, up to this moment. A listener never sees it fail: what cannot be read is an empty chart. */
export type Charts = (range: Range) => Promise<TrafficSeries>;

export function createCharts({
  traffic,
  clock,
  logger,
}: Pick<OpsContext, 'traffic' | 'clock' | 'logger'>): Charts {
  const last = new Map<Range, { at: number; series: Promise<TrafficSeries> }>();

  const read = async (range: Range): Promise<TrafficSeries> => {
    const span = RANGES[range];
    const now = clock.wall();
    try {
      const rows = await traffic(seriesStart(span, now), range === 'week' ? 'hour' : 'minute');
      return seriesOf(rows, span, now);
    } catch (error) {
      logger.error({ outcome: 'failed', error: describeError(error) }, 'traffic could not be read');
      return seriesOf([], span, now);
    }
  };

  return (range) => {
    const known = last.get(range);
    if (known !== undefined && clock.steady() - known.at < KEPT_MS[range]) return known.series;
    const series = read(range);
    last.set(range, { at: clock.steady(), series });
    return series;
  };
}
