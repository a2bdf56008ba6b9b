import type Database from 'better-sqlite3';
import { type EventReport, PAGE_LIMIT_MAX, type Paging, type ReportStore } from '../reports.ts';
import type { Connection } from './connection.ts';

type Filter = Parameters<ReportStore['listEvents']>[0];
type Statement = Database.Statement<unknown[]>;

const COLUMNS =
  'seq, id, type, created, kind, record_id, received_at, deliveries, last_delivered_at, state, attempts, ' +
  'next_attempt_at, processed_at, error, NULL AS body';

/** Above every number, so that the first page asks in the same words as the others. */
const NEWEST = Number.MAX_SAFE_INTEGER;

/**
 * Lists of events, newest first. Each filter has its index, which ends in `seq`: a page costs the same however
 * many events are stored. With several filters the narrowest one's index is read and the others look at what
 * it finds; the planner has no statistics to choose by, so the choice is made here.
 */
export function createEventSearch(db: Connection): (filter: Filter, paging: Paging) => EventReport[] {
  const statements = new Map<string, Statement>();

  return (filter, paging) => {
    const { sql, values } = eventQuery(filter);
    let statement = statements.get(sql);
    if (statement === undefined) {
      statement = db.prepare(sql);
      statements.set(sql, statement);
    }
    const before = paging.after === undefined ? NEWEST : Number(paging.after);
    const limit = Math.min(Math.max(1, paging.limit), PAGE_LIMIT_MAX);
    return statement.all(...values, before, limit) as EventReport[];
  };
}

/** Pure. The same filters give the same text, so that the statements are a handful. */
function eventQuery(filter: Filter): { sql: string; values: string[] } {
  const { state, type, kind, recordId } = filter;
  // Nearly all events are done, and most types are many: of the two the type is narrower then, and else the state.
  const index =
    recordId !== undefined
      ? 'events_record'
      : type !== undefined && (state === undefined || state === 'done' || state === 'ignored')
        ? 'events_type'
        : state !== undefined
          ? `events_${state}`
          : kind !== undefined
            ? 'events_kind'
            : null;
  const equal: [string, string | undefined][] = [
    ['record_id', recordId],
    ['kind', kind],
    ['type', type],
  ];
  const given = equal.filter((pair): pair is [string, string] => pair[1] !== undefined);
  // A state stands in the text: an index of one state is used only where that state is spelled out.
  const states = state === undefined ? [] : [`state = '${state}'`];
  const where = [...given.map(([column]) => `${column} = ?`), ...states, 'seq < ?'].join(' AND ');
  return {
    sql: `SELECT ${COLUMNS} FROM events ${index === null ? 'NOT INDEXED' : `INDEXED BY ${index}`} WHERE ${where} ORDER BY seq DESC LIMIT ?`,
    values: given.map(([, value]) => value),
  };
}
