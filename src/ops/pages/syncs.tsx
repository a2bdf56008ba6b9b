import type { Child } from 'hono/jsx';
import { z } from 'zod';
import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { SyncRunReport } from '../../store/reports.ts';
import type { Differences, RunningSyncRun } from '../api/schemas.ts';
import type { OpsContext } from '../context.ts';
import type { Snapshot } from '../snapshot.ts';
import { age, codeWords, count, duration, figure, kindPlural } from '../words.ts';
import { ActionForm, Button } from './controls.tsx';
import { type List, numbered } from './list-page.tsx';
import { type Column, Instant, quiet, RecordLink, State, Table, Tile } from './pieces.tsx';

const noFilters = z.strictObject({});

export const syncsList = ({ store, facts }: OpsContext): List<typeof noFilters, SyncRunReport> => ({
  name: 'Syncs',
  note: 'A full sync compares every record of a kind with the compliance service, and repairs what differs.',
  noun: ['full sync', 'full syncs'],
  filters: noFilters,
  live: 'rows',
  read: async (_, paging) => numbered(await store.list('sync_runs', paging)),
  head: () => (
    <>
      {facts().eventsOnly ? null : <Start />}
      <div data-part="running">
        <Running syncRuns={facts().runningSyncRuns} />
      </div>
    </>
  ),
  empty: () => noneWords(facts()),
  columns: SYNC_COLUMNS,
});

const noneWords = ({ eventsOnly }: { eventsOnly: boolean }) =>
  eventsOnly
    ? 'There are no API credentials, so there is nothing to compare with.'
    : 'None yet. The first one starts with the service and compares every record.';

/** Each button starts a full sync of its kind. */
function Start() {
  return (
    <ActionForm action="/actions/sync" className="actions" fields={{ back: '/syncs' }}>
      {KINDS.map((kind) => (
        <Button name="kind" value={kind}>
          Full sync of the {kindPlural(kind)}
        </Button>
      ))}
    </ActionForm>
  );
}

const SHOWN = 5;

/** On the overview. */
export function SyncsTile({ syncRuns, live }: Snapshot) {
  return (
    <Tile part="syncs" title={<a href="/syncs">Syncs</a>}>
      <Running syncRuns={live.runningSyncRuns} />
      {syncRuns.length === 0 ? (
        <p class="note">{noneWords(live)}</p>
      ) : (
        <Table label="The last full syncs" rows={syncRuns.slice(0, SHOWN)} columns={SYNC_COLUMNS} />
      )}
    </Tile>
  );
}

export function Running({ syncRuns }: { syncRuns: readonly RunningSyncRun[] }) {
  return syncRuns.length === 0 ? null : <div class="running">{syncRuns.map(OneRunning)}</div>;
}

function OneRunning(syncRun: RunningSyncRun) {
  const { kind, id, seen, pages, estimated_total: total, records_per_second, seconds_left } = syncRun;
  const known = total !== null && total > 0;
  const words = [
    known ? `${figure(seen)} of ${figure(Math.max(seen, total))}` : count(seen, 'record'),
    pages > 0 && count(pages, 'page'),
    records_per_second !== null && `${figure(Math.round(records_per_second))} a second`,
    seconds_left !== null && `${seconds_left < 60 ? '' : 'about '}${age(seconds_left * 1000)} left`,
  ];
  return (
    <div>
      <p>
        <span id={`sync-${id}`}>Reading the {kindPlural(kind)}</span>
        <span class="quiet">{words.filter((each) => each !== false).join(', ')}</span>
      </p>
      <progress
        aria-labelledby={`sync-${id}`}
        value={known && seen < total ? seen : undefined}
        max={known ? total : undefined}
      />
    </div>
  );
}

const SYNC_COLUMNS: readonly Column<SyncRunReport>[] = [
  [
    'Sync',
    ({ id, kind }) => (
      <a href={`/syncs/${id}`}>
        {id} · {kindPlural(kind)}
      </a>
    ),
  ],
  ['Began', ({ started_at }) => <Instant at={started_at} />, 'wide'],
  ['Took', tookWords, 'whole'],
  ['Why', ({ reason }) => codeWords(reason), 'wide quiet'],
  ['Seen', ({ seen }) => figure(seen), 'n'],
  ['Differences', differencesWords, 'wide'],
  ['Outcome', Outcome, 'wide'],
];

function Outcome({ outcome, error }: SyncRunReport) {
  return (
    <>
      <State state={outcome ?? ''} words={codeWords(outcome ?? 'under way')} />
      {error === null ? null : <div class="error">{error}</div>}
    </>
  );
}

export function tookWords({ started_at, finished_at }: SyncRunReport): string {
  return finished_at === null ? 'not yet' : duration(Date.parse(finished_at) - Date.parse(started_at));
}

/** `2 new, 1 different`; `nothing` only if all was read and nothing differed. */
function differencesWords({ differences, outcome }: SyncRunReport): Child {
  if (differences === null) return 'not known';
  const { missing, extra, different, repaired } = differences as unknown as Differences;
  const parts = Object.entries({ new: missing, 'deleted upstream': extra, different })
    .filter(([, records]) => records > 0)
    .map(([what, records]) => `${figure(records)} ${what}`);
  if (repaired > 0 && repaired === missing + extra + different) parts.push('repaired');
  if (parts.length > 0) return parts.join(', ');
  return outcome === 'complete' ? quiet('nothing') : 'none seen';
}

const WHAT = { missing: 'new', extra: 'deleted upstream', different: 'different' } as const;

export function DifferencesDetails({ kind, differences }: { kind: Kind; differences: object | null }) {
  if (differences === null) return <p class="note">Known when the full sync has ended.</p>;
  const { missing, extra, different, repaired, examples, fields } = differences as Differences;
  const differing = missing + extra + different;
  if (differing === 0) return <p class="note">Nothing differed in what was read.</p>;
  const byField = Object.entries(fields)
    .sort((a, b) => b[1] - a[1])
    .map(([field, times]) => `${field} in ${count(times, 'record')}`);
  return (
    <>
      <p class="note">
        {figure(missing)} new, {figure(extra)} deleted upstream, {figure(different)} different.{' '}
        {figure(repaired)} of them repaired.
        {byField.length === 0 ? '' : ` By field: ${byField.join(', ')}.`}
      </p>
      {examples.length === 0 ? null : (
        <Table
          label="Examples of differences"
          rows={examples}
          columns={[
            ['Record', ({ id }) => <RecordLink kind={kind} id={id} />],
            ['What', ({ what }) => WHAT[what], 'wide'],
            ['Fields', (example) => example.fields.join(', ') || quiet('the whole record'), 'wide'],
            ['Repaired', (example) => (example.repaired ? 'yes' : 'no')],
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
