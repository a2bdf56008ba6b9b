import type { Sql } from '../database.ts';
import {
  type DeliveryReport,
  EVENTS_LOOKED_AT,
  type EventState,
  type Filters,
  type PageOf,
  type Query,
  type ShownDelivery,
} from '../reports.ts';
import { type Column, events, rejections } from '../schema.ts';
import { type SQL, sql } from '../statement.ts';
import { conditionOf, firstRow, limitOf, within } from './sql.ts';

/** States that few events are in. They have an index. */
const INDEXED_STATES: readonly EventState[] = ['pending', 'failed'];

/** A row that is found through an index costs several times one that is next in its table, so a page looks at fewer of them. */
const FOUND_ROW_COST = 10;

/** A search reads bodies: this many take as long as a page of rows without them. */
const BODIES_LOOKED_AT = EVENTS_LOOKED_AT / 5;

/** A table of deliveries. A list of deliveries merges both. */
interface Source {
  table: 'events' | 'rejections';
  number: string;
  /** The columns of a report that differ from those of the table. */
  columns: string;
  eventId: string;
  state: string;
  body: Column;
}

const SOURCES: readonly Source[] = [
  {
    table: 'events',
    number: 'seq',
    columns: `id, 'accepted' AS outcome, seq AS number, id AS event_id, state, error AS reason, deliveries`,
    eventId: 'id',
    state: 'state',
    body: events.body,
  },
  {
    table: 'rejections',
    // With its table, since ORDER BY would take the report's `id`.
    number: 'rejections.id',
    columns: `'rejection:' || id AS id, outcome, id AS number, event_id,
      CASE WHEN dismissed_at IS NOT NULL THEN 'dismissed' END AS state, reason, times AS deliveries`,
    eventId: 'event_id',
    state: `CASE WHEN dismissed_at IS NOT NULL THEN 'dismissed' END`,
    body: rejections.body,
  },
];

const COMMON = 'received_at, type, kind, record_id, address';

/** Newest first. Both tables are read down by their numbers; the cursor has one of each. */
export async function listDeliveries(to: Sql, filter: Query<'deliveries'>): Promise<PageOf<'deliveries'>> {
  const limit = limitOf(filter);
  const lookAt = filter.lookAt ?? (filter.search === undefined ? EVENTS_LOOKED_AT : BODIES_LOOKED_AT);
  const from = cursorIn(filter);
  const lanes: Lane[] = [];
  for (const [nth, source] of SOURCES.entries()) {
    const mayFit =
      filter.outcome === undefined || (filter.outcome === 'accepted') === (source.table === 'events');
    if (!mayFit) {
      lanes.push({ items: [], end: null, lastShown: 0 });
      continue;
    }
    const before = Math.min(from[nth]!, await numberAt(to, source, filter.until));
    const { rows, rowCost, fits } = await rowsOf(to, source, filter, before);
    const bounds = { limit, lookAt: Math.max(limit, Math.ceil(lookAt / rowCost)), since: filter.since };
    const page = await scanNewest(to, source, { rows, fits }, bounds);
    lanes.push({ ...page, lastShown: from[nth]! });
  }
  const { items, next } = merged(lanes, limit);
  const ends = lanes.flatMap(({ end }) => (end === null ? [] : [end.reach]));
  const looked_back_to = items.length === limit ? null : (ends.sort().at(-1) ?? null);
  return { items, next, looked_back_to };
}

/** By the id that lists show. An event's own id may look like that of a rejection. */
export async function showDelivery(to: Sql, id: string): Promise<ShownDelivery | null> {
  const [ofEvents, ofRejections] = SOURCES.map(({ columns }) => sql.raw(`${COMMON}, ${columns}`));
  const event = await firstRow<ShownDelivery>(
    to,
    sql`SELECT ${ofEvents}, created, last_delivered_at, attempts, next_attempt_at, processed_at, body FROM events WHERE id = ${id}`,
  );
  if (event !== null) return { ...NOT_KEPT, ...event };
  const number = rejectionNumber(id);
  if (number === null) return null;
  const rejection = await firstRow<Omit<ShownDelivery, 'body'> & { body: Buffer | null }>(
    to,
    sql`SELECT ${ofRejections}, dismissed_at, t, header, bytes, body_sha256, body FROM rejections WHERE id = ${number}`,
  );
  if (rejection === null) return null;
  const { body, ...rest } = rejection;
  const bodies = { body: body?.toString('utf8') ?? null, body_base64: body?.toString('base64') ?? null };
  return { ...NOT_KEPT, ...rest, ...bodies };
}

