import { scaleBand, scaleLinear } from 'd3-scale';
import { stack } from 'd3-shape';

/**
 * Stacked bars: d3 lays them out, and the server draws them as SVG. Libraries that draw by script were refused: without
 * scripts the page would show nothing. Sizes are attributes, because the content security policy allows no inline style.
 */

export interface Bar {
  /** When it begins, wall-clock milliseconds. */
  at: number;
  /** One for each layer, from the bottom up. */
  values: readonly number[];
  /** Shown when the pointer is on it. */
  words: string;
}

export interface Layer {
  /** A class of the style sheet, for the colour. */
  className: string;
  name: string;
}

/** In units of the drawing, which is stretched to the width of its tile. */
const PITCH = 10;
const GAP = 3;
const HEIGHT = 96;
/** Above the highest bar. */
const HEADROOM = 2;
/** One delivery must still be visible beside a thousand. */
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
  /** For screen readers. */
  label: string;
  bars: readonly Bar[];
  layers: readonly Layer[];
  /** The value of a bar of full height. */
  most: number;
  /** Words under the left end. */
  from: string;
  /** Words for `most`, in the middle. */
  peak: string;
  /** Dragging over bars leads to `href`, with `since` and `until` of the dragged time. */
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
          // An empty bar would say nothing, and most bars of a quiet week are empty.
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
