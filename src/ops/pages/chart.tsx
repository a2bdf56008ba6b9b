import { scaleBand, scaleLinear } from 'd3-scale';
import { stack } from 'd3-shape';

/**
 * Stacked bars: d3 lays them out, and the server draws them as SVG. Libraries that draw by script were refused: a page
 * whose scripts do not run, which this one must be able to be, would show nothing. Sizes are attributes, because the
 * policy allows no inline style.
 */

export interface Bar {
  /** When it begins, wall-clock milliseconds. */
  at: number;
  /** From the base line up, one for each layer. */
  values: readonly number[];
  /** What it says when pointed at. */
  words: string;
}

export interface Layer {
  /** Of the style sheet: its colour. */
  className: string;
  name: string;
}

/** In units of the drawing, which is stretched to its place: from one bar to the next, and between two. */
const PITCH = 10;
const GAP = 3;
const HEIGHT = 96;
/** Above the highest bar. */
const HEADROOM = 2;
/** What came once must still be seen beside what came a thousand times. */
const BAR_MIN = 2;

export function Chart({
  label,
  bars,
  layers,
  most,
  from,
  peak,
  brush,
}: {
  /** What is drawn, for whoever cannot see it. */
  label: string;
  bars: readonly Bar[];
  layers: readonly Layer[];
  /** What a bar of full height stands for. */
  most: number;
  /** Words under the left end. */
  from: string;
  /** Words for `most`, in the middle. */
  peak: string;
  /** Where dragging over bars leads, with `since` and `until` of what was dragged over; how long a bar is. */
  brush: { href: string; stepMs: number };
}) {
  const width = bars.length * PITCH - GAP;
  const places = scaleBand(bars.keys(), [0, width]).paddingInner(GAP / PITCH);
  const height = scaleLinear([0, Math.max(most, Number.MIN_VALUE)], [0, HEIGHT - HEADROOM]).clamp(true);
  const drawn = (bar: Bar, layer: number) =>
    bar.values[layer]! <= 0 ? 0 : Math.max(BAR_MIN, Math.round(height(bar.values[layer]!)));
  const heaps = stack<unknown, Bar, number>().keys(layers.keys()).value(drawn)([...bars]);
  return (
    <figure class="chart">
      <svg
        viewBox={`0 0 ${width} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
        data-brush={brush.href}
        data-from={bars[0]?.at}
        data-step={brush.stepMs}
        data-bars={bars.length}
      >
        <rect class="base" x="0" y={HEIGHT - 1} width={width} height="1" />
        {bars.map((bar, index) => {
          // An empty bar says nothing when pointed at, and is sent to nobody.
          if (bar.values.every((value) => value === 0)) return null;
          const x = places(index);
          return (
            <g class="bar">
              <rect class="hit" x={x} y="0" width={PITCH} height={HEIGHT} />
              {heaps.map((heap, layer) => {
                const [from, to] = heap[index]!.map((at) => Math.min(at, HEIGHT)) as [number, number];
                return to > from ? (
                  <rect
                    class={layers[layer]!.className}
                    x={x}
                    y={HEIGHT - to}
                    width={places.bandwidth()}
                    height={to - from}
                  />
                ) : null;
              })}
              <title>{bar.words}</title>
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

export function Legend({ layers }: { layers: readonly (Layer & { total: string })[] }) {
  return (
    <ul class="legend">
      {layers.map(({ className, name, total }) => (
        <li>
          <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">
            <rect class={className} width="10" height="10" rx="2" />
          </svg>
          {name} <strong>{total}</strong>
        </li>
      ))}
    </ul>
  );
}
