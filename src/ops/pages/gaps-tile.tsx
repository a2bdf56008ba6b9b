import type { OpenGaps } from '../../store/reports.ts';
import { gapText, oldestOf } from '../gap-texts.ts';
import type { Snapshot } from '../snapshot.ts';
import { figure, kindPlural } from '../words.ts';
import { Instant, Tile } from './pieces.tsx';

/** A line for each reason; what each means and takes stands on the gaps' page. Nothing while none is open. */
export function GapsTile({ snapshot: { summary, gaps } }: { snapshot: Snapshot }) {
  const groups = [...Map.groupBy(summary?.open_gaps_by ?? [], (gap) => gap.reason)].sort(
    ([a], [b]) => Number(gapText(b).needsPerson) - Number(gapText(a).needsPerson),
  );
  if (groups.length === 0) return <div data-part="gaps" />;
  return (
    <Tile part="gaps" title={<a href="/gaps">Open gaps</a>}>
      <ul class="gaps">
        {groups.map(([reason, counted]) => (
          <Line
            reason={reason}
            counted={counted}
            error={gaps.find((gap) => gap.reason === reason && gap.error !== null)?.error ?? null}
          />
        ))}
      </ul>
    </Tile>
  );
}

function Line({
  reason,
  counted,
  error,
}: {
  reason: string;
  /** All that are open, by kind. */
  counted: readonly OpenGaps[];
  error: string | null;
}) {
  const open = counted.reduce((sum, gap) => sum + gap.count, 0);
  const since = oldestOf(counted);
  const kinds = counted.map((gap) => gap.kind).filter((kind) => kind !== null);
  return (
    <li>
      <div>
        <a href={`/gaps#gap-${encodeURIComponent(reason)}`}>{gapText(reason).title}</a>
        {error === null ? null : <div class="error">{error}</div>}
      </div>
      <span class="quiet">
        {open > 1 ? `${figure(open)} times, ` : ''}
        {kinds.length > 0 ? `${kinds.map(kindPlural).join(', ')}, ` : ''}
        {since === null ? null : (
          <>
            since <Instant at={since} />
          </>
        )}
      </span>
    </li>
  );
}