/** The number in the id of a delivery that was turned away; null: it is no such id. */
export function rejectionNumber(id: string): number | null {
  const [, number] = /^rejection:([1-9]\d{0,14})$/.exec(id) ?? [];
  return number === undefined ? null : Number(number);
}

/** What a delivery of another outcome has. */
const NOT_KEPT = {
  ...{ created: null, last_delivered_at: null, attempts: null, next_attempt_at: null, processed_at: null },
  ...{ dismissed_at: null, t: null, header: null, bytes: null, body_sha256: null, body_base64: null },
};

interface Lane extends Pick<Scanned, 'items' | 'end'> {
  /** The number of the last row that was shown. */
  lastShown: number;
}

/** A number for each table: only rows below it are left. */
const cursorIn = ({ after }: Query<'deliveries'>): number[] =>
  after === undefined ? SOURCES.map(() => Number.MAX_SAFE_INTEGER) : String(after).split('.').map(Number);

/** The newest rows of both, as far as both were read. */
function merged(found: readonly Lane[], limit: number): Pick<PageOf<'deliveries'>, 'items' | 'next'> {
  const shown: DeliveryReport[] = [];
  const lanes = found.map((lane) => ({ ...lane, rest: [...lane.items] }));
  while (shown.length < limit) {
    const [next] = lanes
      .filter(({ rest }) => rest.length > 0)
      .sort((a, b) => (a.rest[0]!.received_at < b.rest[0]!.received_at ? 1 : -1));
    const row = next?.rest[0];
    if (next === undefined || row === undefined) break;
    // A lane whose rows are all shown may have more rows, newer than this one, where it was not read yet.
    if (lanes.some(({ rest, end }) => rest.length === 0 && (end?.reach ?? '') > row.received_at)) break;
    shown.push(row);
    next.rest.shift();
    next.lastShown = row.number;
  }
  const places = lanes.map(({ rest, end, lastShown }) => (rest.length === 0 ? (end?.place ?? 0) : lastShown));
  return { items: shown, next: places.every((place) => place === 0) ? null : places.join('.') };
}

/** The rows of a table that a list may show, through an index where the filter has one, and which of them fit. */
async function rowsOf(
  to: Sql,
  source: Source,
  filter: Filters['deliveries'],
  before: number,
): Promise<{ rows: SQL; rowCost: number; fits: SQL }> {
  const { table, number } = source;
  const { outcome, state, record_id: recordId, search } = filter;
  const isBefore = sql`${sql.raw(number)} < ${before}`;
  const isNamed = table === 'events' && search !== undefined && (await namesEvents(to, search));
  const fits = conditionOf(filter, {
    ...within(to.dialect, 'received_at'),
    outcome: (asked) => (table === 'events' ? null : sql`outcome = ${asked}`),
    type: (type) => sql`type = ${type}`,
    kind: (kind) => sql`kind = ${kind}`,
    state: (asked) => sql`${sql.raw(source.state)} = ${asked}`,
    record_id: (id) => sql`record_id = ${id}`,
    search: (text) => (isNamed ? null : isFound(to, source, text)),
  });
  const found = (rows: SQL) => ({ rows, rowCost: FOUND_ROW_COST, fits });
  if (recordId !== undefined)
    return found(sql`FROM ${sql.raw(table)} WHERE record_id = ${recordId} AND ${isBefore}`);
  if (table === 'rejections' && outcome !== undefined)
    return found(sql`FROM rejections WHERE outcome = ${outcome} AND ${isBefore}`);
  if (isNamed) {
    const newest = sql`SELECT seq FROM events WHERE record_id = ${search} AND ${isBefore} ORDER BY seq DESC LIMIT ${EVENTS_LOOKED_AT}`;
    return found(
      sql`FROM events WHERE ${isBefore} AND seq IN (SELECT seq FROM events WHERE id = ${search} UNION ALL SELECT seq FROM (${newest}) AS newest)`,
    );
  }
  if (table === 'events' && state !== undefined && INDEXED_STATES.includes(state)) {
    // The state is part of the text, since with a parameter the planner does not use the index of that state.
    const isState = sql.raw(`state = '${state}'`);
    return found(sql`FROM events${to.dialect.indexedBy(`events_${state}`)} WHERE ${isState} AND ${isBefore}`);
  }
  return {
    rows: sql`FROM ${sql.raw(table)}${to.dialect.indexedBy(null)} WHERE ${isBefore}`,
    rowCost: 1,
    fits,
  };
}

