import { copyFileSync, openSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DEFAULT_ID_POINTERS } from '../../src/compliance/pointers.ts';
import { StoreUnavailable, UsageError } from '../../src/platform/errors.ts';
import { openStore } from '../../src/store/open.ts';
import { connect } from '../../src/store/sqlite/connection.ts';
import { migrateSchema } from '../../src/store/sqlite/file.ts';
import { storeOver } from '../../src/store/sqlite/sqlite.ts';
import type { IncomingEvent, Store } from '../../src/store/store.ts';
import { freshPath } from './folder.ts';

const NOW = { wall: Date.parse('2026-11-01T12:00:00Z'), steady: 1_000 };
const TIMING = { settleMs: 10_000 };
const TURN = {
  limit: 100,
  retryDelaysMs: [],
  rules: {
    pointers: DEFAULT_ID_POINTERS,
    eventsOnly: false,
    toleranceMs: 300_000,
    guardPercent: 20,
    timing: TIMING,
  },
};
const FACTS = {
  eventsOnly: true,
  settleMs: 10_000,
  fullSyncMs: 0,
  access: '',
  reader: undefined,
  unreachable: false as const,
  others: {},
};
const PAGE_BYTES = 4_096;
const READING = {
  cause: { cause: 'refetch', causeId: null } as const,
  syncRunId: null,
  timing: TIMING,
  pointers: DEFAULT_ID_POINTERS,
};
const readMoment = async (store: Store) => ({
  number: await store.currentNumber(),
  beganAt: NOW.steady,
  endedAt: NOW.steady,
  endedWall: NOW.wall,
});

function event(id: string, bodyBytes = 0): IncomingEvent {
  return {
    id,
    type: 'policy.updated',
    created: '2026-11-01T12:00:00Z',
    createdMs: NOW.wall,
    t: '1',
    kind: 'policy',
    recordId: `pol of ${id}`,
    known: true,
    body: 'x'.repeat(bodyBytes),
  };
}
const accept = (store: Pick<Store, 'accept'>, ...events: IncomingEvent[]) =>
  store.accept({ events, unusable: [] }, NOW, TIMING);

async function opened(path: string): Promise<Store> {
  const store = await openStore(`file:${path}`);
  onTestFinished(() => store.close());
  return store;
}

/** The inbox over a connection that the test can reach. */
function inboxOver(path: string) {
  const db = connect(path, { readOnly: false });
  onTestFinished(() => void db.close());
  migrateSchema(db);
  return {
    db,
    inbox: storeOver(db),
  };
}

/** Another program with the file open. */
function stranger(path: string) {
  const db = new Database(path);
  onTestFinished(() => void db.close());
  return db;
}

