import type { SyncRunReport } from '../../store/reports.ts';
import type { RunningSyncRun } from '../context.ts';
import type { Snapshot } from '../snapshot.ts';
import { age, codeWords, count, duration, figure, kindPlural } from '../words.ts';
import { differencesWords } from './differences.tsx';
import { Instant, Table, Tile } from './pieces.tsx';

/** The others stand on their page. */
const SHOWN = 5;

export function SyncRunsTile({ snapshot: { syncRuns, live } }: { snapshot: Snapshot }) {
  const running = new Set(live.runningSyncRuns.map((syncRun) => syncRun.id));
  const ended = syncRuns.filter((syncRun) => !running.has(syncRun.id)).slice(0, SHOWN);
  return (
    <Tile part="sync-runs" title={<a href="/sync-runs">Sync runs</a>}>
      {live.runningSyncRuns.length === 0 ? null : <Running syncRuns={live.runningSyncRuns} />}
      {ended.length === 0 ? (
        <p class="note">
          {live.eventsOnly
            ? 'None, because there are no API credentials.'
            : 'None yet. The first one starts with the service and compares every record.'}
        </p>
      ) : (
        <SyncRuns label="The last full syncs" syncRuns={ended} />
      )}
    </Tile>
  );
}

export function Running({ syncRuns }: { syncRuns: readonly RunningSyncRun[] }) {
  return (
    <div class="running">
      {syncRuns.map((syncRun) => (
        <OneRunning syncRun={syncRun} />
      ))}
    </div>
  );
}

function OneRunning({
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

export function SyncRuns({ label, syncRuns }: { label: string; syncRuns: readonly SyncRunReport[] }) {
  return (
    <Table
      label={label}
      rows={syncRuns}
      columns={[
        [
          'Sync run',
          ({ id, kind }) => (
            <a href={`/sync-runs/${id}`}>
              {id} · {kindPlural(kind)}
            </a>
          ),
        ],
        ['Began', (syncRun) => <Instant at={syncRun.started_at} />, 'wide'],
        ['Took', tookWords, 'whole'],
        ['Why', (syncRun) => codeWords(syncRun.reason), 'wide quiet'],
        ['Seen', (syncRun) => figure(syncRun.seen), 'n'],
        { head: 'Differences', td: DifferencesCell },
        ['Outcome', (syncRun) => <Outcome {...syncRun} />, 'wide'],
      ]}
    />
  );
}

function DifferencesCell(syncRun: SyncRunReport) {
  const differences = differencesWords(syncRun);
  return (
    <td class={`wide ${differences === 'nothing' ? 'quiet' : ''}`} data-label="Differences">
      {differences}
    </td>
  );
}

function Outcome({ outcome, error }: SyncRunReport) {
  const words = outcome ?? 'under way';
  return (
    <>
      <span class={`state ${words}`}>{codeWords(words)}</span>
      {error === null ? null : <div class="error">{error}</div>}
    </>
  );
}

/** How long a sync run took, or that it goes on. */
export function tookWords({ started_at, finished_at }: SyncRunReport): string {
  return finished_at === null ? 'not ended' : duration(Date.parse(finished_at) - Date.parse(started_at));
}
