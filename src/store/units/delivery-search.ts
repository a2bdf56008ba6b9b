import type { Sql } from '../database.ts';
import {
  type DeliveryFilter,
  type DeliveryPage,
  type DeliveryPaging,
  type DeliveryReport,
  EVENTS_LOOKED_AT,
  type EventFilter,
  type EventReport,
  type EventState,
  type ListedOutcome,
  type Page,
  type Paging,
} from '../reports.ts';
import { type Column, events, quarantine, rejections, type SQL } from '../schema.ts';
import { isWithin, type Numbered, numberAt, type ScannedPage, scanNewest } from './lists.ts';
import { allOf, beforeOf, firstRow, limitOf, singleValue, sql } from './sql.ts';

/** Numbers of the events about a record of any kind, newest first. */
const eventsOfRecord = (to: Sql, id: string, below: number, limit: number) =>
  to.dialect.numbersOf(to, { table: 'events', kind: null, id, below, order: 'DESC', limit });

const EVENT_COLUMNS = sql.raw(
  'seq, id, type, created, kind, record_id, received_at, deliveries, last_delivered_at, state, attempts, next_attempt_at, processed_at, error, address',
);
const EVENTS: Numbered = { table: 'events', number: 'seq', time: 'received_at' };

/** States that few events are in. They have an index. */
const INDEXED_STATES: readonly EventState[] = ['pending', 'failed'];

/** A row that is found through an index costs several times one that is next in its table, so a page looks at fewer of them. */
const FOUND_ROW_COST = 10;

/** Events, and deliveries of all outcomes. */
export function createDeliverySearch(to: Sql) {
  return {
    /**
     * Newest first. A page reads down from its cursor, along one index or the table. It looks at a bounded number of rows, however many are
     * stored and however few fit the filter, because every delivery would pay for an index for each filter.
     */
    async listEvents(
      { state, type, kind, recordId, ...period }: EventFilter,
      paging: Paging,
    ): Promise<Page<EventReport>> {
      const { dialect } = to;
      // Most databases have no event in the rare states. Their count tells that at once.
      if (state !== undefined) {
        const ofState = await singleValue<number>(
          to,
          sql`SELECT count FROM event_counts WHERE state = ${state}`,
        );
        if (ofState === 0) return { items: [], next: null, looked_back_to: null };
      }
      const byState = recordId === undefined && state !== undefined && INDEXED_STATES.includes(state);
      const rowCost = recordId === undefined && !byState ? 1 : FOUND_ROW_COST;
      const before = Math.min(beforeOf(paging), await numberAt(to, EVENTS, period.until));
      const limit = limitOf(paging);
      const lookAt = Math.max(limit, Math.ceil((paging.lookAt ?? EVENTS_LOOKED_AT) / rowCost));

      const from = async () => {
        if (recordId !== undefined)
          return sql` WHERE ${dialect.isAmong(events.seq, await eventsOfRecord(to, recordId, before, lookAt))}`;
        // The state is part of the text, since with a parameter the planner does not use the index of that state.
        if (byState)
          return sql`${dialect.indexedBy(`events_${state}`)} WHERE state = ${sql.raw(`'${state}'`)} AND seq < ${before}`;
        return sql`${dialect.indexedBy(null)} WHERE seq < ${before}`;
      };
      const fits = allOf([
        kind === undefined ? null : sql`kind = ${kind}`,
        type === undefined ? null : sql`type = ${type}`,
        state === undefined || byState ? null : sql`state = ${state}`,
        isWithin(to, EVENTS.time, period),
      ]);
      const { items, isFull, end } = await scanNewest<EventReport>(
        to,
        EVENTS,
        sql`FROM events${await from()}`,
        { selected: sql`${EVENT_COLUMNS}, NULL AS body`, fits },
        { limit, lookAt, since: period.since },
      );
      return {
        items,
        next: end === null ? null : String(end.place),
        looked_back_to: isFull || end === null ? null : end.reach,
      };
    },

    showEvent: (id: string): Promise<EventReport | null> =>
      firstRow<EventReport>(to, sql`SELECT ${EVENT_COLUMNS}, body FROM events WHERE id = ${id}`),

    /**
     * Deliveries of all outcomes in one list, newest first. Each lane is read down by the numbers of its table; the cursor has a number for each
     * lane.
     */
    async listDeliveries(filter: DeliveryFilter, paging: DeliveryPaging): Promise<DeliveryPage> {
      const limit = limitOf(paging);
      const lookAt = paging.lookAt ?? (filter.search === undefined ? EVENTS_LOOKED_AT : BODIES_LOOKED_AT);
      const from = cursorIn(paging.after, Number.MAX_SAFE_INTEGER);
      const above = cursorIn(paging.above, 0);
      // Read before the rows: a delivery that comes in between is reported twice rather than never.
      const newest = await newestOf(to);
      const found: Found[] = [];
      for (const source of SOURCES) {
        const { outcome } = source;
        if (filter.outcome !== undefined && filter.outcome !== outcome) continue;
        const end = await numberAt(to, source, filter.until);
        const rangeOf = (lane: Lane): Range => ({ above: above[lane], before: Math.min(from[lane], end) });
        const rows = rowsOf(to, source, rangeOf(outcome));
        found.push(await readLane(to, outcome, source, filter, rows, { limit, lookAt }));
        const { search, ...rest } = filter;
        if (search === undefined || outcome !== 'accepted') continue;
        const named = await eventsNamed(to, search, rangeOf('named'), limit);
        const namedRows = sql`FROM ${events} WHERE ${to.dialect.isAmong(events.seq, named)}`;
        found.push(await readLane(to, 'named', source, rest, namedRows, { limit, lookAt: limit }));
      }
      const { items, next } = merged(found, from, limit);
      const ends = found.flatMap(({ end }) => (end === null ? [] : [end.reach]));
      const looked_back_to = items.length === limit ? null : (ends.sort().at(-1) ?? null);
      return { items, next, looked_back_to, newest };
    },
  };
}