describe('a store in a file', () => {
  it('logs ahead and flushes every commit', async () => {
    const path = freshPath();
    await opened(path);
    expect(stranger(path).pragma('journal_mode', { simple: true })).toBe('wal');
    const own = connect(path, { readOnly: false });
    expect(own.pragma('journal_mode', { simple: true })).toBe('wal');
    // 2 is FULL. The driver's own default in WAL is NORMAL, which does not wait for the disk.
    expect(own.pragma('synchronous', { simple: true })).toBe(2);
    own.close();
  });

  it('is refused where it cannot log ahead', () => {
    // A nameless database is a temporary one, and those keep a rollback journal whatever they are told.
    expect(() => connect('', { readOnly: false })).toThrow(
      expect.objectContaining({
        name: 'StoreUnavailable',
        fatal: true,
        message: expect.stringContaining('not durable'),
      }),
    );
  });

  it('keeps what it acknowledged when it is opened again', async () => {
    const path = freshPath();
    const first = await openStore(`file:${path}`);
    await accept(first, event('a'));
    await first.close();
    const again = await opened(path);
    expect(await again.show('deliveries', 'a')).toMatchObject({ state: 'pending' });
  });

  it('waits for the disk, but for what is done again, and not for long for that', async () => {
    const { db, inbox } = inboxOver(freshPath());
    const waits = () => db.pragma('synchronous', { simple: true }) === 2;
    await accept(inbox, { ...event('a'), body: '{"data":{"policyId":"pol"}}' });
    expect(waits()).toBe(true);
    await inbox.processPending(TURN, NOW);
    expect(waits()).toBe(false);
    db.exec('UPDATE counter SET value = value + 20000');
    await inbox.applyReads('policy', [], await readMoment(inbox), READING);
    expect(waits()).toBe(false);
    await inbox.applyReads('policy', [], await readMoment(inbox), READING);
    expect(waits()).toBe(true);
  });

  it('gives out no number again that was seen before an unclean end', async () => {
    const path = freshPath();
    const first = await opened(path);
    await accept(first, event('a'));
    const copy = freshPath();
    for (const ending of ['', '-wal']) copyFileSync(path + ending, copy + ending);
    const service = await openStore(`file:${copy}`, { serves: true });
    expect(await service.show('deliveries', 'a')).not.toBeNull();
    const [after] = await accept(service, event('b'));
    expect(after).toMatchObject({ seq: expect.toSatisfy((seq: number) => seq > 20_000) });
    await service.close();
    // A clean end leaves no log, and a command beside a service has no say.
    for (const serves of [true, false]) {
      const again = await openStore(`file:${copy}`, { serves });
      expect(await again.currentNumber()).toBe((after as { seq: number }).seq);
      await again.close();
    }
  });

  it('makes the folder, for its owner alone', async () => {
    const path = freshPath().replace('mirror.db', 'data/deep/mirror.db');
    await opened(path);
    expect(statSync(path.replace('/mirror.db', '')).mode & 0o777).toBe(0o700);
  });

  it('is refused when a newer version wrote it, and left as it is', async () => {
    const path = freshPath();
    await (await openStore(`file:${path}`)).close();
    const db = stranger(path);
    db.exec("INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('of the future', 9999999999999)");
    await expect(openStore(`file:${path}`)).rejects.toThrow(UsageError);
    await expect(openStore(`file:${path}`)).rejects.toThrow(/newer version/);
    expect(db.prepare('SELECT max(created_at) FROM __drizzle_migrations').pluck().get()).toBe(9999999999999);
  });

  it('that another program holds is not migrated yet, and nothing is wrong with it', async () => {
    const path = freshPath();
    const other = stranger(path);
    other.pragma('journal_mode = WAL');
    other.exec('BEGIN IMMEDIATE');
    await expect(openStore(`file:${path}`)).rejects.toMatchObject({ name: 'StoreUnavailable', fatal: false });
    other.exec('ROLLBACK');
    await opened(path);
  });

  it('is only looked at when it is opened for reading', async () => {
    const path = freshPath();
    await expect(openStore(`file:${path}`, { readOnly: true })).rejects.toThrow(/there is no database at/);
    const writer = await opened(path);
    await accept(writer, event('a'));
    const reader = await openStore(`file:${path}`, { readOnly: true });
    onTestFinished(() => reader.close());
    expect(await reader.show('deliveries', 'a')).toMatchObject({ id: 'a' });
    await expect(accept(reader, event('b'))).rejects.toThrow(StoreUnavailable);
  });
});

