import { statSync } from 'node:fs';
import type Database from 'better-sqlite3';
import type { Finders } from '../units/reports.ts';
import type { Connection } from './connection.ts';

/**
 * What is asked of one record is found block by block of 2^12 numbers, newest first. An index on the record alone is spread
 * over the whole table, so that each event dirties a page of its own there, which took a fifth of what accepting and showing an
 * event costs; within a block it is a few pages that a commit shares. A look-up pays with a probe for each block: of ten million
 * numbers, 2,400.
 */
const BLOCK_BITS = 12;
const blockOf = (seq: number) => Math.floor(seq / 2 ** BLOCK_BITS);

/** Blocks in one statement: few enough that a page soon filled has cost nothing, and many enough that a long look-back is quick. */
const BLOCKS_AT_ONCE = 64;

/** Numbers of `table`'s rows of one record, newest first, below `before` and above `after`. `match`: equalities on what follows the block in `index`. */
export function createBlockSearch(
  db: Connection,
  { table, index, match }: { table: string; index: string; match: string },
): (values: readonly unknown[], before: number, limit: number, after?: number) => number[] {
  const find = db
    .prepare(
      `WITH RECURSIVE block(n) AS (VALUES (?) UNION ALL SELECT n - 1 FROM block WHERE n > ?)
       SELECT t.seq FROM block CROSS JOIN ${table} t INDEXED BY ${index}
       WHERE t.seq >> ${BLOCK_BITS} = block.n AND ${match} AND t.seq < ? ORDER BY t.seq DESC LIMIT ?`,
    )
    .pluck() as Database.Statement<unknown[]>;
  const ends = db.prepare(
    `SELECT (SELECT min(seq) FROM ${table}) AS oldest, (SELECT max(seq) FROM ${table}) AS newest`,
  );

  return (values, before, limit, after = 0) => {
    const { oldest, newest } = ends.get() as { oldest: number | null; newest: number | null };
    const found: number[] = [];
    if (oldest === null || newest === null) return found;
    const lowest = blockOf(Math.max(oldest, after + 1));
    let block = blockOf(Math.min(newest, before - 1));
    while (block >= lowest && found.length < limit) {
      const last = Math.max(lowest, block - BLOCKS_AT_ONCE + 1);
      found.push(...(find.all(block, last, ...values, before, limit - found.length) as number[]));
      block = last - 1;
    }
    return after === 0 ? found : found.filter((seq) => seq > after);
  };
}

/** The same, oldest first: those above `after`. */
export function createForwardBlockSearch(
  db: Connection,
  { table, index, match }: { table: string; index: string; match: string },
): (values: readonly unknown[], after: number, limit: number) => number[] {
  const find = db
    .prepare(
      `WITH RECURSIVE block(n) AS (VALUES (?) UNION ALL SELECT n + 1 FROM block WHERE n < ?)
       SELECT t.seq FROM block CROSS JOIN ${table} t INDEXED BY ${index}
       WHERE t.seq >> ${BLOCK_BITS} = block.n AND ${match} AND t.seq > ? ORDER BY t.seq LIMIT ?`,
    )
    .pluck() as Database.Statement<unknown[]>;
  const newestOf = db.prepare(`SELECT max(seq) FROM ${table}`).pluck();

  return (values, after, limit) => {
    const found: number[] = [];
    const highest = blockOf((newestOf.get() as number | null) ?? 0);
    let block = blockOf(after + 1);
    while (block <= highest && found.length < limit) {
      const last = Math.min(highest, block + BLOCKS_AT_ONCE - 1);
      found.push(...(find.all(block, last, ...values, after, limit - found.length) as number[]));
      block = last + 1;
    }
    return found;
  };
}

/** What reports ask of one record block by block, and how large the file is. */
export function createFinders(db: Connection): Finders {
  const changes = { table: 'changes', index: 'changes_record', match: 't.kind = ? AND t.record_id = ?' };
  const changesOfRecord = createBlockSearch(db, changes);
  const changesAfter = createForwardBlockSearch(db, changes);
  const eventsOfRecord = createBlockSearch(db, {
    ...{ table: 'events', index: 'events_record', match: 't.record_id = ?' },
  });
  return {
    eventsOfRecord: async (id, before, limit) => eventsOfRecord([id], before, limit),
    changesOfRecord: async (kind, id, before, limit) => changesOfRecord([kind, id], before, limit),
    changesAfter: async (kind, id, after, limit) => changesAfter([kind, id], after, limit),
    sizes: async () => ({ database_bytes: sizeOf(db.name), wal_bytes: sizeOf(`${db.name}-wal`) }),
  };
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
