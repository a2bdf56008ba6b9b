import type { Kind } from '../compliance/kinds.ts';
import type { Column, SQL, Table } from './drizzle.ts';
import type { StoreSummary } from './reports.ts';
import type { Field, GapChange } from './values.ts';

/** What a verb runs on: the same on both engines, so that each is written once. */

/** The durable counter within one unit. Every number that orders anything comes from here. */
export function numbersFrom(start: number) {
  let value = start;
  return {
    current: (): number => value,
    next: (): number => {
      value += 1;
      return value;
    },
  };
}

export type Numbers = ReturnType<typeof numbersFrom>;

/** What the two engines write differently. */
export interface Dialect {
  /** The column's value is one of these: a single parameter, however many they are. */
  isAmong(column: Column, values: readonly (string | number)[]): SQL;
  /** A value for a column of JSON. Null stays null. */
  json(value: unknown): SQL;
  /** Such a column's value, as it was. */
  fromJson(stored: unknown): unknown;
  /** A value within JSON is this one, in whatever order an object has its fields. */
  isJson(found: SQL, value: unknown): SQL;
  /** An instant, where nothing else tells that a text is one. */
  instant(iso: string): SQL;
  /** As a table `listed` with columns `id` and `nth`, which is their order. */
  listed(ids: readonly string[]): SQL;
  /** Rows of texts, as a table `given` with these columns. */
  given<Column extends string>(
    columns: readonly Column[],
    rows: readonly Readonly<Record<Column, string | null>>[],
  ): SQL;
  /** At the end of a SELECT: until the unit ends, nobody else changes its rows or reads them in this way. */
  readonly forUpdate: SQL;
  /** When the hour of an instant began, as such a column holds it. */
  hourOf(column: Column): SQL;
  /** From one instant in text to another. */
  millisecondsBetween(earlier: SQL, later: SQL): SQL;
  /** A hint for one engine's planner, behind a table's name, null: to walk the table itself; nothing for the other's. */
  indexedBy(index: string | null): SQL;
  /** A name as its index has it: letters in either case, ASCII only. */
  folded(text: Column | string): SQL;
  /** The name begins with `text`, in either case, where it is known not to lie before it. */
  beginsWith(column: Column, text: string): SQL;
  /** A text of any length as its index has it, which is as far as the engine can take it. */
  indexed(text: Column | string): SQL;
  /** The name holds `text`, in either case. */
  holds(column: Column, text: string): SQL;
  /** The column, of text or of bytes, holds this text, letter for letter. */
  contains(column: Column, text: string): SQL;
  /** After `place` in the order of an index. */
  isBehind(order: readonly [SQL, Column], place: readonly [SQL, string]): SQL;
  /** What gives the view `…_flat` of the kind these columns, which are those that `fields` has. */
  flatView(kind: Kind, fields: readonly Field[]): SQL[];
  /** An object of JSON, each of its values replaced by this number. */
  withEach(object: Column, value: number): SQL;
  /** Numbers of the rows about one record, through their index. */
  numbersOf(from: Sql, rows: RowsOfRecord): Promise<number[]>;
  /** Numbers of the last processed event about each of these, through the same index. None is above `through`. */
  lastProcessed(
    from: Sql,
    kind: Kind,
    records: readonly { id: string; through: number }[],
  ): Promise<number[]>;
  sizes(from: Sql): Promise<Pick<StoreSummary, 'database_bytes' | 'wal_bytes'>>;
}

export interface RowsOfRecord {
  table: 'events' | 'changes';
  /** Null: of any kind; only of events. */
  kind: Kind | null;
  id: string;
  /** Neither of the two is included. */
  above?: number;
  below?: number;
  /** Only rows that fulfil it. */
  among?: SQL;
  order: 'ASC' | 'DESC';
  limit: number;
}

/**
 * A page of records or changes ends once their JSON has so many bytes together, with one row at least. In memory it takes six to ten
 * times as much until it is sent, and several are made at once. Room for 500 rows of 8 KiB.
 */
export const PAGE_BYTES = 4_194_304;

export interface Sql {
  readonly dialect: Dialect;
  /** Rows, their columns as the port types them; what is true or false comes as either engine has it. */
  query<Row>(statement: SQL): Promise<Row[]>;
  /**
   * The first rows, `limit` at most, as far as these columns, of JSON, have so many bytes together. Default: `PAGE_BYTES`. `isFull`: more
   * may follow. No more are read than that, if the statement gives them in the order of an index or of `listed`.
   */
  page<Row>(
    statement: SQL,
    json: readonly Column[],
    limit: number,
    most?: number,
  ): Promise<{ rows: Row[]; isFull: boolean }>;
  /** How many rows were changed. */
  change(statement: SQL): Promise<number>;
}

/** One atomic unit that holds the counter. */
export interface Unit extends Sql {
  /** Writes, without waiting for it. If it fails, the whole unit fails, and nothing of it is kept. */
  send(statement: SQL): void;
  numbers: Numbers;
  /** What it has done to gaps, in order. */
  gapChanges: GapChange[];
}

export interface Database {
  /** Single statements, each seeing what is committed as it begins. */
  readonly sql: Sql;
  /** The counter. No number up to this one is given again, whatever happens to the engine. */
  currentNumber(): Promise<number>;
  /** Statements that only read, and see what was committed at one moment. */
  atOneMoment<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** The same for what people ask: fewer at once, where they need connections. */
  readonly reports?: Pick<Database, 'sql' | 'currentNumber' | 'atOneMoment'>;
  /**
   * One atomic unit that writes, one after another over all processes: number order is commit order. What fails may run
   * again, so `work` changes nothing but the database. What is read first is asked for along with the lock, by `first`.
   */
  transact<T, First = undefined>(
    work: (unit: Unit, read: First) => Promise<T>,
    first?: (sql: Sql) => Promise<First>,
  ): Promise<T>;
  /** One atomic unit without numbers. With a table, one after another among those that name it. */
  transactApart<T>(table: Table | null, work: (unit: Sql) => Promise<T>): Promise<T>;
}

/** One after the other, in the order of calls; a failure is its caller's alone. */
export function turns(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<void> = Promise.resolve();
  return async (work) => {
    const mine = last.then(work);
    last = mine.then(nothing, nothing);
    // Not the promise that is waited for here: a failure that its caller leaves alone would go unnoticed.
    return await mine;
  };
}

/**
 * The same in two queues, one from each in turn where both wait: whoever calls on the one waits for the work of the other
 * once at most, however much of it there is.
 */
export function alternatingTurns(): readonly [InTurn, InTurn] {
  const queues: [Job[], Job[]] = [[], []];
  let next = 0;
  let isRunning = false;

  async function run(): Promise<void> {
    isRunning = true;
    for (;;) {
      const from = queues[next]!.length > 0 ? next : 1 - next;
      const job = queues[from]!.shift();
      if (job === undefined) break;
      next = 1 - from;
      await job();
    }
    isRunning = false;
  }

  const inTurn =
    (queue: Job[]): InTurn =>
    (work) =>
      new Promise((resolve, reject) => {
        queue.push(() => work().then(resolve, reject));
        if (!isRunning) void run();
      });
  return [inTurn(queues[0]), inTurn(queues[1])];
}

type InTurn = <T>(work: () => Promise<T>) => Promise<T>;
type Job = () => Promise<void>;

const nothing = () => undefined;
