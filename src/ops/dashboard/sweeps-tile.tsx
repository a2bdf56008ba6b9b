import type { SweepReport } from '../../store/reports.ts';
import type { RunningSweep } from '../context.ts';
import type { Snapshot } from '../snapshot.ts';
import { age, codeWords, count, figure, kindPlural } from '../words.ts';
import { driftWords } from './drift.ts';
import { Instant, Table, Tile } from './pieces.tsx';

export const SWEEP_COLUMNS = ['Sweep', 'Began', 'Why', 'Seen', 'Drift', 'Outcome'];

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
        <Table label="The last sweeps" head={SWEEP_COLUMNS} figures={['Seen']}>
          {ended.map((sweep) => (
            <Ended sweep={sweep} now={at} />
          ))}
        </Table>
      )}
    </Tile>
  );
}

export function Running({
  sweep: { kind, id, seen, pages, estimatedTotal, recordsPerSecond = null, leftMs = null },
}: {
  sweep: RunningSweep;
}) {
  const known = estimatedTotal !== null && estimatedTotal > 0;
  return (
    <div>
      <p>
        <span id={`sweep-${id}`}>Reading the {kindPlural(kind)}</span>
        <span class="quiet">
          {known ? `${figure(seen)} of ${figure(Math.max(seen, estimatedTotal))}` : count(seen, 'record')}
          {pages > 0 ? `, ${count(pages, 'page')}` : ''}
          {recordsPerSecond === null ? '' : `, ${figure(Math.round(recordsPerSecond))} a second`}
          {leftMs === null ? '' : `, ${leftMs < 60_000 ? '' : 'about '}${age(leftMs)} left`}
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

export function Ended({ sweep, now }: { sweep: SweepReport; now: number }) {
  const drift = driftWords(sweep);
  const outcome = sweep.outcome ?? 'under way';
  return (
    <tr>
      <th scope="row">
        <a href={`/sweeps/${sweep.id}`}>
          {sweep.id} · {kindPlural(sweep.kind)}
        </a>
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
      <td class={`wide ${drift === 'nothing' ? 'quiet' : ''}`} data-label="Drift">
        {drift}
      </td>
      <td class="wide" data-label="Outcome">
        <span class={outcome === 'failed' ? 'warn' : ''}>{codeWords(outcome)}</span>
        {sweep.error === null ? null : <div class="error">{sweep.error}</div>}
      </td>
    </tr>
  );
}
