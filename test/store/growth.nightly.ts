import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { connect } from '../../src/store/sqlite/connection.ts';
import { storeOver } from '../../src/store/sqlite/sqlite.ts';
import { fillStored } from '../bench/stored.ts';
import { hearStatements } from '../support/statements.ts';
import { describeGrowth, type Stored } from './growth.ts';

const PAGE_BYTES = 4_096;
/** What this process has read by system calls: pages of the database, and nearly nothing else. Linux alone tells. */
const IO = '/proc/self/io';
const pagesRead = () =>
  existsSync(IO) ? Number(/^rchar: (\d+)$/m.exec(readFileSync(IO, 'utf8'))?.[1]) / PAGE_BYTES : 0;

const folder = mkdtempSync(join(tmpdir(), 'mirror-growth-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function open(size: number): Promise<Stored> {
  const path = await fillStored(folder, `of-${size}`, { events: size, records: size });
  const db = connect(path, { readOnly: false });
  db.exec(
    `INSERT INTO trimmed_events (id, content_hash, received_at) SELECT printf('gone_%09d', seq), id, received_at FROM events;`,
  );
  const store = storeOver(db);
  return {
    size,
    store,
    async sql(text) {
      const statement = db.prepare(text);
      return statement.reader ? statement.all() : statement.run();
    },
    async costOf(work) {
      let statements = 0;
      const stopHearing = hearStatements(() => {
        statements += 1;
      });
      db.pragma('shrink_memory');
      const before = pagesRead();
      await work();
      const pages = pagesRead() - before;
      stopHearing();
      return { statements, pages };
    },
    close: () => store.close(),
  };
}

const SIZES = [10_000, 100_000] as const;
// Trees of ten times as many entries may be one level deeper.
describeGrowth('SQLite', open, { sizes: SIZES, most: 1.5 });
