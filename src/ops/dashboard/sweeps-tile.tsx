import type { SweepReport } from '../../store/reports.ts';
import type { RunningSweep } from '../context.ts';
import type { Snapshot } from '../snapshot.ts';
import { codeWords, count, figure, kindPlural } from '../words.ts';
import { Instant, Tile } from './pieces.tsx';

export function SweepsTile({ snapshot: { sweeps, live, at } }: { snapshot: Snapshot }) {
  const running = new Set(live.runningSweeps.map((sweep) => sweep.id));
  const ended = sweeps.filter((sweep) => !running.has(sweep.id));
  return (
    <Tile part="sweeps" title="Sweeps">
      {live.runningSweeps.length === 0 ? null : (
        <div class="running">
          {live.runningSweeps.map((sweep) => (
            <Running sweep={sweep} />
          ))}
        </div>
      )}
      {ended.length === 0 ? (
        <p class="note">
          {live.eventsOnly
            ? 'None, because there are no API credentials.'
            : 'None yet. The first one starts with the service and compares every record.'}
        </p>
      ) : (
        <section class="scroll" aria-label="The last sweeps" tabindex={0} id="sweeps-scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Sweep</th>
                <th scope="col">Began</th>
                <th scope="col">Why</th>
                <th scope="col" class="n">
                  Seen
                </th>
                <th scope="col">Found different</th>
                <th scope="col">Outcome</th>
              </tr>
            </thead>
            <tbody>
              {ended.map((sweep) => (
                <Ended sweep={sweep} now={at} />
              ))}
            </tbody>
          </table>
        </section>
      )}
    </Tile>
  );
}

function Running({ sweep: { kind, id, seen, pages, estimatedTotal } }: { sweep: RunningSweep }) {
  const known = estimatedTotal !== null && estimatedTotal > 0;
  return (
    <div>
      <p>
        <span id={`sweep-${id}`}>Reading the {kindPlural(kind)}</span>
        <span class="quiet">
          {known ? `${figure(seen)} of ${figure(Math.max(seen, estimatedTotal))}` : count(seen, 'record')}
          {pages > 0 ? `, ${count(pages, 'page')}` : ''}
        </span>
      </p>
      {known ? (
        <progress
          aria-labelledby={`sweep-${id}`}
          value={Math.min(seen, estimatedTotal)}
          max={estimatedTotal}
        />
      ) : (
        <progress aria-labelledby={`sweep-${id}`} />
      )}
    </div>
  );
}

function Ended({ sweep, now }: { sweep: SweepReport; now: number }) {
  const drift = [
    sweep.inserted > 0 ? `${figure(sweep.inserted)} missing` : null,
    sweep.updated > 0 ? `${figure(sweep.updated)} changed` : null,
    sweep.deleted > 0 ? `${figure(sweep.deleted)} gone` : null,
  ].filter((part) => part !== null);
  const outcome = sweep.outcome ?? 'under way';
  return (
    <tr>
      <th scope="row">
        {sweep.id} · {kindPlural(sweep.kind)}
      </th>
      <td class="wide" data-label="Began">
        <Instant at={sweep.started_at} now={now} />
      </td>
      <td class="quiet" data-label="Why">
        {codeWords(sweep.reason)}
      </td>
      <td class="n" data-label="Seen">
        {figure(sweep.seen)}
      </td>
      <td class={`wide ${drift.length === 0 ? 'quiet' : ''}`} data-label="Found different">
        {drift.length === 0 ? 'nothing' : drift.join(', ')}
      </td>
      <td class="wide" data-label="Outcome">
        <span class={outcome === 'failed' ? 'warn' : ''}>{codeWords(outcome)}</span>
        {sweep.error === null ? null : <div class="error">{sweep.error}</div>}
      </td>
    </tr>
  );
}
