import Database from 'better-sqlite3';
import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { createBlockSearch } from '../../src/store/sqlite/database.ts';

/** Numbers to a block, and to the blocks of one statement. */
const BLOCK = 2 ** 12;
const STRIDE = 64 * BLOCK;

const RECORDS = ['a', 'b', 'c'] as const;

/** Numbers where a search may go wrong: at the edges of blocks and of statements, and with long gaps between. */
const number = fc
  .tuple(
    fc.constantFrom(0, 1, BLOCK, 2 * BLOCK, STRIDE, 2 * STRIDE, 3 * STRIDE),
    fc.integer({ min: -3, max: 3 }),
  )
  .map(([edge, by]) => Math.max(0, edge + by));

const rows = fc.uniqueArray(fc.record({ seq: number, record: fc.constantFrom(...RECORDS) }), {
  selector: ({ seq }) => seq,
  maxLength: 40,
});

const NOTES = { table: 'notes', index: 'notes_record', match: 't.record = ?' };

function opened(): Database.Database {
  const db = new Database(':memory:');
  onTestFinished(() => void db.close());
  db.exec(`CREATE TABLE notes (seq integer PRIMARY KEY NOT NULL, record text NOT NULL);
           CREATE INDEX notes_record ON notes ("seq" >> 12, record)`);
  return db;
}

it.each(['DESC', 'ASC'] as const)('finds in blocks what a plain query finds, page by page: %s', (order) => {
  const db = opened();
  const insert = db.prepare('INSERT INTO notes (seq, record) VALUES (?, ?)');
  const [past, within] = order === 'ASC' ? ['>', '<'] : ['<', '>'];
  const plain = db
    .prepare(
      `SELECT seq FROM notes WHERE record = ? AND seq ${past} ? AND seq ${within} ? ORDER BY seq ${order} LIMIT ?`,
    )
    .pluck();
  const search = createBlockSearch(db, { ...NOTES, order });
  const end = fc.oneof(number, fc.constantFrom(0, Number.MAX_SAFE_INTEGER));
  const limit = fc.integer({ min: 1, max: 12 });
  fc.assert(
    fc.property(rows, fc.constantFrom(...RECORDS), end, end, limit, (stored, record, from, to, most) => {
      db.exec('DELETE FROM notes');
      for (const { seq, record } of stored) insert.run(seq, record);
      const last = order === 'ASC' ? Number.MAX_SAFE_INTEGER : 0;
      for (let at = from; ; ) {
        const page = search([record], at, most);
        expect(page).toEqual(plain.all(record, at, last, most));
        expect(search([record], at, most, to)).toEqual(plain.all(record, at, to, most));
        if (page.length === 0) break;
        at = page.at(-1)!;
      }
    }),
    { numRuns: 600 },
  );
});
