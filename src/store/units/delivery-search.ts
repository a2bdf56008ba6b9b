import type { Sql } from '../database.ts';
import type { Column, SQL, Table } from '../drizzle.ts';
import {
  type DeliveryFilter,
  type DeliveryPage,
  type DeliveryReport,
  EVENTS_LOOKED_AT,
  type ListedOutcome,
  type Paging,
} from '../reports.ts';
import { duplicates, events, quarantine, rejections } from '../schema.sqlite.ts';
import { isWithin, numbersWithin } from './by-time.ts';
import type { EventsOfRecord } from './event-search.ts';
import { as, limitOf, sql } from './sql.ts';

/** A body that is searched is read: fewer of them take as long as a page of rows. */
const BODIES_LOOKED_AT = EVENTS_LOOKED_AT / 5;

/** Where deliveries of one outcome stand, by a number that grows. */
interface Source {
  outcome: ListedOutcome;
  table: Table;
  number: Column;
  receivedAt: Column;
  eventId: Column;
  recordId: Column | null;
  /** Null: the event has it. */
  body: Column | null;
  selected: SQL;
}

const nothing = sql`NULL`;
const SOURCES: readonly Source[] = [
  {
    ...{ outcome: 'accepted', table: events, number: events.seq, receivedAt: events.receivedAt },
    ...{ eventId: events.id, recordId: events.recordId, body: events.body },
    selected: as({
      ...{ number: events.seq, received_at: events.receivedAt, event_id: events.id, type: events.type },
      ...{ kind: events.kind, record_id: events.recordId, state: events.state, reason: events.error },
      ...{ address: events.address, deliveries: events.deliveries },
    }),
  },
  {
    ...{ outcome: 'duplicate', table: duplicates, number: duplicates.id, receivedAt: duplicates.receivedAt },
    ...{ eventId: duplicates.eventId, recordId: duplicates.recordId, body: null },
    selected: as({
      ...{ number: duplicates.id, received_at: duplicates.receivedAt, event_id: duplicates.eventId },
      ...{ type: duplicates.type, kind: duplicates.kind, record_id: duplicates.recordId, state: nothing },
      ...{ reason: nothing, address: duplicates.address, deliveries: sql`1` },
    }),
  },
  {
    ...{ outcome: 'quarantined', table: quarantine, number: quarantine.id },
    ...{ receivedAt: quarantine.receivedAt, eventId: quarantine.eventId, recordId: quarantine.recordId },
    body: quarantine.body,
    selected: as({
      ...{ number: quarantine.id, received_at: quarantine.receivedAt, event_id: quarantine.eventId },
      ...{ type: quarantine.type, kind: quarantine.kind, record_id: quarantine.recordId, state: nothing },
      ...{ reason: quarantine.reason, address: quarantine.address, deliveries: sql`1` },
    }),
  },
  {
    ...{ outcome: 'rejected', table: rejections, number: rejections.id, receivedAt: rejections.at },
    ...{ eventId: rejections.eventId, recordId: null, body: rejections.body },
    selected: as({
      ...{ number: rejections.id, received_at: rejections.at, event_id: rejections.eventId },
      ...{ type: rejections.type, kind: nothing, record_id: nothing, state: nothing },
      ...{ reason: rejections.reason, address: rejections.address, deliveries: rejections.times },
    }),
  },
];

/** What of one source a page may show, newest first, and where it has looked to. */
interface Found {
  lane: Lane;
  items: DeliveryReport[];
  /** Below it nothing was looked at; null: nothing is left. */
  end: { number: number; receivedAt: string } | null;
}

/** `named`: accepted ones that the search names, which an index finds however old they are. */
const LANES = ['accepted', 'duplicate', 'quarantined', 'rejected', 'named'] as const;
type Lane = (typeof LANES)[number];
type Cursor = Readonly<Record<Lane, number>>;

/**
 * Deliveries of all outcomes in one list, newest first. Each table is walked down by its own numbers, a bounded number of
 * rows a page; the page ends where the first of them has looked to. Its cursor are those numbers.
 */
