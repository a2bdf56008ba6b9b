import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { type OpenOptions, openStore } from '../../src/store/open.ts';
import { connect } from '../../src/store/sqlite/connection.ts';
import { migrateSchema } from '../../src/store/sqlite/file.ts';
import { storeOver } from '../../src/store/sqlite/sqlite.ts';
import { IS_FULL } from '../support/full.ts';
import { describePartOfStoreContract, describeStoreContract } from './contract.ts';
import type { EngineHarness } from './scene.ts';

/** A database as the migrations leave it: to run them for each story took a fifth of the time. */
const MIGRATED = (() => {
  const db = connect(':memory:', { readOnly: false });
  migrateSchema(db);
  const bytes = db.serialize();
  db.close();
  return bytes;
})();

async function openInFile(options: OpenOptions = {}): Promise<EngineHarness> {
  const folder = await mkdtemp(join(tmpdir(), 'mirror-store-'));
  const path = join(folder, 'mirror.db');
  await writeFile(path, MIGRATED);
  let store = await openStore(`file:${path}`, options);
  const reader = new Database(path);
  return {
    store,
    query: async (sql) => asked(reader, sql),
    async reopen() {
      await store.close();
      store = await openStore(`file:${path}`, options);
      return store;
    },
    async close() {
      reader.close();
      await store.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function openInMemory(): Promise<EngineHarness> {
  const db = connect(':memory:', { readOnly: false });
  migrateSchema(db);
  const store = storeOver(db);
  return {
    store,
    query: async (sql) => asked(db, sql),
    close: () => store.close(),
  };
}

function asked(db: Database.Database, sql: string): Record<string, unknown>[] {
  const statement = db.prepare(sql);
  if (statement.reader) return statement.all() as Record<string, unknown>[];
  statement.run();
  return [];
}

describeStoreContract('SQLite in a file', () => openInFile());
// In memory only tests open one.
if (IS_FULL) describeStoreContract('SQLite in memory', openInMemory);
describePartOfStoreContract('SQLite in threads of its own', () =>
  openInFile({ inThread: { onLost: () => undefined } }),
);