/** A search reads bodies: this many take as long as a page of rows without them. */
const BODIES_LOOKED_AT = EVENTS_LOOKED_AT / 5;

/** The columns of a report, except the outcome, and what most tables have for each. */
const COLUMNS = {
  number: 'id',
  received_at: 'received_at',
  event_id: 'event_id',
  type: 'type',
  kind: 'kind',
  record_id: 'record_id',
  state: 'NULL',
  reason: 'NULL',
  address: 'address',
  deliveries: '1',
};

/** The table with the deliveries of one outcome. */
interface Source extends Numbered {
  outcome: ListedOutcome;
  /** Null: the table has no bodies. */
  body: Column | null;
  columns: typeof COLUMNS;
}

function sourceOf(
  outcome: ListedOutcome,
  table: string,
  body: Column | null,
  others: Partial<typeof COLUMNS> = {},
): Source {
  const columns = { ...COLUMNS, ...others };
  return { outcome, table, body, columns, number: columns.number, time: columns.received_at };
}

const OF_EVENTS = {
  number: 'seq',
  event_id: 'id',
  state: 'state',
  reason: 'error',
  deliveries: 'deliveries',
};
const OF_REJECTIONS = {
  received_at: 'at',
  kind: 'NULL',
  record_id: 'NULL',
  reason: 'reason',
  deliveries: 'times',
};
const SOURCES: readonly Source[] = [
  sourceOf('accepted', 'events', events.body, OF_EVENTS),
  sourceOf('duplicate', 'duplicates', null),
  sourceOf('quarantined', 'quarantine', quarantine.body, { reason: 'reason' }),
  sourceOf('rejected', 'rejections', rejections.body, OF_REJECTIONS),
];

/** The rows of one lane that a page may show, newest first, and how far the lane was read. */
interface Found extends Pick<ScannedPage<DeliveryReport, number>, 'items' | 'end'> {
  lane: Lane;
}

/** A list of deliveries merges these lanes. `named`: accepted ones with the searched id, which an index finds at any age. */
const LANES = ['accepted', 'duplicate', 'quarantined', 'rejected', 'named'] as const;
type Lane = (typeof LANES)[number];
type Cursor = Readonly<Record<Lane, number>>;

