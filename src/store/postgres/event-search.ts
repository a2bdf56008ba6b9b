import {
  EVENTS_LOOKED_AT,
  type EventPage,
  type EventReport,
  type EventState,
  PAGE_LIMIT_MAX,
  type ReportStore,
} from '../reports.ts';
import type { Sql } from './connection.ts';

type Filter = Parameters<ReportStore['listEvents']>[0];
type Paging = Parameters<ReportStore['listEvents']>[1];

export const EVENT_COLUMNS =
  'seq, id, type, created, kind, record_id, received_at, deliveries, last_delivered_at, state, attempts, ' +
  'next_attempt_at, processed_at, error';

/** Above every number, so that the first page asks in the same words as the others. */
const NEWEST = Number.MAX_SAFE_INTEGER;

/** States that few events are in have an index of their own; the others are told apart while walking. */
const INDEXED_STATES: readonly EventState[] = ['pending', 'dead'];

/** A row found through an index costs several times one met on the way: fewer of them make the same page. */
const FOUND_ROW_COST = 10;

const LAST_AND_EMPTY: EventPage = { items: [], next: null, looked_back_to: null };

/**
 * Lists of events, newest first. A page walks one index down from its cursor and looks at a bounded number of rows, so
 * it costs the same however many are stored and however few of them fit the filter. An index for each filter would make
 * that unnecessary, and every delivery would pay for it.
 */
export async function searchEvents(sql: Sql, filter: Filter, paging: Paging): Promise<EventPage> {
  // Most databases hold none of the rare states, and need not be walked to find that out.
  if (filter.state !== undefined) {
    const [row] = await sql.query<{ count: number }>('SELECT count FROM event_counts WHERE state = $1', [
      filter.state,
    ]);
    if (row?.count === 0) return LAST_AND_EMPTY;
  }
  const { find, findEnd, walked, filtered, rowCost } = eventQuery(filter);
  const before = paging.after === undefined ? NEWEST : Number(paging.after);
  const limit = Math.min(Math.max(1, paging.limit), PAGE_LIMIT_MAX);
  const lookAt = Math.max(limit, paging.lookAt ?? Math.ceil(EVENTS_LOOKED_AT / rowCost));

  const items = await sql.query<EventReport>(find, [before, lookAt, limit, ...walked, ...filtered]);
  const last = items.at(-1);
  if (last !== undefined && items.length === limit) {
    return { items, next: String(last.seq), looked_back_to: null };
  }
  const [end] = await sql.query<{ seq: number; received_at: string }>(findEnd, [
    ...[before, lookAt - 1],
    ...walked,
  ]);
  return end === undefined
    ? { items, next: null, looked_back_to: null }
    : { items, next: String(end.seq), looked_back_to: end.received_at };
}

/**
 * Pure. The same filters give the same text, so that the statements are a handful. `walked` chooses the rows that are
 * looked at, `filtered` those of them that are shown.
 */
function eventQuery({ state, type, kind, recordId }: Filter) {
  const byState = recordId === undefined && state !== undefined && INDEXED_STATES.includes(state);
  // A state stands in the text: an index of one state is used only where that state is spelled out.
  const walk = (at: number) =>
    recordId !== undefined ? `record_id = $${at} AND ` : byState ? `state = '${state}' AND ` : '';
  const walked = recordId === undefined ? [] : [recordId];
  const equal: [string, string | undefined][] = [
    ['kind', kind],
    ['type', type],
    ['state', byState ? undefined : state],
  ];
  const given = equal.filter((pair): pair is [string, string] => pair[1] !== undefined);
  const conditions = given
    .map(([column], index) => ` AND ${column} = $${4 + walked.length + index}`)
    .join('');
  const rows = (at: number) => `FROM events WHERE ${walk(at)}seq < $1 ORDER BY seq DESC LIMIT`;
  return {
    find: `SELECT * FROM (SELECT ${EVENT_COLUMNS}, NULL AS body ${rows(4)} $2) AS looked WHERE true${conditions}
           ORDER BY seq DESC LIMIT $3`,
    findEnd: `SELECT seq, received_at ${rows(3)} 1 OFFSET $2`,
    walked,
    filtered: given.map(([, value]) => value),
    rowCost: walk(4) === '' ? 1 : FOUND_ROW_COST,
  };
}
