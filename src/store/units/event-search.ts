import type { Sql } from '../database.ts';
import {
  EVENTS_LOOKED_AT,
  type EventPage,
  type EventReport,
  type EventState,
  type ReportStore,
} from '../reports.ts';
import { eventCounts, events } from '../schema.sqlite.ts';
import { isWithin, numbersWithin } from './by-time.ts';
import { beforeOf, columns, limitOf, sql } from './sql.ts';

type Filter = Parameters<ReportStore['listEvents']>[0];
type Paging = Parameters<ReportStore['listEvents']>[1];

/** Numbers of events about one record, of whatever kind, newest first. */
export type EventsOfRecord = (recordId: string, before: number, limit: number) => Promise<number[]>;

const { seq, receivedAt, state: stateColumn } = events;

export const EVENT_COLUMNS = columns(
  ...[
    seq,
    events.id,
    events.type,
    events.created,
    events.kind,
    events.recordId,
    receivedAt,
    events.deliveries,
  ],
  ...[
    events.lastDeliveredAt,
    stateColumn,
    events.attempts,
    events.nextAttemptAt,
    events.processedAt,
    events.error,
    events.address,
  ],
);

/** States that few events are in have an index of their own; the others are told apart while walking. */
const INDEXED_STATES: readonly EventState[] = ['pending', 'failed'];

/** A row found through an index costs several times one met on the way: fewer of them make the same page. */
const FOUND_ROW_COST = 10;

const LAST_AND_EMPTY: EventPage = { items: [], next: null, looked_back_to: null };

/**
 * Lists of events, newest first. A page walks one index, or the table itself, down from its cursor and looks at a bounded
 * number of rows, so it costs the same however many are stored and however few of them fit the filter. An index for each
 * filter would make that unnecessary, and every delivery would pay for it.
 */
export async function searchEvents(
  to: Sql,
  eventsOfRecord: EventsOfRecord,
  { state, type, kind, recordId, since, until }: Filter,
  paging: Paging,
): Promise<EventPage> {
  const { query, dialect } = to;
  // Most databases hold none of the rare states, and need not be walked to find that out.
  if (state !== undefined) {
    const [row] = await query<{ count: number }>(
      sql`SELECT ${eventCounts.count} FROM ${eventCounts} WHERE ${eventCounts.state} = ${state}`,
    );
    if (row?.count === 0) return LAST_AND_EMPTY;
  }
  const byState = recordId === undefined && state !== undefined && INDEXED_STATES.includes(state);
  const rowCost = recordId === undefined && !byState ? 1 : FOUND_ROW_COST;
  const period = { since, until };
  const within = await numbersWithin(to, { table: events, number: seq, time: receivedAt }, period);
  const before = Math.min(beforeOf(paging), within.before);
  const limit = limitOf(paging);
  const lookAt = Math.max(limit, Math.ceil((paging.lookAt ?? EVENTS_LOOKED_AT) / rowCost));

  // A state stands in the text: an index of one state is used only where that state is spelled out.
  const walked = byState
    ? sql`FROM ${events}${dialect.indexedBy(`events_${state}`)} WHERE ${stateColumn} = ${sql.raw(`'${state}'`)} AND ${seq} < ${before}`
    : sql`FROM ${events}${dialect.indexedBy(null)} WHERE ${seq} < ${before}`;
  const found = recordId === undefined ? null : await eventsOfRecord(recordId, before, lookAt);
  const looked =
    found === null
      ? sql`${walked} ORDER BY ${seq} DESC LIMIT ${lookAt}`
      : sql`FROM ${events} WHERE ${dialect.isAmong(seq, found)}`;
  const equal = Object.entries({ kind, type, state: byState ? undefined : state }).flatMap(([name, value]) =>
    value === undefined ? [] : [sql` AND ${sql.identifier(name)} = ${value}`],
  );
  const fits = isWithin(to, sql`received_at`, period).map((condition) => sql` AND ${condition}`);
  const items = await query<EventReport>(
    sql`SELECT * FROM (SELECT ${EVENT_COLUMNS}, NULL AS body ${looked}) AS looked
      WHERE true${sql.join([...equal, ...fits])} ORDER BY seq DESC LIMIT ${limit}`,
  );
  const last = items.at(-1);
  if (last !== undefined && items.length === limit)
    return { items, next: String(last.seq), looked_back_to: null };

  const [end] =
    found === null
      ? await query<End>(
          sql`SELECT ${columns(seq, receivedAt)} ${walked} ORDER BY ${seq} DESC LIMIT 1 OFFSET ${lookAt - 1}`,
        )
      : await query<End>(
          sql`SELECT ${columns(seq, receivedAt)} FROM ${events} WHERE ${seq} = ${found[lookAt - 1] ?? 0}`,
        );
  return end === undefined || end.seq < within.from
    ? { items, next: null, looked_back_to: null }
    : { items, next: String(end.seq), looked_back_to: end.received_at };
}

interface End {
  seq: number;
  received_at: string;
}
