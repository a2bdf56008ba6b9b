/**
 * Bars, drawn on the server as SVG. A charting library was looked at and refused: those that are small draw by
 * script, so that a page without scripts, which this one must be able to be, would show nothing; and a part that is sent
 * anew every second is drawn for nothing else. Sizes are attributes, because the policy allows no inline style.
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

const PITCH = 10;
const WIDTH = 7;
const HEIGHT = 72;
/** What came once must still be seen beside what came a thousand times. */
const BAR_MIN = 2;

export function Chart({
  label,
  span,
  bars,
  layers,
  most,
  from,
  peak,
}: {
  /** What is drawn, for whoever cannot see it. */
  label: string;
  /** `last hour`. */
  span: string;
  bars: readonly Bar[];
  layers: readonly Layer[];
  /** What a bar of full height stands for. */
  most: number;
  /** Words under the left end. */
  from: string;
  /** Words for `most`. */
  peak: string;
}) {
  const width = bars.length * PITCH - (PITCH - WIDTH);
  const scale = (value: number) =>
    value <= 0 ? 0 : Math.max(BAR_MIN, Math.round((value / Math.max(most, 1e-9)) * (HEIGHT - 2)));
  return (
    <figure class="chart">
      <figcaption>
        <span>{span}</span>
        <span>{peak}</span>
      </figcaption>
      <svg viewBox={`0 0 ${width} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
        <rect class="base" x="0" y={HEIGHT - 1} width={width} height="1" />
        {bars.map((bar, index) => {
          // An empty bar says nothing when pointed at, and is sent to nobody.
          if (bar.values.every((value) => value === 0)) return null;
          let top = HEIGHT;
          const x = index * PITCH;
          return (
            <g class="bar">
              <rect class="hit" x={x} y="0" width={PITCH} height={HEIGHT} />
              {bar.values.map((value, layer) => {
                const height = Math.min(scale(value), top);
                top -= height;
                return height > 0 ? (
                  <rect class={layers[layer]!.className} x={x} y={top} width={WIDTH} height={height} />
                ) : null;
              })}
              <title>{bar.words}</title>
            </g>
          );
        })}
      </svg>
      <div class="axis">
        <span>{from}</span>
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