export async function searchDeliveries(
  to: Sql,
  eventsOfRecord: EventsOfRecord,
  filter: DeliveryFilter,
  paging: Paging & { above?: string | undefined },
): Promise<DeliveryPage> {
  const limit = limitOf(paging);
  const from = cursorIn(paging.after, Number.MAX_SAFE_INTEGER);
  const above = cursorIn(paging.above, 0);
  // Before the rows: what comes in between is told of once too often rather than never.
  const newest = await newestOf(to);
  const found: Found[] = [];
  for (const source of SOURCES.filter(({ outcome }) => [undefined, outcome].includes(filter.outcome))) {
    const { until } = filter;
    const period = await numbersWithin(to, { ...source, time: source.receivedAt }, { until });
    const between = (lane: Lane): Range => ({
      above: above[lane],
      before: Math.min(from[lane], period.before),
    });
    found.push(await look(to, source, filter, between(source.outcome), limit));
    if (filter.search === undefined || source.outcome !== 'accepted') continue;
    const named = await numbersOf(to, eventsOfRecord, filter.search, between('named'), limit);
    found.push(await lookAmong(to, source, filter, named, limit));
  }
  const { items, next } = merged(found, from, limit);
  const reach = items.length === limit ? null : reachOf(found);
  return { items, next, looked_back_to: next === null ? null : reach, newest };
}

/** Numbers that a walk lies between, neither of them in it. */
interface Range {
  above: number;
  before: number;
}

/** Where each lane begins now, as a cursor has it. */
async function newestOf(to: Sql): Promise<string> {
  const newest = async ({ table, number }: Source) => {
    const [row] = await to.query<{ number: number }>(
      sql`SELECT ${as({ number })} FROM ${table} WHERE ${number} > 0 ORDER BY ${number} DESC LIMIT 1`,
    );
    return row?.number ?? 0;
  };
  const numbers: Partial<Record<Lane, number>> = {};
  for (const source of SOURCES) numbers[source.outcome] = await newest(source);
  return LANES.map((lane) => numbers[lane] ?? numbers.accepted).join('.');
}

/** The newest of all, each lane in its own order, as far as all of them have looked. */
function merged(found: readonly Found[], from: Cursor, limit: number): Pick<DeliveryPage, 'items' | 'next'> {
  const items: DeliveryReport[] = [];
  const taken = new Map(found.map(({ lane }) => [lane, 0]));
  const headOf = ({ lane, items: all }: Found) => all[taken.get(lane)!];
  const newestHead = () =>
    found
      .filter((each) => headOf(each) !== undefined)
      .sort((a, b) => (headOf(a)!.received_at < headOf(b)!.received_at ? 1 : -1))[0];
  for (let next = newestHead(); next !== undefined && items.length < limit; next = newestHead()) {
    const head = headOf(next)!;
    // A lane that has nothing left to show here may have something newer further down.
    const isBehind = found.some(
      (each) => headOf(each) === undefined && (each.end?.receivedAt ?? '') > head.received_at,
    );
    if (isBehind) break;
    items.push(head);
    taken.set(next.lane, taken.get(next.lane)! + 1);
  }
  const below = LANES.map((lane) => {
    const of = found.find((each) => each.lane === lane);
    if (of === undefined) return 0;
    if (headOf(of) === undefined) return of.end?.number ?? 0;
    return of.items[taken.get(lane)! - 1]?.number ?? from[lane];
  });
  return { items, next: below.every((number) => number === 0) ? null : below.join('.') };
}

function reachOf(found: readonly Found[]): string | null {
  const ends = found.flatMap(({ end }) => (end === null ? [] : [end.receivedAt]));
  return ends.sort().at(-1) ?? null;
}

function cursorIn(text: string | undefined, otherwise: number): Cursor {
  const numbers = text?.split('.').map(Number) ?? [];
  return Object.fromEntries(LANES.map((lane, nth) => [lane, numbers[nth] ?? otherwise])) as Cursor;
}

