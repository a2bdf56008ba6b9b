import type { GapReport } from '../../store/reports.ts';
import { gapText } from '../gap-texts.ts';
import { recordHref } from '../hrefs.ts';
import type { Snapshot } from '../snapshot.ts';
import { count, figure, kindPlural } from '../words.ts';
import { Instant, Tile } from './pieces.tsx';

const IDS_SHOWN = 12;

export function GapsTile({ snapshot: { summary, gaps, at } }: { snapshot: Snapshot }) {
  const groups = [...Map.groupBy(gaps, (gap) => gap.reason)].sort(
    ([a], [b]) => Number(gapText(b).needsPerson) - Number(gapText(a).needsPerson),
  );
  const unlisted = (summary?.open_gaps ?? 0) - gaps.length;
  return (
    <Tile part="gaps" title="Open gaps">
      {groups.length === 0 ? (
        <p class="note">
          {summary === null
            ? 'The database could not be read.'
            : 'None. Whatever was missed has been found and repaired.'}
        </p>
      ) : (
        <ul class="gaps">
          {groups.map(([reason, members]) => (
            <GapGroup reason={reason} members={members} now={at} />
          ))}
        </ul>
      )}
      {unlisted > 0 ? <p class="note">And {count(unlisted, 'older gap')}.</p> : null}
      <p class="note">
        {summary === null ? null : `${figure(summary.healed_gaps_last_day)} healed in the last day. `}
        <a href="/gaps">All gaps, and what to do about each</a>
      </p>
    </Tile>
  );
}

function GapGroup({ reason, members, now }: { reason: string; members: GapReport[]; now: number }) {
  const { title, remedy } = gapText(reason);
  const oldest = members.at(-1)!;
  const error = members.find((gap) => gap.error !== null)?.error ?? null;
  const named = members.filter((gap) => gap.record_id !== null);
  const kinds = [...new Set(members.map((gap) => gap.kind).filter((kind) => kind !== null))];
  return (
    <li>
      <h3>
        {title}
        <small>
          {members.length > 1 ? `${members.length} times, ` : ''}
          {kinds.length > 0 ? `${kinds.map(kindPlural).join(', ')}, ` : ''}
          since <Instant at={oldest.opened_at} now={now} />
        </small>
      </h3>
      <p>{remedy}</p>
      {error === null ? null : <p class="error">{error}</p>}
      {named.length === 0 ? null : (
        <ul class="ids">
          {named.slice(0, IDS_SHOWN).map((gap) => (
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
          {named.length > IDS_SHOWN ? <li class="quiet">and {named.length - IDS_SHOWN} more</li> : null}
        </ul>
      )}
    </li>
  );
}
