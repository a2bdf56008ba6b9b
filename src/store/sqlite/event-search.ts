import type Database from 'better-sqlite3';
import {
  EVENTS_LOOKED_AT,
  type EventPage,
  type EventReport,
  type EventState,
  PAGE_LIMIT_MAX,
  type ReportStore,
} from '../reports.ts';
import { createBlockSearch } from './blocks.ts';
import type { Connection } from './connection.ts';

type Filter = Parameters<ReportStore['listEvents']>[0];
type Paging = Parameters<ReportStore['listEvents']>[1];
type Statement = Database.Statement<unknown[]>;

const COLUMNS =
  'seq, id, type, created, kind, record_id, received_at, deliveries, last_delivered_at, state, attempts, ' +
  'next_attempt_at, processed_at, error, NULL AS body';

/** Above every number, so that the first page asks in the same words as the others. */
const NEWEST = Number.MAX_SAFE_INTEGER;

/** States that few events are in have an index of their own; the others are told apart while walking. */
const INDEXED_STATES: readonly EventState[] = ['pending', 'dead'];

/** A row found through an index costs several times one met on the way: fewer of them make the same page. */
const FOUND_ROW_COST = 10;

/**
 * Lists of events, newest first. A page walks one index, or the table itself, down from its cursor and looks at a
 * bounded number of rows, so it costs the same however many are stored and however few of them fit the filter. An
 * index for each filter would make that unnecessary, and every delivery would pay for it.
 */
export function createEventSearch(db: Connection): (filter: Filter, paging: Paging) => EventPage {
  const statements = new Map<string, Statement>();
  const prepared = (sql: string) => {
    const held = statements.get(sql) ?? db.prepare(sql);
    statements.set(sql, held);
    return held;
  };
  const countOf = db.prepare('SELECT count FROM event_counts WHERE state = ?').pluck();
  const ofRecord = createBlockSearch(db, {
    table: 'events',
    index: 'events_record',
    match: 't.record_id = ?',
  });

  return (filter, paging) => {
    // Most databases hold none of the rare states, and need not be walked to find that out.
    if (filter.state !== undefined && countOf.get(filter.state) === 0) return LAST_AND_EMPTY;
    const before = paging.after === undefined ? NEWEST : Number(paging.after);
    const limit = Math.min(Math.max(1, paging.limit), PAGE_LIMIT_MAX);
    const { find, findEnd, filtered, rowCost } = eventQuery(filter);
    const lookAt = Math.max(limit, Math.ceil((paging.lookAt ?? EVENTS_LOOKED_AT) / rowCost));

    let [looked, lastLooked]: [unknown[], number | null] = [[before, lookAt], null];
    if (filter.recordId !== undefined) {
      const seqs = ofRecord([filter.recordId], before, lookAt);
      looked = [JSON.stringify(seqs)];
      lastLooked = seqs[lookAt - 1] ?? null;
    }
    const items = prepared(find).all(...looked, ...filtered, limit) as EventReport[];
    const last = items.at(-1);
    if (last !== undefined && items.length === limit) {
      return { items, next: String(last.seq), looked_back_to: null };
    }
    const end = (
      filter.recordId === undefined
        ? prepared(findEnd).get(before, lookAt - 1)
        : lastLooked === null
          ? undefined
          : prepared(FIND_ONE).get(lastLooked)
    ) as { seq: number; received_at: string } | undefined;
    return end === undefined
      ? { items, next: null, looked_back_to: null }
      : { items, next: String(end.seq), looked_back_to: end.received_at };
  };
}

const FIND_ONE = 'SELECT seq, received_at FROM events WHERE seq = ?';

const LAST_AND_EMPTY: EventPage = { items: [], next: null, looked_back_to: null };

/**
 * Pure. The same filters give the same text, so that the statements are a handful. The inner part chooses the rows that are
 * looked at, the outer one those of them that are shown.
 */
function eventQuery({ state, type, kind, recordId }: Filter) {
  const byState = recordId === undefined && state !== undefined && INDEXED_STATES.includes(state);
  const equal: [string, string | undefined][] = [
    ['kind', kind],
    ['type', type],
    ['state', byState ? undefined : state],
  ];
  const given = equal.filter((pair): pair is [string, string] => pair[1] !== undefined);
  const conditions = given.map(([column]) => ` AND ${column} = ?`).join('');
  // A state stands in the text: an index of one state is used only where that state is spelled out.
  const [index, walk] = byState
    ? [`INDEXED BY events_${state}`, `state = '${state}' AND `]
    : ['NOT INDEXED', ''];
  const rows = `FROM events ${index} WHERE ${walk}seq < ? ORDER BY seq DESC LIMIT`;
  const looked =
    recordId === undefined
      ? `${rows} ?`
      : 'FROM events WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq DESC';
  return {
    find: `SELECT * FROM (SELECT ${COLUMNS} ${looked}) AS looked WHERE true${conditions} LIMIT ?`,
    findEnd: `SELECT seq, received_at ${rows} 1 OFFSET ?`,
    filtered: given.map(([, value]) => value),
    rowCost: recordId === undefined && !byState ? 1 : FOUND_ROW_COST,
  };
}