/** Walks a table down, a bounded number of rows. */
async function look(
  to: Sql,
  source: Source,
  filter: DeliveryFilter,
  { above, before }: Range,
  limit: number,
): Promise<Found> {
  const { table, number, receivedAt } = source;
  const lookAt = filter.search === undefined ? EVENTS_LOOKED_AT : BODIES_LOOKED_AT;
  const walked = sql`FROM ${table}${to.dialect.indexedBy(null)} WHERE ${number} < ${before} AND ${number} > ${above}
    ORDER BY ${number} DESC`;
  const items = await shown(to, source, filter, sql`${walked} LIMIT ${lookAt}`, limit);
  const lane = source.outcome;
  const last = items.at(-1);
  if (last !== undefined && items.length === limit) {
    return { lane, items, end: { number: last.number, receivedAt: last.received_at } };
  }
  const [end] = await to.query<{ number: number; received_at: string }>(
    sql`SELECT ${as({ number, received_at: receivedAt })} ${walked} LIMIT 1 OFFSET ${lookAt - 1}`,
  );
  const isOver = end === undefined || (filter.since !== undefined && end.received_at < filter.since);
  return { lane, items, end: isOver ? null : { number: end.number, receivedAt: end.received_at } };
}

/** Those of the numbers, newest first, that fit. */
async function lookAmong(
  to: Sql,
  source: Source,
  { search: _, ...filter }: DeliveryFilter,
  numbers: readonly number[],
  limit: number,
): Promise<Found> {
  const among = sql`FROM ${source.table} WHERE ${to.dialect.isAmong(source.number, numbers)}`;
  const items = await shown(to, source, filter, among, limit);
  const oldest = numbers.length < limit ? undefined : numbers.at(-1);
  if (oldest === undefined) return { lane: 'named', items, end: null };
  const [end] = await to.query<{ received_at: string }>(
    sql`SELECT ${as({ received_at: source.receivedAt })} FROM ${source.table} WHERE ${source.number} = ${oldest}`,
  );
  return { lane: 'named', items, end: { number: oldest, receivedAt: end?.received_at ?? '' } };
}

async function shown(
  to: Sql,
  source: Source,
  { type, kind, since, until, search }: DeliveryFilter,
  looked: SQL,
  limit: number,
): Promise<DeliveryReport[]> {
  const fits = search === undefined ? sql`true` : isFound(to, source, search);
  const conditions = [
    ...(type === undefined ? [] : [sql`type = ${type}`]),
    ...(kind === undefined ? [] : [sql`kind = ${kind}`]),
    ...isWithin(to, sql`received_at`, { since, until }),
    sql`fits`,
  ];
  const rows = await to.query<Omit<DeliveryReport, 'outcome'> & { fits: unknown }>(
    sql`SELECT * FROM (SELECT ${source.selected}, ${fits} AS fits ${looked}) AS looked
      WHERE ${sql.join(conditions, sql` AND `)} ORDER BY number DESC LIMIT ${limit}`,
  );
  return rows.map(({ fits: _, ...row }) => ({ outcome: source.outcome, ...row }));
}

/** Of events only what the other lane does not find. */
function isFound(to: Sql, { outcome, eventId, recordId, body }: Source, search: string): SQL {
  const isId = sql`coalesce(${eventId} = ${search}, false)`;
  const isNamed = recordId === null ? isId : sql`(${isId} OR coalesce(${recordId} = ${search}, false))`;
  const holds = body === null ? sql`false` : sql`coalesce(${to.dialect.contains(body, search)}, false)`;
  return outcome === 'accepted' ? sql`(${holds} AND NOT ${isNamed})` : sql`(${holds} OR ${isNamed})`;
}

/** Accepted events that the text names, newest first. */
async function numbersOf(
  to: Sql,
  eventsOfRecord: EventsOfRecord,
  name: string,
  { above, before }: Range,
  limit: number,
): Promise<number[]> {
  const byId = await to.query<{ number: number }>(
    sql`SELECT ${as({ number: events.seq })} FROM ${events} WHERE ${events.id} = ${name} AND ${events.seq} < ${before}`,
  );
  const ofRecord = await eventsOfRecord(name, before, limit);
  const all = new Set([...byId.map(({ number }) => number), ...ofRecord].filter((number) => number > above));
  return [...all].sort((a, b) => b - a).slice(0, limit);
}