/** Exclusive bounds of a lane's numbers. */
interface Range {
  above: number;
  before: number;
}

/** The newest number of each lane, as a cursor. */
async function newestOf(to: Sql): Promise<string> {
  const numbers: Partial<Record<Lane, number>> = {};
  for (const { outcome, table, number } of SOURCES) {
    const last = sql.raw(
      `SELECT ${number} FROM ${table} WHERE ${number} > 0 ORDER BY ${number} DESC LIMIT 1`,
    );
    numbers[outcome] = (await singleValue<number>(to, last)) ?? 0;
  }
  return LANES.map((lane) => numbers[lane] ?? numbers.accepted).join('.');
}

/** The newest rows of all lanes, as far as every lane was read. */
function merged(found: readonly Found[], from: Cursor, limit: number): Pick<DeliveryPage, 'items' | 'next'> {
  const shown: DeliveryReport[] = [];
  const lanes = found.map(({ lane, items, end }) => ({ lane, end, rest: [...items], lastShown: from[lane] }));
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
  const places = LANES.map((name) => {
    const lane = lanes.find((each) => each.lane === name);
    if (lane === undefined) return 0;
    return lane.rest.length === 0 ? (lane.end?.place ?? 0) : lane.lastShown;
  });
  return { items: shown, next: places.every((place) => place === 0) ? null : places.join('.') };
}

function cursorIn(text: string | undefined, otherwise: number): Cursor {
  const numbers = text?.split('.').map(Number) ?? [];
  return Object.fromEntries(LANES.map((lane, nth) => [lane, numbers[nth] ?? otherwise])) as Cursor;
}

function rowsOf(to: Sql, source: Source, { above, before }: Range): SQL {
  const number = sql.raw(source.number);
  const isBetween = sql`${number} < ${before} AND ${number} > ${above}`;
  return sql`FROM ${sql.raw(source.table)}${to.dialect.indexedBy(null)} WHERE ${isBetween}`;
}

async function readLane(
  to: Sql,
  lane: Lane,
  source: Source,
  { type, kind, search, ...period }: DeliveryFilter,
  rows: SQL,
  bounds: { limit: number; lookAt: number },
): Promise<Found> {
  const fits = allOf([
    type === undefined ? null : sql`type = ${type}`,
    kind === undefined ? null : sql`${sql.raw(source.columns.kind)} = ${kind}`,
    isWithin(to, source.time, period),
    search === undefined ? null : isFound(to, source, search),
  ]);
  const selected = Object.entries(source.columns).map(([name, from]) => `${from} AS ${name}`);
  const { items, end } = await scanNewest<Omit<DeliveryReport, 'outcome'>>(
    to,
    source,
    rows,
    { selected: sql.raw(selected.join(', ')), fits },
    { ...bounds, since: period.since },
  );
  return { lane, end, items: items.map((row) => ({ outcome: source.outcome, ...row })) };
}

/** Leaves out the events that the lane `named` finds. */
function isFound(to: Sql, { outcome, columns, body }: Source, search: string): SQL {
  const isNamed = sql`coalesce(${sql.raw(columns.event_id)} = ${search} OR ${sql.raw(columns.record_id)} = ${search}, false)`;
  const holds = body === null ? sql`false` : to.dialect.contains(body, search);
  return outcome === 'accepted' ? sql`(${holds} AND NOT ${isNamed})` : sql`(${holds} OR ${isNamed})`;
}

/** Numbers of accepted events that have this id, or are about a record with this id: at least the `limit` newest. */
async function eventsNamed(
  to: Sql,
  name: string,
  { above, before }: Range,
  limit: number,
): Promise<number[]> {
  const byId = await singleValue<number>(
    to,
    sql`SELECT seq FROM events WHERE id = ${name} AND seq < ${before}`,
  );
  const ofRecord = await eventsOfRecord(to, name, before, limit);
  const all = new Set(byId === null ? ofRecord : [byId, ...ofRecord]);
  return [...all].filter((number) => number > above);
}
