import type { SyncRunReport } from '../../store/reports.ts';
import type { RunningSyncRun } from '../context.ts';
import type { Snapshot } from '../snapshot.ts';
import { age, codeWords, count, duration, figure, kindPlural } from '../words.ts';
import { differencesWords } from './differences.tsx';
import { Instant, Table, Tile } from './pieces.tsx';

export const SYNC_RUN_COLUMNS = ['Sync run', 'Began', 'Took', 'Why', 'Seen', 'Differences', 'Outcome'];

/** The others stand on their page. */
const SHOWN = 5;

export function SyncRunsTile({ snapshot: { syncRuns, live, at } }: { snapshot: Snapshot }) {
  const running = new Set(live.runningSyncRuns.map((syncRun) => syncRun.id));
  const ended = syncRuns.filter((syncRun) => !running.has(syncRun.id)).slice(0, SHOWN);
  return (
    <Tile part="sync-runs" title={<a href="/sync-runs">Sync runs</a>}>
      {live.runningSyncRuns.length === 0 ? null : (
        <div class="running">
          {live.runningSyncRuns.map((syncRun) => (
            <Running syncRun={syncRun} />
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
        <Table label="The last full syncs" head={SYNC_RUN_COLUMNS} figures={['Seen']}>
          {ended.map((syncRun) => (
            <Ended syncRun={syncRun} now={at} />
          ))}
        </Table>
      )}
    </Tile>
  );
}

export function Running({
  syncRun: { kind, id, seen, pages, estimatedTotal, recordsPerSecond = null, leftMs = null },
}: {
  syncRun: RunningSyncRun;
}) {
  const known = estimatedTotal !== null && estimatedTotal > 0;
  return (
    <div>
      <p>
        <span id={`sync-${id}`}>Reading the {kindPlural(kind)}</span>
        <span class="quiet">
          {known ? `${figure(seen)} of ${figure(Math.max(seen, estimatedTotal))}` : count(seen, 'record')}
          {pages > 0 ? `, ${count(pages, 'page')}` : ''}
          {recordsPerSecond === null ? '' : `, ${figure(Math.round(recordsPerSecond))} a second`}
          {leftMs === null ? '' : `, ${leftMs < 60_000 ? '' : 'about '}${age(leftMs)} left`}
        </span>
      </p>
      {known ? (
        <progress
          aria-labelledby={`sync-${id}`}
          value={Math.min(seen, estimatedTotal)}
          max={estimatedTotal}
        />
      ) : (
        <progress aria-labelledby={`sync-${id}`} />
      )}
    </div>
  );
}

export function Ended({ syncRun, now }: { syncRun: SyncRunReport; now: number }) {
  const differences = differencesWords(syncRun);
  const outcome = syncRun.outcome ?? 'under way';
  return (
    <tr>
      <th scope="row">
        <a href={`/sync-runs/${syncRun.id}`}>
          {syncRun.id} · {kindPlural(syncRun.kind)}
        </a>
      </th>
      <td class="wide" data-label="Began">
        <Instant at={syncRun.started_at} now={now} />
      </td>
      <td class="whole" data-label="Took">
        {tookWords(syncRun)}
      </td>
      <td class="wide quiet" data-label="Why">
        {codeWords(syncRun.reason)}
      </td>
      <td class="n" data-label="Seen">
        {figure(syncRun.seen)}
      </td>
      <td class={`wide ${differences === 'nothing' ? 'quiet' : ''}`} data-label="Differences">
        {differences}
      </td>
      <td class="wide" data-label="Outcome">
        <span class={`state ${outcome}`}>{codeWords(outcome)}</span>
        {syncRun.error === null ? null : <div class="error">{syncRun.error}</div>}
      </td>
    </tr>
  );
}

/** How long a sync run took, or that it goes on. */
export function tookWords({ started_at, finished_at }: SyncRunReport): string {
  return finished_at === null ? 'not ended' : duration(Date.parse(finished_at) - Date.parse(started_at));
}
