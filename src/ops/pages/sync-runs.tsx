import type { Child } from 'hono/jsx';
import type { Kind } from '../../compliance/kinds.ts';
import type { SyncRunReport } from '../../store/reports.ts';
import type { Differences, RunningSyncRun } from '../api/schemas.ts';
import type { LiveFacts } from '../context.ts';
import type { Snapshot } from '../snapshot.ts';
import { age, codeWords, count, duration, figure, kindPlural } from '../words.ts';
import { type Column, Instant, quiet, RecordLink, State, Table, Tile } from './pieces.tsx';

const SHOWN = 5;

export function SyncRunsTile({ syncRuns, live }: Snapshot) {
  return (
    <Tile part="sync-runs" title={<a href="/sync-runs">Sync runs</a>}>
      <Running syncRuns={live.runningSyncRuns} />
      <EndedSyncRuns
        label="The last full syncs"
        live={live}
        syncRuns={syncRuns}
        most={SHOWN}
        none={
          <p class="note">
            {live.eventsOnly
              ? 'None, because there are no API credentials.'
              : 'None yet. The first one starts with the service and compares every record.'}
          </p>
        }
      />
    </Tile>
  );
}

export function Running({ syncRuns }: { syncRuns: readonly RunningSyncRun[] }) {
  return syncRuns.length === 0 ? null : <div class="running">{syncRuns.map(OneRunning)}</div>;
}

function OneRunning(syncRun: RunningSyncRun) {
  const { kind, id, seen, pages, estimated_total: total, records_per_second, seconds_left } = syncRun;
  const known = total !== null && total > 0;
  return (
    <div>
      <p>
        <span id={`sync-${id}`}>Reading the {kindPlural(kind)}</span>
        <span class="quiet">
          {known ? `${figure(seen)} of ${figure(Math.max(seen, total))}` : count(seen, 'record')}
          {pages > 0 ? `, ${count(pages, 'page')}` : ''}
          {records_per_second === null ? '' : `, ${figure(Math.round(records_per_second))} a second`}
          {seconds_left === null
            ? ''
            : `, ${seconds_left < 60 ? '' : 'about '}${age(seconds_left * 1000)} left`}
        </span>
      </p>
      <progress
        aria-labelledby={`sync-${id}`}
        value={known && seen < total ? seen : undefined}
        max={known ? total : undefined}
      />
    </div>
  );
}

interface EndedOf {
  label: string;
  syncRuns: readonly SyncRunReport[];
  live: Pick<LiveFacts, 'runningSyncRuns'>;
  most?: number;
  none: Child;
}

/** The sync runs that are not running. `most`: how many are shown. */
export function EndedSyncRuns({ label, syncRuns, live, most, none }: EndedOf) {
  const running = new Set(live.runningSyncRuns.map(({ id }) => id));
  const ended = syncRuns.filter(({ id }) => !running.has(id)).slice(0, most);
  if (ended.length === 0) return <>{none}</>;
  return (
    <Table
      label={label}
      rows={ended}
      columns={[
        ['Sync run', Name],
        ['Began', (syncRun) => <Instant at={syncRun.started_at} />, 'wide'],
        ['Took', tookWords, 'whole'],
        ['Why', (syncRun) => codeWords(syncRun.reason), 'wide quiet'],
        ['Seen', (syncRun) => figure(syncRun.seen), 'n'],
        ['Differences', DifferencesCell, 'wide'],
        ['Outcome', Outcome, 'wide'],
      ]}
    />
  );
}

function Name({ id, kind }: SyncRunReport) {
  return (
    <a href={`/sync-runs/${id}`}>
      {id} · {kindPlural(kind)}
    </a>
  );
}

function DifferencesCell(syncRun: SyncRunReport) {
  const differences = differencesWords(syncRun);
  return differences === 'nothing' ? quiet(differences) : differences;
}

function Outcome({ outcome, error }: SyncRunReport) {
  const words = outcome ?? 'under way';
  return (
    <>
      <State state={words} words={codeWords(words)} />
      {error === null ? null : <div class="error">{error}</div>}
    </>
  );
}

export function tookWords({ started_at, finished_at }: SyncRunReport): string {
  return finished_at === null ? 'not ended' : duration(Date.parse(finished_at) - Date.parse(started_at));
}

/** Of a full sync or of a dry run; `incomplete`: why the dry run did not read the whole list. */
type Found = Differences & { incomplete?: string | null };

/** `2 missing, 1 different`; `nothing` only if all was read and nothing differed. */
function differencesWords({ differences, outcome }: SyncRunReport): string {
  if (differences === null) return 'not known';
  const { missing, extra, different, repaired } = differences as unknown as Differences;
  const parts = Object.entries({ missing, gone: extra, different })
    .filter(([, records]) => records > 0)
    .map(([what, records]) => `${figure(records)} ${what}`);
  if (repaired > 0 && repaired === missing + extra + different) parts.push('repaired');
  if (parts.length > 0) return parts.join(', ');
  return outcome === 'complete' ? 'nothing' : 'none seen';
}

const WHAT = {
  missing: 'missing here',
  extra: 'gone upstream',
  different: 'different',
} as const;

type Example = Differences['examples'][number];

type DetailsOf = { kind: Kind; differences: object | null; dry?: boolean };

/** `dry`: of a dry run, which repairs nothing. */
export function DifferencesDetails({ kind, differences, dry = false }: DetailsOf) {
  if (differences === null) return <p class="note">Known when the full sync has ended.</p>;
  const { missing, extra, different, repaired, examples, incomplete = null, ...rest } = differences as Found;
  const differing = missing + extra + different;
  const fields = Object.entries(rest.fields)
    .sort((a, b) => b[1] - a[1])
    .map(([field, times]) => `${field} in ${count(times, 'record')}`);
  const repairedColumn: Column<Example> = ['Repaired', (example) => (example.repaired ? 'yes' : 'no')];
  return (
    <>
      {incomplete === null ? null : (
        <p class="note">
          <span class="warn">
            The list was not read completely, so records that are missing from it are not counted:
          </span>{' '}
          {incomplete}
        </p>
      )}
      <p class="note">
        {differing === 0
          ? 'Nothing differed in what was read.'
          : `${figure(missing)} missing here, ${figure(extra)} gone upstream, ${figure(different)} different.`}
        {dry || differing === 0 ? '' : ` ${figure(repaired)} of them repaired.`}
        {fields.length === 0 ? '' : ` By field: ${fields.join(', ')}.`}
      </p>
      {examples.length === 0 ? null : (
        <Table
          label="Examples of differences"
          rows={examples}
          columns={[
            ['Record', (example) => <RecordLink kind={kind} id={example.id} />],
            ['What', ({ what }) => WHAT[what], 'wide'],
            ['Fields', (example) => example.fields.join(', ') || quiet('the whole record'), 'wide'],
            ...(dry ? [] : [repairedColumn]),
          ]}
        />
      )}
      {differing > examples.length && examples.length > 0 ? (
        <p class="note">
          The first {examples.length} of {figure(differing)}.
        </p>
      ) : null}
    </>
  );
}
