import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import type { SyncRunReport } from '../../store/reports.ts';
import type { Differences } from '../api/schemas.ts';
import type { RunningSyncRun } from '../context.ts';
import type { Snapshot } from '../snapshot.ts';
import { age, codeWords, count, duration, figure, kindPlural } from '../words.ts';
import { Instant, RecordLink, Table, Tile } from './pieces.tsx';

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

export function tookWords({ started_at, finished_at }: SyncRunReport): string {
  return finished_at === null ? 'not ended' : duration(Date.parse(finished_at) - Date.parse(started_at));
}

/** Of a full sync or of a dry run; `incomplete`: why the dry run did not read the whole list. */
type Found = Differences & { incomplete?: string | null };

/** `2 missing, 1 different`; `nothing` only if all was read and nothing differed. */
function differencesWords({
  differences,
  outcome,
}: {
  differences: JsonObject | null;
  outcome: string | null;
}): string {
  if (differences === null) return 'not known';
  const { missing, extra, different } = differences as unknown as Differences;
  const parts = [
    missing > 0 ? `${figure(missing)} missing` : null,
    extra > 0 ? `${figure(extra)} gone` : null,
    different > 0 ? `${figure(different)} different` : null,
  ].filter((part) => part !== null);
  if (parts.length > 0) return parts.join(', ');
  return outcome === 'complete' ? 'nothing' : 'none seen';
}

const WHAT = {
  missing: 'missing here',
  extra: 'gone upstream',
  different: 'different',
} as const;

const WHOLE_RECORD = <span class="quiet">the whole record</span>;

/** `dry`: of a dry run, which repairs nothing. */
export function DifferencesDetails({
  kind,
  differences,
  dry = false,
}: {
  kind: Kind;
  differences: object | null;
  dry?: boolean;
}) {
  if (differences === null) return <p class="note">It is known when the full sync has ended.</p>;
  const { missing, extra, different, repaired, examples, incomplete = null } = differences as Found;
  const fields = Object.entries((differences as Found).fields).sort((a, b) => b[1] - a[1]);
  const caveat =
    incomplete === null ? null : (
      <p class="note">
        <span class="warn">Not the whole list was read, so nothing absent from it counts:</span> {incomplete}
      </p>
    );
  const differing = missing + extra + different;
  if (differing === 0) {
    return (
      <>
        {caveat}
        <p class="note">Nothing differed in what was read.</p>
      </>
    );
  }
  return (
    <>
      {caveat}
      <p class="note">
        {figure(missing)} missing here, {figure(extra)} gone upstream, {figure(different)} different.
        {dry ? '' : ` ${figure(repaired)} of them repaired.`}
        {fields.length === 0
          ? ''
          : ` By field: ${fields.map(([field, times]) => `${field} in ${count(times, 'record')}`).join(', ')}.`}
      </p>
      {examples.length === 0 ? null : (
        <Table
          label="Examples of differences"
          rows={examples}
          columns={[
            ['Record', (example) => <RecordLink kind={kind} id={example.id} />],
            ['What', ({ what }) => WHAT[what], 'wide'],
            ['Fields', (example) => example.fields.join(', ') || WHOLE_RECORD, 'wide'],
            ...(dry
              ? []
              : [
                  [
                    'Repaired',
                    (example: Differences['examples'][number]) => (example.repaired ? 'yes' : 'no'),
                  ] as const,
                ]),
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