describe('a verb that cannot be finished', () => {
  it('leaves nothing of itself, its numbers included', async () => {
    const path = freshPath();
    const { db, inbox } = inboxOver(path);
    await accept(inbox, event('before'));
    db.exec(
      "CREATE TRIGGER broken BEFORE INSERT ON events WHEN NEW.id = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END",
    );
    await expect(accept(inbox, event('good'), event('bad'))).rejects.toThrow('no');
    const count = (table: string) => db.prepare(`SELECT count(*) FROM ${table}`).pluck().get();
    expect([count('events'), count('record_state')]).toEqual([1, 1]);
    expect(await accept(inbox, event('after'))).toEqual([{ status: 'accepted', seq: 2 }]);
  });

  it('says that the disk is full, and works again once it is not', async () => {
    const { db, inbox } = inboxOver(freshPath());
    await accept(inbox, event('before'));
    const pages = db.pragma('page_count', { simple: true }) as number;
    db.pragma(`max_page_count = ${pages + 2}`);
    const full = accept(inbox, event('small'), event('large', 50 * PAGE_BYTES));
    await expect(full).rejects.toMatchObject({ name: 'StoreUnavailable', fatal: false, retryable: true });
    await expect(full).rejects.toThrow(/disk is full/);
    db.pragma(`max_page_count = ${pages + 1_000}`);
    expect(await accept(inbox, event('small'), event('large', 50 * PAGE_BYTES))).toEqual([
      { status: 'accepted', seq: 2 },
      { status: 'accepted', seq: 3 },
    ]);
  });

  it('keeps no log of the length to which a long query let it grow', async () => {
    const path = freshPath();
    const store = await opened(path);
    const reader = new Database(path, { readonly: true });
    onTestFinished(() => void reader.close());
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM events').get();
    for (let n = 0; n < 9; n += 1) await accept(store, event(`large ${n}`, 2 ** 24));
    expect(statSync(`${path}-wal`).size).toBeGreaterThan(2 ** 27);
    reader.exec('COMMIT');
    // The first moves the log, the second begins it anew.
    for (const id of ['next', 'last']) await accept(store, event(id));
    expect(statSync(`${path}-wal`).size).toBeLessThanOrEqual(2 ** 27);
  });

  it.each(['', '-wal'])('is of no use once its file%s is not in its place any more', async (ending) => {
    const path = freshPath();
    const store = await opened(path);
    const beat = () => store.beat(NOW, FACTS);
    await accept(store, event('a'));
    await beat();
    await accept(store, event('b'));
    await beat();
    rmSync(`${path}${ending}`);
    await expect(beat()).rejects.toMatchObject({
      name: 'StoreUnavailable',
      fatal: true,
      message: `${path}${ending} was removed or replaced while it was open`,
    });
  });

  it('says that another program holds the file, and works again once it lets go', async () => {
    const path = freshPath();
    const store = await opened(path);
    const other = stranger(path);
    other.exec('BEGIN IMMEDIATE');
    await expect(store.checkWritable()).rejects.toMatchObject({ name: 'StoreUnavailable', fatal: false });
    await expect(accept(store, event('a'))).rejects.toThrow(/another process holds/);
    // Reading needs nobody's leave.
    expect(await store.show('deliveries', 'a')).toBeNull();
    other.exec('ROLLBACK');
    expect(await accept(store, event('a'))).toMatchObject([{ status: 'accepted' }]);
  });
});

describe('a damaged file', () => {
  const fatal = { name: 'StoreUnavailable', fatal: true, retryable: false };

  it('that is no database is refused for good', async () => {
    const path = freshPath();
    writeFileSync(path, 'This was a shopping list. '.repeat(400));
    await expect(openStore(`file:${path}`)).rejects.toMatchObject(fatal);
    await expect(openStore(`file:${path}`, { readOnly: true })).rejects.toMatchObject(fatal);
    expect(readFileSync(path, 'utf8')).toContain('shopping');
  });

  it('with garbage behind its first page is refused for good', async () => {
    const path = freshPath();
    const store = await openStore(`file:${path}`);
    await store.close();
    spoil(path);
    await expect(openStore(`file:${path}`)).rejects.toMatchObject(fatal);
  });

  it('ends trust also in verbs that only read', async () => {
    const path = freshPath();
    const writer = await openStore(`file:${path}`);
    await accept(writer, ...Array.from({ length: 50 }, (_, n) => event(`${n}`, PAGE_BYTES)));
    await writer.close();
    const store = await opened(path);
    spoil(path);
    await expect(store.list('deliveries', { kind: 'policy', search: 'x', limit: 500 })).rejects.toMatchObject(
      fatal,
    );
    await expect(store.processPending(TURN, NOW)).rejects.toMatchObject(fatal);
  });
});

function spoil(path: string): void {
  const file = openSync(path, 'r+');
  const bytes = statSync(path).size - PAGE_BYTES;
  writeSync(file, Buffer.alloc(bytes, 0xa5), 0, bytes, PAGE_BYTES);
}
