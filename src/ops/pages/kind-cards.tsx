import type { KindStatus } from '../../store/reports.ts';
import type { Snapshot } from '../snapshot.ts';
import { cycleOf, cycleWords } from '../status-report.ts';
import { figure, kindPlural } from '../words.ts';
import { Ago, Facts, Instant, Tile } from './pieces.tsx';
import { VERDICT_WORDS } from './verdict-section.tsx';

/** What is held of each kind, and how far it can be trusted. */
export function KindCards({ snapshot }: { snapshot: Snapshot }) {
  const { summary, live } = snapshot;
  if (summary === null) {
    return (
      <Tile part="records" title="Records">
        <p class="note">The database could not be read.</p>
      </Tile>
    );
  }
  return summary.kinds.map((kind) => (
    <Tile
      part={kind.kind}
      width="third"
      title={<a href={`/records/${kind.kind}`}>{sentenceCase(kindPlural(kind.kind))}</a>}
      aside={<span class={`state ${kind.verdict}`}>{VERDICT_WORDS[kind.verdict]}</span>}
    >
      <Figures kind={kind} />
      <p class="reach">
        {sentenceCase(kind.coverage)}
        {kind.kind === 'risk_assessment' && !live.eventsOnly
          ? `. Reading them all: ${cycleWords(cycleOf(snapshot))}`
          : ''}
      </p>
    </Tile>
  ));
}

function Figures({ kind }: { kind: KindStatus }) {
  return (
    <>
      <p class="big">
        {figure(kind.records)}{' '}
        <small>
          {kind.records === 1 ? 'record' : 'records'}
          {kind.deleted > 0 ? `, and ${figure(kind.deleted)} deleted` : ''}
        </small>
      </p>
      <Facts
        className="pairs"
        facts={[
          [
            'Verified',
            kind.records === kind.verified ? (
              figure(kind.verified)
            ) : (
              <a href={`/records/${kind.kind}?unverified=yes`}>
                {figure(kind.verified)} of {figure(kind.records)}
              </a>
            ),
          ],
          [
            'Complete through',
            kind.complete_through === null ? (
              <span class="quiet">no instant yet</span>
            ) : (
              <Instant at={kind.complete_through} />
            ),
          ],
          [
            'Last full sync',
            kind.last_full_sync_at === null ? (
              <span class="quiet">none yet</span>
            ) : (
              <Ago at={kind.last_full_sync_at} />
            ),
          ],
        ]}
      />
    </>
  );
}

function sentenceCase(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
