import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { connect } from '../../src/store/sqlite/connection.ts';
import { createDatabase } from '../../src/store/sqlite/database.ts';
import { migrateSchema } from '../../src/store/sqlite/migrations.ts';

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

it.each(['DESC', 'ASC'] as const)(
  'finds in blocks what a plain query finds, page by page: %s',
  async (order) => {
    const db = connect(':memory:', { readOnly: false });
    onTestFinished(() => void db.close());
    migrateSchema(db);
    const { sql } = createDatabase(db);
    const insert = db.prepare(
      `INSERT INTO changes (seq, kind, record_id, operation, before, after, cause, at) VALUES (?, 'vendor', ?, '', '', '', '', '')`,
    );
    const [past, within] = order === 'ASC' ? ['>', '<'] : ['<', '>'];
    const plain = db
      .prepare(
        `SELECT seq FROM changes WHERE record_id = ? AND seq ${past} ? AND seq ${within} ? ORDER BY seq ${order} LIMIT ?`,
      )
      .pluck();
    const search = (id: string, from: number, limit: number, to: number) => {
      const between = order === 'ASC' ? { above: from, below: to } : { above: to, below: from };
      const rows = { table: 'changes', kind: 'vendor', id, ...between, order, limit } as const;
      return sql.dialect.numbersOf(sql, rows);
    };
    const end = fc.oneof(number, fc.constantFrom(0, Number.MAX_SAFE_INTEGER));
    const limit = fc.integer({ min: 1, max: 12 });
    await fc.assert(
      fc.asyncProperty(
        rows,
        fc.constantFrom(...RECORDS),
        end,
        end,
        limit,
        async (stored, record, from, to, most) => {
          db.exec('DELETE FROM changes');
          for (const { seq, record } of stored) insert.run(seq, record);
          const last = order === 'ASC' ? Number.MAX_SAFE_INTEGER : 0;
          for (let at = from; ; ) {
            const page = await search(record, at, most, last);
            expect(page).toEqual(plain.all(record, at, last, most));
            expect(await search(record, at, most, to)).toEqual(plain.all(record, at, to, most));
            if (page.length === 0) break;
            at = page.at(-1)!;
          }
        },
      ),
      { numRuns: 600 },
    );
  },
);
