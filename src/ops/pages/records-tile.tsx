import { cycleWords } from '../cycle.ts';
import type { Snapshot } from '../snapshot.ts';
import { cycleIn } from '../status-report.ts';
import { figure, kindPlural } from '../words.ts';
import { Ago, Instant, Tile } from './pieces.tsx';
import { VERDICT_WORDS } from './verdict-section.tsx';

export function RecordsTile({ snapshot }: { snapshot: Snapshot }) {
  const { summary, live, at } = snapshot;
  const kinds = summary?.kinds ?? [];
  return (
    <Tile part="records" title="Records">
      {kinds.length === 0 ? <p class="note">The database could not be read.</p> : null}
      <section class="scroll" aria-label="Records by kind" tabindex={0} id="records-scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Kind</th>
              <th scope="col">State</th>
              <th scope="col" class="n">
                Held
              </th>
              <th scope="col" class="n">
                Verified
              </th>
              <th scope="col" class="n">
                Unverified
              </th>
              <th scope="col" class="n">
                Deleted
              </th>
              <th scope="col">Compared in full</th>
              <th scope="col">Complete through</th>
            </tr>
          </thead>
          <tbody>
            {kinds.map((kind) => (
              <tr>
                <th scope="row">
                  <a href={`/records/${kind.kind}`}>{sentenceCase(kindPlural(kind.kind))}</a>
                  <div class="reach">{kind.coverage}</div>
                  {kind.kind === 'risk_assessment' && !live.eventsOnly ? (
                    <div class="reach">cycle: {cycleWords(cycleIn(snapshot))}</div>
                  ) : null}
                </th>
                <td class="full">
                  <span class={`dot ${kind.verdict}`}>{VERDICT_WORDS[kind.verdict]}</span>
                </td>
                <td class="n" data-label="Held">
                  {figure(kind.records)}
                </td>
                <td class="n" data-label="Verified">
                  {figure(kind.verified)}
                </td>
                <td class="n" data-label="Unverified">
                  {figure(kind.records - kind.verified)}
                </td>
                <td class="n" data-label="Deleted">
                  {figure(kind.deleted)}
                </td>
                <td class="full" data-label="Compared in full">
                  {kind.last_full_sync_at === null ? (
                    <span class="quiet">not yet</span>
                  ) : (
                    <Ago at={kind.last_full_sync_at} now={at} />
                  )}
                </td>
                <td class="full" data-label="Complete through">
                  {kind.complete_through === null ? (
                    <span class="quiet">no instant yet</span>
                  ) : (
                    <Instant at={kind.complete_through} now={at} />
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </Tile>
  );
}

function sentenceCase(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
