import { statSync } from 'node:fs';
import type Database from 'better-sqlite3';
import type { Finders } from '../units/reports.ts';
import type { Connection } from './connection.ts';

/**
 * The rows of one record are found block by block of 2^12 numbers. An index on the record alone would be spread over the
 * whole table, so that each event dirties a page of its own there: a fifth of what it costs to accept and show an event. Within
 * a block it is a few pages, which a commit shares. A search pays with a probe for each block: 2,400 for ten million numbers.
 */
const BLOCK_BITS = 12;
const blockOf = (seq: number) => Math.floor(seq / 2 ** BLOCK_BITS);

/** Blocks in one statement: few enough that a full page of results costs little more, and enough that a long search is quick. */
const BLOCKS_AT_ONCE = 64;

/** `match`: equalities on the columns that follow the block in `index`. */
interface BlockSearch {
  table: string;
  index: string;
  match: string;
  order: 'ASC' | 'DESC';
}

/** Numbers of one record's rows between `from` and `to`, without these two, in `order`. `values` are those of `match`. */
export function createBlockSearch(
  db: Connection,
  { table, index, match, order }: BlockSearch,
): (values: readonly unknown[], from: number, limit: number, to?: number) => number[] {
  const isUp = order === 'ASC';
  const step = isUp ? 1 : -1;
  const find = db
    .prepare(
      `WITH RECURSIVE block(n) AS (VALUES (?) UNION ALL SELECT n + ${step} FROM block WHERE n <> ?)
       SELECT t.seq FROM block CROSS JOIN ${table} t INDEXED BY ${index}
       WHERE t.seq >> ${BLOCK_BITS} = block.n AND ${match} AND t.seq ${isUp ? '>' : '<'} ? ORDER BY t.seq ${order} LIMIT ?`,
    )
    .pluck() as Database.Statement<unknown[]>;
  const ends = db.prepare(
    `SELECT (SELECT min(seq) FROM ${table}) AS oldest, (SELECT max(seq) FROM ${table}) AS newest`,
  );

  return (values, from, limit, to = isUp ? Number.MAX_SAFE_INTEGER : 0) => {
    const { oldest, newest } = ends.get() as { oldest: number | null; newest: number | null };
    const found: number[] = [];
    if (oldest === null || newest === null) return found;
    const lowest = blockOf(Math.max(oldest, Math.min(from, to) + 1));
    const highest = blockOf(Math.min(newest, Math.max(from, to) - 1));
    let block = isUp ? lowest : highest;
    while (block >= lowest && block <= highest && found.length < limit) {
      const last = Math.min(highest, Math.max(lowest, block + step * (BLOCKS_AT_ONCE - 1)));
      found.push(...(find.all(block, last, ...values, from, limit - found.length) as number[]));
      block = last + step;
    }
    return found.filter((seq) => (isUp ? seq < to : seq > to));
  };
}

/** Searches for one record, and the size of the file. */
export function createFinders(db: Connection): Finders {
  const changes = { table: 'changes', index: 'changes_record', match: 't.kind = ? AND t.record_id = ?' };
  const changesOfRecord = {
    ASC: createBlockSearch(db, { ...changes, order: 'ASC' }),
    DESC: createBlockSearch(db, { ...changes, order: 'DESC' }),
  };
  const eventsOfRecord = createBlockSearch(db, {
    ...{ table: 'events', index: 'events_record', match: 't.record_id = ?', order: 'DESC' },
  });
  return {
    eventsOfRecord: async (id, before, limit) => eventsOfRecord([id], before, limit),
    changesOfRecord: async (kind, id, from, limit, order) => changesOfRecord[order]([kind, id], from, limit),
    sizes: async () => ({ database_bytes: sizeOf(db.name), wal_bytes: sizeOf(`${db.name}-wal`) }),
  };
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