/** Whether an event, or a record that one is about, has this id. Then a search shows exactly these events, of any age. */
async function namesEvents({ query }: Sql, id: string): Promise<boolean> {
  const named = await query(
    sql`SELECT 1 WHERE EXISTS (SELECT 1 FROM events WHERE id = ${id}) OR EXISTS (SELECT 1 FROM events WHERE record_id = ${id})`,
  );
  return named.length > 0;
}

const isFound = ({ dialect }: Sql, { eventId, body }: Source, search: string): SQL =>
  sql`(${dialect.contains(body, search)} OR coalesce(${sql.raw(eventId)} = ${search} OR record_id = ${search}, false))`;

/** All rows before `until` have numbers below this one. */
async function numberAt(to: Sql, source: Source, until: string | undefined): Promise<number> {
  return until === undefined ? Number.MAX_SAFE_INTEGER : await firstSince(to, source, until);
}

/** The number from which on all rows are of `instant` or later: a binary search, since times have no index. */
async function firstSince(to: Sql, { table, number }: Source, instant: string): Promise<number> {
  const select = sql.raw(`SELECT ${number} AS number, received_at AS time FROM ${table} WHERE ${number}`);
  const newestUpTo = (last: number) =>
    firstRow<{ number: number; time: string }>(
      to,
      sql`${select} <= ${last} ORDER BY ${sql.raw(number)} DESC LIMIT 1`,
    );
  let low = 0;
  let high = (await newestUpTo(Number.MAX_SAFE_INTEGER))?.number ?? 0;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const row = await newestUpTo(middle);
    if (row === null || row.time < instant) low = middle;
    else high = row.number - 1;
  }
  return low + 1;
}

/** A row's place in a scan: its number for a cursor, and its time for a person. */
interface ScanPlace {
  place: number;
  reach: string;
}

/** Rows of one table that a page may show, newest first, and how far it was read. */
interface Scanned {
  items: DeliveryReport[];
  isFull: boolean;
  /** The place of the last row that was looked at; null: no row is left after it. */
  end: ScanPlace | null;
}

/** Returns at most `limit` rows that fit, of the first `lookAt` of `rows` (FROM … WHERE …), the newest first. */
async function scanNewest(
  to: Sql,
  source: Source,
  { rows, fits }: { rows: SQL; fits: SQL },
  { limit, lookAt, since }: { limit: number; lookAt: number; since: string | undefined },
): Promise<Scanned> {
  const mark = sql.raw(`received_at AS reach, ${source.number} AS place`);
  const along = sql`${rows} ORDER BY ${sql.raw(source.number)} DESC`;
  const found = await to.query<DeliveryReport & ScanPlace & { fits: unknown }>(
    sql`SELECT * FROM (SELECT ${sql.raw(`${COMMON}, ${source.columns}`)}, (${fits}) AS fits, ${mark} ${along} LIMIT ${lookAt}) AS looked
      WHERE fits ORDER BY place DESC LIMIT ${limit}`,
  );
  const items = found.map(({ place, reach, fits, ...row }) => row);
  if (found.length === limit) return { items, isFull: true, end: found.at(-1)! };
  const end = await firstRow<ScanPlace>(to, sql`SELECT ${mark} ${along} LIMIT 1 OFFSET ${lookAt - 1}`);
  // A row from before the period does not end it: if a clock was set back, rows of the period may have lower numbers.
  const isOver = end !== null && since !== undefined && end.reach < since;
  return {
    items,
    isFull: false,
    end: isOver && end.place < (await firstSince(to, source, since)) ? null : end,
  };
}
