import type { Child } from 'hono/jsx';
import { z } from 'zod';
import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { SyncRunReport } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { found } from '../api/answers.ts';
import { rowId } from '../api/query.ts';
import type { Differences, RunningSyncRun, Status } from '../api/schemas.ts';
import type { OpsContext } from '../context.ts';
import { codeWords, count, duration, figure, kindPlural } from '../words.ts';
import { ActionForm, Button } from './controls.tsx';
import type { Content } from './layout.tsx';
import type { List } from './list-page.tsx';
import { type Column, Facts, Instant, quiet, RecordLink, State, Table, Tile } from './pieces.tsx';

const noFilters = z.strictObject({});

export const syncsList = ({ store, facts }: OpsContext): List<typeof noFilters, SyncRunReport> => ({
  name: 'Syncs',
  note: 'A full sync compares every record of a kind with the compliance service, and repairs what differs.',
  noun: ['full sync', 'full syncs'],
  filters: noFilters,
  live: true,
  read: (_, paging) => store.list('sync_runs', paging),
  head: () => (
    <>
      {facts().service.events_only ? null : <Start />}
      <div data-part="running">
        <Running syncRuns={facts().running} />
      </div>
    </>
  ),
  empty: () => noneWords(facts().service.events_only),
  columns: SYNC_COLUMNS,
});

const noneWords = (eventsOnly: boolean) =>
  eventsOnly
    ? 'There are no API credentials, so there is nothing to compare with.'
    : 'None yet. The first one starts with the service and compares every record.';

/** Each button starts a full sync of its kind. */
function Start() {
  return (
    <ActionForm action="/api/syncs" className="actions">
      {KINDS.map((kind) => (
        <Button name="body" value={JSON.stringify({ kinds: [kind] })}>
          Full sync of the {kindPlural(kind)}
        </Button>
      ))}
    </ActionForm>
  );
}

const SHOWN = 5;

/** On the overview. */
export function SyncsTile({ sync_runs: { running, last }, service }: Status) {
  return (
    <Tile part="syncs" title={<a href="/syncs">Syncs</a>}>
      <Running syncRuns={running} />
      {last.length === 0 ? (
        <p class="note">{noneWords(service.events_only)}</p>
      ) : (
        <Table label="The last full syncs" rows={last.slice(0, SHOWN)} columns={SYNC_COLUMNS} />
      )}
    </Tile>
  );
}

function Running({ syncRuns }: { syncRuns: readonly RunningSyncRun[] }) {
  return syncRuns.length === 0 ? null : <div class="running">{syncRuns.map(OneRunning)}</div>;
}

function OneRunning(syncRun: RunningSyncRun) {
  const { kind, id, seen, pages, estimated_total: total } = syncRun;
  const known = total !== null && total > 0;
  const words = [
    known ? `${figure(seen)} of ${figure(Math.max(seen, total))}` : count(seen, 'record'),
    pages > 0 && count(pages, 'page'),
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

function tookWords({ started_at, finished_at }: SyncRunReport): string {
  return finished_at === null ? 'not yet' : duration(Date.parse(finished_at) - Date.parse(started_at));
}

/** `2 new, 1 different`; `nothing` only if all was read and nothing differed. */
function differencesWords({ differences, outcome }: SyncRunReport): Child {
  if (differences === null) return 'not known';
  const { repaired, ...found } = differences as unknown as Differences;
  const parts = WHAT.filter((what) => found[what] > 0).map(
    (what) => `${figure(found[what])} ${codeWords(what)}`,
  );
  if (repaired > 0 && repaired === sumOf(found)) parts.push('repaired');
  if (parts.length > 0) return parts.join(', ');
  return outcome === 'complete' ? quiet('nothing') : 'none seen';
}

const WHAT = ['new', 'deleted_upstream', 'different'] as const;
const sumOf = (found: Pick<Differences, (typeof WHAT)[number]>) =>
  WHAT.reduce((sum, what) => sum + found[what], 0);

function DifferencesDetails({ kind, differences }: { kind: Kind; differences: object | null }) {
  if (differences === null) return <p class="note">Known when the full sync has ended.</p>;
  const { repaired, examples, fields, ...found } = differences as Differences;
  const differing = sumOf(found);
  if (differing === 0) return <p class="note">Nothing differed in what was read.</p>;
  const byField = Object.entries(fields)
    .sort((a, b) => b[1] - a[1])
    .map(([field, times]) => `${field} in ${count(times, 'record')}`);
  return (
    <>
      <p class="note">
        {WHAT.map((what) => `${figure(found[what])} ${codeWords(what)}`).join(', ')}. {figure(repaired)} of
        them repaired.
        {byField.length === 0 ? '' : ` By field: ${byField.join(', ')}.`}
      </p>
      {examples.length === 0 ? null : (
        <Table
          label="Examples of differences"
          rows={examples}
          columns={[
            ['Record', ({ id }) => <RecordLink kind={kind} id={id} />],
            ['What', ({ what }) => codeWords(what), 'wide'],
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

export async function syncPage({ store, facts }: OpsContext, c: OpsHandlerContext): Promise<Content> {
  const { data: id = 0 } = rowId.safeParse(c.req.param('id'));
  const syncRun = found(await store.show('sync_runs', id), 'There is no full sync of this number.');
  const { kind, started_at, finished_at, outcome, error } = syncRun;
  const about: Facts = [
    ['Why', codeWords(syncRun.reason)],
    ['Began', <Instant at={started_at} precise />],
    ['Ended', <Instant at={finished_at} precise otherwise="not yet" />],
    finished_at !== null && ['Took', tookWords(syncRun)],
    ['Outcome', <State state={outcome ?? ''} words={codeWords(outcome ?? 'under way')} />],
    error !== null && ['Error', <span class="warn">{error}</span>],
    ['Read', `${count(syncRun.seen, 'record')} on ${count(syncRun.pages, 'page')}`],
    [
      'Wrote',
      `${figure(syncRun.inserted)} new, ${figure(syncRun.updated)} changed, ${figure(syncRun.deleted)} deleted; ${figure(syncRun.unchanged)} unchanged`,
    ],
  ];
  return {
    title: `Sync ${id} of the ${kindPlural(kind)}`,
    current: 'Syncs',
    body: (
      <>
        <Running syncRuns={facts().running.filter((each) => each.id === id)} />
        <Facts facts={about} />
        <h2>Differences</h2>
        <p class="lead">What differed although no event had announced it.</p>
        <DifferencesDetails kind={kind} differences={syncRun.differences} />
      </>
    ),
  };
}
