import type { Kind } from '../compliance/kinds.ts';
import type { StoreSummary } from './reports.ts';
import type { Column, Table } from './schema.ts';
import type { SQL } from './statement.ts';
import type { Field, FieldType, ProblemChange } from './values.ts';

/** What verbs use of a database. It is the same on both engines, so that each verb is written once. */

/** The durable counter within one unit. All numbers that order anything come from it. */
export function numbersFrom(start: number) {
  let value = start;
  return {
    current: (): number => value,
    next: (): number => {
      value += 1;
      return value;
    },
    skip(count: number): void {
      value += count;
    },
  };
}

export type Numbers = ReturnType<typeof numbersFrom>;

/** SQL that the two engines write differently. */
export interface Dialect {
  /** The column has one of these values. They are passed as one parameter. */
  isAmong(column: Column, values: readonly (string | number)[]): SQL;
  /** A value within JSON equals this one. The order of an object's fields does not matter. */
  isJson(found: SQL, value: unknown): SQL;
  /** An instant, where PostgreSQL would take it for a text. */
  instant(iso: string | null): SQL;
  /** Documents as a table `given`: `id`, and `data` as a row holds it. */
  documents(objects: readonly { id: string; json: string }[]): SQL;
  /** The text at a path of the document of a row `r`, or the whole number where one counts; else null. */
  textAt(path: readonly string[], isNumber: boolean): string;
  /** These ids as a table `listed`. */
  listed(ids: readonly string[]): SQL;
  /** These rows as a table `given`. All columns are text. */
  given<Column extends string>(
    columns: readonly Column[],
    rows: readonly Readonly<Record<Column, string | null>>[],
  ): SQL;
  millisecondsBetween(earlier: SQL, later: SQL): SQL;
  /** After a table's name, for SQLite's planner: the index to use; null: none. */
  indexedBy(index: string | null): SQL;
  /** The name contains `text`, ignoring the case of ASCII letters. */
  holds(name: SQL, text: string): SQL;
  /** The column, of text or of bytes, contains exactly this text. */
  contains(column: Column, text: string): SQL;
  /** A column of a view as ISO 8601: as far as its type goes, with microseconds. */
  timeText(name: SQL, type: FieldType): SQL;
  /** Makes the views of the kind with these typed columns. False: another role owns them. */
  showFields(to: Sql, kind: Kind, fields: readonly Field[]): Promise<boolean>;
  /** A JSON object, with this number in the place of each value of the object in one of its fields. */
  withEach(object: Column, field: string, value: number): SQL;
  sizes(from: Sql): Promise<Pick<StoreSummary, 'database_bytes' | 'wal_bytes'>>;
}

/**
 * A page of records or changes ends when its JSON has this size, but has at least one row. Until a page is sent it takes six to ten
 * times as much memory, and several are made at once. 500 rows of 8 KiB fit.
 */
export const PAGE_BYTES = 4_194_304;

export interface Sql {
  readonly dialect: Dialect;
  /** Rows, with columns as the port types them; only booleans come as the engine has them, in SQLite 0 or 1. */
  query<Row>(statement: SQL): Promise<Row[]>;
  /**
   * The first rows: at most `limit`, and only until these JSON columns have `maxBytes` together (default: `PAGE_BYTES`). `isFull`: more
   * rows may follow. Those are not read if the statement returns its rows in the order of an index.
   */
  page<Row>(
    statement: SQL,
    json: readonly Column[],
    limit: number,
    maxBytes?: number,
  ): Promise<{ rows: Row[]; isFull: boolean }>;
  /** Returns how many rows were changed. */
  change(statement: SQL): Promise<number>;
}

/** How rows of a table are written. Made once for each call site, since an engine keeps a statement for each. */
export interface Writing {
  table: string;
  /** Fields of a row, and the columns they go to; `custom`: an instant. */
  columns: readonly {
    field: string;
    name: string;
    type: 'string' | 'number' | 'boolean' | 'custom' | 'json';
  }[];
  /** An UPDATE of the row with this key, which is the last of the columns; null: an INSERT. */
  key: string | null;
  /** Behind an INSERT: what is done where a row is there already. */
  conflict: string;
}

/** One atomic unit, which has the counter locked. */
export interface Unit extends Sql {
  /** Writes these rows, none of them twice, without waiting for the answer. Objects are JSON, but for instants. */
  write(how: Writing, rows: readonly object[]): void;
  /** Writes without waiting for the answer. If the statement fails, the unit fails and is rolled back. */
  send(statement: SQL): void;
  numbers: Numbers;
  /** The problems that it opened or resolved, in order. */
  problemChanges: ProblemChange[];
}

export type Flush = 'first' | 'beside' | 'later';

export interface Database {
  /** The steady clock is the database's, so that instants stay valid when a process ends. */
  readonly keepsTime: boolean;
  /** Single statements. Each sees what is committed when it begins. */
  readonly sql: Sql;
  /** The counter. No number up to this one is given out again, even after a crash. */
  currentNumber(): Promise<number>;
  /** Statements that only read, and all see the same committed state. */
  atOneMoment<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /** The same for reports, of which PostgreSQL runs only a few at once. */
  readonly reports?: Pick<Database, 'sql' | 'currentNumber' | 'atOneMoment'>;
  /**
   * One atomic unit that writes. The units of all processes run one after another, so number order is commit order. A failed unit
   * may run again, so `work` changes nothing but the database. `first` reads what `work` needs, in the same round trip as the lock.
   *
   * `flush`: `first`: nobody sees the unit before it is on the disk. `beside`: on PostgreSQL the next unit need not wait for that, but its
   * own result does. `later`: nor does its result on SQLite, since the same is done again, from what is stored, if a crash loses the unit.
   */
  transact<T, First = undefined>(
    work: (unit: Unit, read: First) => Promise<T>,
    first?: (sql: Sql) => Promise<First>,
    flush?: Flush,
  ): Promise<T>;
  /** One atomic unit without numbers. Units that name the same table run one after another. */
  transactApart<T>(table: Table | null, work: (unit: Sql) => Promise<T>): Promise<T>;
}

export type InTurn = <T>(work: () => Promise<T>) => Promise<T>;

/** Runs one call after another, in order. If one fails, only its own caller is told. */
export function turns(): InTurn {
  let last: Promise<void> = Promise.resolve();
  return async (work) => {
    const mine = last.then(work);
    const nothing = () => undefined;
    last = mine.then(nothing, nothing);
    // A new promise: `mine` counts as handled, so Node would not report a failure that its caller ignores.
    return await mine;
  };
}
