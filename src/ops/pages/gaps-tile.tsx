import type { GapReport, OpenGaps } from '../../store/reports.ts';
import { gapText } from '../gap-texts.ts';
import type { Snapshot } from '../snapshot.ts';
import { oldestOf } from '../verdict-facts.ts';
import { figure, kindPlural } from '../words.ts';
import { recordHref } from './hrefs.ts';
import { Instant, Tile } from './pieces.tsx';

const IDS_SHOWN = 12;

export function GapsTile({ snapshot: { summary, gaps, at } }: { snapshot: Snapshot }) {
  const groups = [...Map.groupBy(summary?.open_gaps_by ?? [], (gap) => gap.reason)].sort(
    ([a], [b]) => Number(gapText(b).needsPerson) - Number(gapText(a).needsPerson),
  );
  return (
    <Tile part="gaps" title="Open gaps">
      {groups.length === 0 ? (
        <p class="note">{summary === null ? 'The database could not be read.' : 'None open.'}</p>
      ) : (
        <ul class="gaps">
          {groups.map(([reason, counted]) => (
            <GapGroup
              reason={reason}
              counted={counted}
              newest={gaps.filter((gap) => gap.reason === reason)}
              now={at}
            />
          ))}
        </ul>
      )}
      <p class="note">
        {summary === null ? null : `${figure(summary.resolved_gaps_last_day)} resolved in the last day. `}
        <a href="/gaps">All gaps, and what to do about each</a>
      </p>
    </Tile>
  );
}

function GapGroup({
  reason,
  counted,
  newest,
  now,
}: {
  reason: string;
  /** All that are open, by kind. */
  counted: readonly OpenGaps[];
  /** As far as they are among the newest of all. */
  newest: readonly GapReport[];
  now: number;
}) {
  const { title, remedy } = gapText(reason);
  const open = counted.reduce((sum, gap) => sum + gap.count, 0);
  const since = oldestOf(counted);
  const error = newest.find((gap) => gap.error !== null)?.error ?? null;
  const named = newest.filter((gap) => gap.record_id !== null).slice(0, IDS_SHOWN);
  const unnamed = named.length === 0 ? 0 : open - named.length;
  const kinds = counted.map((gap) => gap.kind).filter((kind) => kind !== null);
  return (
    <li>
      <h3>
        {title}
        <small>
          {open > 1 ? `${figure(open)} times, ` : ''}
          {kinds.length > 0 ? `${kinds.map(kindPlural).join(', ')}, ` : ''}
          {since === null ? null : (
            <>
              since <Instant at={since} now={now} />
            </>
          )}
        </small>
      </h3>
      <p>{remedy}</p>
      {error === null ? null : <p class="error">{error}</p>}
      {named.length === 0 ? null : (
        <ul class="ids">
          {named.map((gap) => (
            <li>
              {gap.kind === null || gap.record_id === null ? (
                <code>{gap.record_id}</code>
              ) : (
                <a href={recordHref(gap.kind, gap.record_id)}>
                  <code>{gap.record_id}</code>
                </a>
              )}
            </li>
          ))}
          {unnamed > 0 ? <li class="quiet">and {figure(unnamed)} more</li> : null}
        </ul>
      )}
    </li>
  );
}
