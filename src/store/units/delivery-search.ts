import type { Sql } from '../database.ts';
import {
  type DeliveryFilter,
  type DeliveryPage,
  type DeliveryPaging,
  type DeliveryReport,
  EVENTS_LOOKED_AT,
  type EventState,
  type ShownDelivery,
} from '../reports.ts';
import { type Column, events, rejections } from '../schema.ts';
import { type SQL, sql } from '../statement.ts';
import { isWithin, type Numbered, numberAt, type ScannedPage, scanNewest } from './lists.ts';
import { allOf, firstRow, limitOf } from './sql.ts';

/** States that few events are in. They have an index. */
const INDEXED_STATES: readonly EventState[] = ['pending', 'failed'];

/** A row that is found through an index costs several times one that is next in its table, so a page looks at fewer of them. */
const FOUND_ROW_COST = 10;

/** A search reads bodies: this many take as long as a page of rows without them. */
const BODIES_LOOKED_AT = EVENTS_LOOKED_AT / 5;

/** A table of deliveries. A list of deliveries merges both. */
interface Source extends Numbered {
  table: 'events' | 'rejections';
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
    time: 'received_at',
    columns: `id, 'accepted' AS outcome, seq AS number, id AS event_id, state, error AS reason, deliveries`,
    eventId: 'id',
    state: 'state',
    body: events.body,
  },
  {
    table: 'rejections',
    // With its table, since ORDER BY would take the report's `id`.
    number: 'rejections.id',
    time: 'received_at',
    columns: `'rejection:' || id AS id, outcome, id AS number, event_id,
      CASE WHEN dismissed_at IS NOT NULL THEN 'dismissed' END AS state, reason, times AS deliveries`,
    eventId: 'event_id',
    state: `CASE WHEN dismissed_at IS NOT NULL THEN 'dismissed' END`,
    body: rejections.body,
  },
];

const COMMON = 'received_at, type, kind, record_id, address';

/** Deliveries of all outcomes: events, and what was turned away. */
export function createDeliverySearch(to: Sql) {
  return {
    /** Newest first. Both tables are read down by their numbers; the cursor has one of each. */
    async listDeliveries(filter: DeliveryFilter, paging: DeliveryPaging): Promise<DeliveryPage> {
      const limit = limitOf(paging);
      const lookAt = paging.lookAt ?? (filter.search === undefined ? EVENTS_LOOKED_AT : BODIES_LOOKED_AT);
      const from = cursorIn(paging.after, Number.MAX_SAFE_INTEGER);
      const above = cursorIn(paging.above, 0);
      // Read before the rows: a delivery that comes in between is reported twice rather than never.
      const newest = await newestOf(to);
      const lanes: Lane[] = [];
      for (const [nth, source] of SOURCES.entries()) {
        const mayFit =
          filter.outcome === undefined || (filter.outcome === 'accepted') === (source.table === 'events');
        if (!mayFit) {
          lanes.push({ items: [], end: null, lastShown: 0 });
          continue;
        }
        const before = Math.min(from[nth]!, await numberAt(to, source, filter.until));
        const { rows, rowCost, fits } = await rowsOf(to, source, filter, { above: above[nth]!, before });
        const bounds = { limit, lookAt: Math.max(limit, Math.ceil(lookAt / rowCost)), since: filter.since };
        const selected = sql.raw(`${COMMON}, ${source.columns}`);
        const page = await scanNewest<DeliveryReport>(to, source, rows, { selected, fits }, bounds);
        lanes.push({ ...page, lastShown: from[nth]! });
      }
      const { items, next } = merged(lanes, limit);
      const ends = lanes.flatMap(({ end }) => (end === null ? [] : [end.reach]));
      const looked_back_to = items.length === limit ? null : (ends.sort().at(-1) ?? null);
      return { items, next, looked_back_to, newest };
    },

    /** By the id that lists show. An event's own id may look like that of a rejection. */
    async showDelivery(id: string): Promise<ShownDelivery | null> {
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
    },
  };
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

/** The rows of one table that a page may show, newest first, and how far the table was read. */
interface Lane extends Pick<ScannedPage<DeliveryReport>, 'items' | 'end'> {
  /** The number of the last row that was shown. */
  lastShown: number;
}

/** The newest number of each table, as a cursor. */
async function newestOf(to: Sql): Promise<string> {
  const numbers = SOURCES.map(({ table, number }) => `coalesce((SELECT max(${number}) FROM ${table}), 0)`);
  const [row] = await to.query<Record<'events' | 'rejections', number>>(
    sql.raw(`SELECT ${numbers[0]} AS events, ${numbers[1]} AS rejections`),
  );
  return `${row!.events}.${row!.rejections}`;
}

function cursorIn(text: string | undefined, otherwise: number): number[] {
  return text?.split('.').map(Number) ?? SOURCES.map(() => otherwise);
}

/** The newest rows of both, as far as both were read. */
function merged(found: readonly Lane[], limit: number): Pick<DeliveryPage, 'items' | 'next'> {
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
  { type, kind, outcome, state, recordId, search, ...period }: DeliveryFilter,
  { above, before }: { above: number; before: number },
): Promise<{ rows: SQL; rowCost: number; fits: SQL }> {
  const { table, number } = source;
  const isBetween = sql`${sql.raw(number)} < ${before} AND ${sql.raw(number)} > ${above}`;
  const isNamed = table === 'events' && search !== undefined && (await namesEvents(to, search));
  const fits = allOf([
    outcome === undefined || table === 'events' ? null : sql`outcome = ${outcome}`,
    type === undefined ? null : sql`type = ${type}`,
    kind === undefined ? null : sql`kind = ${kind}`,
    state === undefined ? null : sql`${sql.raw(source.state)} = ${state}`,
    recordId === undefined ? null : sql`record_id = ${recordId}`,
    isWithin(to, source.time, period),
    search === undefined || isNamed ? null : isFound(to, source, search),
  ]);
  const found = (rows: SQL) => ({ rows, rowCost: FOUND_ROW_COST, fits });
  if (recordId !== undefined)
    return found(sql`FROM ${sql.raw(table)} WHERE record_id = ${recordId} AND ${isBetween}`);
  if (table === 'rejections' && outcome !== undefined)
    return found(sql`FROM rejections WHERE outcome = ${outcome} AND ${isBetween}`);
  if (isNamed) {
    const newest = sql`SELECT seq FROM events WHERE record_id = ${search} AND ${isBetween} ORDER BY seq DESC LIMIT ${EVENTS_LOOKED_AT}`;
    return found(
      sql`FROM events WHERE ${isBetween} AND seq IN (SELECT seq FROM events WHERE id = ${search} UNION ALL SELECT seq FROM (${newest}) AS newest)`,
    );
  }
  if (table === 'events' && state !== undefined && INDEXED_STATES.includes(state)) {
    // The state is part of the text, since with a parameter the planner does not use the index of that state.
    const isState = sql.raw(`state = '${state}'`);
    return found(
      sql`FROM events${to.dialect.indexedBy(`events_${state}`)} WHERE ${isState} AND ${isBetween}`,
    );
  }
  return {
    rows: sql`FROM ${sql.raw(table)}${to.dialect.indexedBy(null)} WHERE ${isBetween}`,
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
