import type { Kind } from '../compliance/kinds.ts';
import { idInPath } from '../ops/api/ids.ts';
import type { Problem } from '../ops/api/schemas.ts';
import { fieldChanges, shortened } from '../ops/body-text.ts';
import { commandOf } from '../ops/problems.ts';
import { VIEW_NAMES, type ViewName } from '../store/reports.ts';
import type { Row, Thing } from './lists.ts';
import type { Cell } from './table.ts';

// Everything that has a list: where it is asked for, what may be asked, and its table.

interface Feed {
  trimmed: { through: number } | null;
}

const field = (name: string) => (row: Row) => row[name] as Cell;

/** What became of a delivery, in one word: the state of its event, where it was accepted. */
export const stateOf = ({ outcome, state }: Row): string => String(outcome === 'accepted' ? state : outcome);

const OUTCOMES = ['accepted', 'quarantined', 'rejected'];

export const DELIVERIES: Thing = {
  path: 'deliveries',
  names: { state: 'state', outcome: 'outcome', type: 'type', kind: 'kind', record: 'record_id' },
  // The table has both in one column.
  parameterOf: (name, value) => (name === 'state' && OUTCOMES.includes(value) ? 'outcome' : null),
  searches: true,
  time: null,
  columns: [
    'id',
    ['STATE', stateOf],
    ['REASON', (row) => (row['outcome'] === 'accepted' ? null : (row['reason'] as Cell))],
    'received_at',
    'type',
    ['RECORD', field('record_id')],
    ['TIMES', field('deliveries')],
    ['FROM', field('address')],
    ['ERROR', (row) => (row['outcome'] === 'accepted' ? (row['reason'] as Cell) : null)],
  ],
  kept: ['ID', 'STATE', 'REASON'],
  none: 'Nothing has come in yet. “doctor” says whether the receiver can be reached.',
};

export const PROBLEMS: Thing = {
  path: 'problems',
  names: { state: 'state', kind: null, reason: null, verdict: null, needs: null, record_id: null },
  searches: false,
  time: null,
  columns: [
    'id',
    ['PROBLEM', field('reason')],
    ['WHAT TO DO', (row) => actionOf(row)],
    'kind',
    ['RECORD', field('record_id')],
    'verdict',
    ['SINCE', field('opened_at')],
    'times',
    'resolved_at',
    'error',
  ],
  kept: ['ID', 'PROBLEM', 'WHAT TO DO'],
  none: 'No problem is open. state=resolved lists earlier ones.',
};

/** The command that helps, if a person must act. */
function actionOf(row: Row): string {
  const problem = row as unknown as Problem;
  if (problem.resolved_at !== null) return 'nothing: it is resolved';
  if (problem.needs === 'time') return 'nothing: it ends by itself';
  return commandOf(problem) ?? `problems show ${problem.id}`;
}

export const SYNCS: Thing = {
  path: 'syncs',
  names: { kind: null, outcome: null, reason: null },
  searches: false,
  time: null,
  columns: [
    'id',
    'kind',
    ['OUTCOME', ({ outcome }) => (outcome ?? 'running') as string],
    'started_at',
    'seen',
    'inserted',
    'updated',
    'deleted',
    'reason',
    'error',
  ],
  kept: ['ID', 'OUTCOME'],
  none: 'No full sync has begun yet.',
};

export const AUDIT: Thing = {
  path: 'audit',
  names: { actor: null, action: null, outcome: null, target: null },
  searches: false,
  time: null,
  columns: [
    'at',
    'actor',
    ['ACTION', ({ action, outcome }) => (outcome === 'ok' ? `${action}` : `${action}: ${outcome}`)],
    'target',
  ],
  kept: ['ACTION', 'TARGET'],
  none: 'Nothing has been changed or refused yet.',
};

const CHANGES: Thing = {
  path: 'changes',
  names: {},
  // The beginning of the feed is refused once it has been trimmed.
  async start(service) {
    const { trimmed } = await service.get<Pick<Feed, 'trimmed'>>('snapshot', { limit: 1 });
    return trimmed === null ? undefined : String(trimmed.through);
  },
  searches: false,
  time: null,
  columns: [],
  kept: [],
  none: '',
};

export const recordsOf = (kind: Kind): Thing => ({
  path: `records/${kind}`,
  names: {
    status: 'status',
    unverified: 'unverified',
    deleted: 'deleted',
    deletion_pending: 'deletion_pending',
    order: 'order',
    at: 'at',
  },
  otherNames: 'field',
  searches: true,
  hasVersions: true,
  time: 'synced_at',
  columns: [
    'id',
    'name',
    'status',
    ['CONFIRMED', field('verified_at')],
    ['CHANGED', field('synced_at')],
    'deleted_at',
    'deletion_pending_since',
    'cause',
  ],
  kept: ['ID'],
  none: `The mirror holds no ${kind}. “status” says whether it has read them yet.`,
});

/** Each field with its value before and after. One that was not there before has no arrow. */
function changedFields({ before, after }: Row): string {
  const said = (value: string | null) => (value === null ? '(none)' : shortened(value));
  return fieldChanges((before ?? {}) as Row, (after ?? {}) as Row)
    .map(({ field, before: old, after: fresh }) =>
      old === null ? `${field}: ${said(fresh)}` : `${field}: ${said(old)} → ${said(fresh)}`,
    )
    .join('; ');
}

export const historyOf = (kind: Kind, id: string): Thing => ({
  path: `records/${kind}/${idInPath(id)}/history`,
  names: { operation: null, cause: null, cause_id: null },
  searches: false,
  time: 'at',
  columns: ['at', 'operation', ['CHANGED', changedFields], 'cause', 'cause_id', 'seq'],
  kept: ['CHANGED', 'CAUSE'],
  absent: `the mirror holds no ${kind} with the id ${id}`,
  none: '',
});

const viewOf = (name: ViewName): Thing => ({
  path: `views/${name}`,
  names: {},
  searches: false,
  time: null,
  columns: [],
  kept: [],
  none: '',
});

/** What `export` takes. */
export const EXPORTS: Readonly<Record<string, Thing>> = {
  policies: recordsOf('policy'),
  risk_assessments: recordsOf('risk_assessment'),
  vendors: recordsOf('vendor'),
  changes: CHANGES,
  deliveries: DELIVERIES,
  problems: PROBLEMS,
  syncs: SYNCS,
  audit: AUDIT,
  ...Object.fromEntries(VIEW_NAMES.map((name) => [name, viewOf(name)])),
};
