import {
  closeSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { KINDS } from '../../src/compliance/kinds.ts';
import { UsageError } from '../../src/platform/errors.ts';
import { lockFile, openStore, restoreStore } from '../../src/store/open.ts';
import { connect } from '../../src/store/sqlite/connection.ts';
import { backUpSqlite, migrateSchema } from '../../src/store/sqlite/file.ts';
import type { ProblemChange, Store } from '../../src/store/store.ts';
import { freshPath } from './folder.ts';
import { nextVersion } from './next-version.ts';
import { fullSyncsOf } from './planner.ts';

/** A mirror with some hundred pages in it. */
async function filled(): Promise<{ from: string; folder: string; to: string }> {
  const from = freshPath();
  const store = await openStore(`file:${from}`);
  for (let index = 0; index < 300; index++) await store.writeFact(`fact ${index}`, 'x'.repeat(4_000));
  await store.close();
  const folder = dirname(from);
  return { from, folder, to: join(folder, 'copy.db') };
}

function factsIn(path: string): number {
  const db = new DatabaseSync(path, { readOnly: true, timeout: 30_000 });
  try {
    return Number(db.prepare("SELECT count(*) AS n FROM facts WHERE name LIKE 'fact %'").get()?.['n']);
  } finally {
    db.close();
  }
}

const FACTS = { eventsOnly: false, fullSyncMs: 0, unreachable: false as const, access: 'key' };

async function restoredGaps(path: string, options: { readOnly?: boolean } = {}) {
  const store = await openStore(`file:${path}`, options);
  const problems = (await store.list('problems', { limit: 100 })).items;
  await store.close();
  return problems.filter(({ reason }) => reason === 'restored');
}

const leftovers = (folder: string) => readdirSync(folder).filter((name) => name.includes('.partial'));

describe('a backup', () => {
  it('is one file of its owner alone that holds everything, and a store opens it', async () => {
    const { from, folder, to } = await filled();
    expect(await backUpSqlite({ from, to })).toBe(statSync(to).size);
    expect(statSync(to).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder).filter((name) => name.startsWith('copy.db'))).toEqual(['copy.db']);
    // Byte 18 of the header: 1 is a rollback journal, 2 a log beside the file.
    expect(readFileSync(to)[18]).toBe(1);
    expect(factsIn(to)).toBe(300);
    const restored = await openStore(`file:${to}`);
    expect(await restored.readFact('fact 299')).toHaveLength(4_000);
    await restored.close();
  });

  it('put back begins another epoch, once; the database itself keeps its own', async () => {
    const { from, to } = await filled();
    const epochOf = async (path: string) => {
      const store = await openStore(`file:${path}`);
      const epoch = (await store.feed()).epoch;
      await store.close();
      return epoch;
    };
    const original = await epochOf(from);
    expect(original).toMatch(/^[0-9a-f]{16}$/);
    await backUpSqlite({ from, to });
    expect(await epochOf(from)).toBe(original);
    const restored = await epochOf(to);
    expect(restored).not.toBe(original);
    expect(await epochOf(to)).toBe(restored);
  });

  it('put back says from when to when what was accepted is missing, to the first who watches', async () => {
    const { from, to } = await filled();
    const before = new Date().toISOString();
    await backUpSqlite({ from, to });
    const seen = new Date().toISOString();
    const opening = new Date().toISOString();
    expect(await restoredGaps(to, { readOnly: true })).toEqual([]);
    const restored = await openStore(`file:${to}`);
    const told: ProblemChange[] = [];
    restored.watchProblems((change) => told.push(change));
    restored.watchProblems((change) => told.push(change));
    await restored.close();
    const problems = await restoredGaps(to);
    expect(problems.map(({ kind }) => kind).sort()).toEqual([...KINDS]);
    expect(told.map(({ problem, what }) => `${what} ${problem.reason} ${problem.kind}`)).toEqual(
      KINDS.map((kind) => `opened restored ${kind}`),
    );
    for (const { error, resolved_at } of problems) {
      const [, since = '', until = ''] =
        /accepted from (\S+Z) to (\S+Z) is not in it/.exec(error ?? '') ?? [];
      expect(since >= before && since <= seen, `${before} ${since} ${seen}`).toBe(true);
      expect(until >= opening && until <= new Date().toISOString()).toBe(true);
      expect(resolved_at).toBeNull();
    }
    expect(await restoredGaps(from)).toEqual([]);
  });

  it('put back beside the log of the database before is refused, and nothing is changed', async () => {
    const { from, to } = await filled();
    await backUpSqlite({ from, to });
    const before = await openStore(`file:${from}`);
    await before.writeFact('fact 1', 'later');
    copyFileSync(`${from}-wal`, `${to}-wal`);
    await before.close();
    const [file, log] = [readFileSync(to), readFileSync(`${to}-wal`)];
    for (const readOnly of [false, true]) {
      await expect(openStore(`file:${to}`, { readOnly })).rejects.toMatchObject({
        message: expect.stringContaining(`${to}-wal is of the database that was there before`),
        remedy: expect.stringContaining('remove '),
      });
    }
    expect(readFileSync(to).equals(file)).toBe(true);
    expect(readFileSync(`${to}-wal`).equals(log)).toBe(true);
    rmSync(`${to}-wal`);
    const restored = await openStore(`file:${to}`);
    expect(await restored.readFact('fact 1')).toHaveLength(4_000);
    await restored.close();
  });

  it('put back twice has a problem for each time, also where the first was open when the second copy was made', async () => {
    const { from, to, folder } = await filled();
    await backUpSqlite({ from, to });
    const first = await restoredGaps(to);
    const again = join(folder, 'again.db');
    await backUpSqlite({ from: to, to: again });
    const both = await restoredGaps(again);
    expect(both).toHaveLength(6);
    expect(both.slice(3)).toEqual(first);
    expect(new Set(both.map(({ error }) => error)).size).toBe(2);
    // A copy of one that was never opened shows what that one shows.
    const [never, still] = [join(folder, 'never.db'), join(folder, 'still.db')];
    const before = Date.now();
    await backUpSqlite({ from, to: never });
    const after = Date.now();
    while (Date.now() === after);
    await backUpSqlite({ from: never, to: still });
    const since = Date.parse(/from (\S+) to/.exec((await restoredGaps(still))[0]?.error ?? '')?.[1] ?? '');
    expect(since).toBeGreaterThanOrEqual(before);
    expect(since).toBeLessThanOrEqual(after);
    // The same copy once more is a restore of its own.
    const once = join(folder, 'once.db');
    copyFileSync(from, once);
    await backUpSqlite({ from, to: once, force: true });
    expect(await restoredGaps(once)).toHaveLength(3);
  });

  it('put back waits with the lists until they cannot be older than what was lost', async () => {
    const { from, to } = await filled();
    const service = await openStore(`file:${from}`);
    // It had stopped a day before: nothing was accepted between then and the copy.
    const wall = Date.now() - 86_400_000;
    await service.beat({ wall, steady: wall }, { ...FACTS, settleMs: 60_000 });
    await service.close();
    await backUpSqlite({ from, to });
    const restored = await openStore(`file:${to}`);
    onTestFinished(() => restored.close());
    expect((await restoredGaps(to))[0]!.error).not.toContain(new Date(wall).toISOString());
    const wanted = (steady: number) => fullSyncsOf(restored, { wall: Date.now(), steady });
    expect(await wanted(Date.now())).toEqual([]);
    expect(await wanted(Date.now() + 60_000)).toEqual(['policy', 'vendor']);
    // A start lays it anew, by its own clock and settings.
    await restored.markUnverifiedDirty({ wall: Date.now(), steady: 1_000 }, { settleMs: 500 });
    expect([await wanted(1_499), await wanted(1_500)]).toEqual([[], ['policy', 'vendor']]);
  });

  it('never replaces a file unless it is told to', async () => {
    const { from, folder, to } = await filled();
    writeFileSync(to, 'precious');
    await expect(backUpSqlite({ from, to })).rejects.toThrow(UsageError);
    await expect(backUpSqlite({ from, to })).rejects.toThrow(/is there already/);
    expect(readFileSync(to, 'utf8')).toBe('precious');
    await backUpSqlite({ from, to, force: true });
    expect(factsIn(to)).toBe(300);
    expect(leftovers(folder)).toEqual([]);
  });

  it('takes no log of an earlier database over into the new file', async () => {
    const { from, to } = await filled();
    writeFileSync(`${to}-wal`, 'of something else');
    await expect(backUpSqlite({ from, to })).rejects.toThrow(/copy\.db-wal is there already/);
    await backUpSqlite({ from, to, force: true });
    expect(existsSync(`${to}-wal`)).toBe(false);
  });

  it('is never written over the database, under whatever name', async () => {
    const { from, folder } = await filled();
    symlinkSync(folder, `${folder}/again`);
    linkSync(from, join(folder, 'linked.db'));
    for (const to of [
      from,
      `${from}-wal`,
      `${from}.lock`,
      join(folder, 'again/mirror.db'),
      join(folder, 'linked.db'),
    ]) {
      await expect(backUpSqlite({ from, to, force: true })).rejects.toThrow(/is the database itself/);
    }
    expect(factsIn(from)).toBe(300);
  });

  it('of a damaged database is not believed', async () => {
    const { from, folder, to } = await filled();
    const file = openSync(from, 'r+');
    // In the middle of the rows, where no page of the schema is.
    writeSync(file, Buffer.alloc(8_192, 0xa5), 0, 8_192, Math.floor(statSync(from).size / 8_192) * 4_096);
    closeSync(file);
    await expect(backUpSqlite({ from, to })).rejects.toThrow(/damaged|cannot be trusted|could not be copied/);
    expect(existsSync(to)).toBe(false);
    expect(leftovers(folder)).toEqual([]);
  });
});

/** A database in which one event was accepted, and a copy by another program from before the second. */
async function outgrown(): Promise<{ path: string; copy: string }> {
  const path = freshPath();
  const store = await openStore(`file:${path}`);
  const accept = (to: Store, id: string) =>
    to.accept({ events: [{ ...EVENT, id }], unusable: [] }, { wall: Date.now(), steady: 0 }, { settleMs: 1 });
  await accept(store, 'a');
  await store.close();
  const copy = join(dirname(path), 'cp.db');
  copyFileSync(path, copy);
  const again = await openStore(`file:${path}`);
  await accept(again, 'b');
  await again.beat({ wall: Date.now(), steady: 0 }, { ...FACTS, settleMs: 1 });
  await again.close();
  return { path, copy };
}

const EVENT = {
  type: 'policy.updated',
  created: '2026-11-01T12:00:00Z',
  createdMs: 1,
  t: '1',
  kind: 'policy',
  recordId: 'p',
  known: true,
  body: '{}',
} as const;

describe('a copy by another program', () => {
  it('is noticed in the place of the database, since the note beside that is ahead of it', async () => {
    const { path, copy } = await outgrown();
    expect(await restoredGaps(path)).toEqual([]);
    copyFileSync(copy, path);
    expect(await restoredGaps(path)).toHaveLength(3);
    // Once.
    expect(await restoredGaps(path)).toHaveLength(3);
  });

  it('is noticed where there is no note, or one of another database', async () => {
    const { path, copy } = await outgrown();
    expect(await restoredGaps(copy)).toHaveLength(3);
    const other = await outgrown();
    copyFileSync(path, other.path);
    expect(await restoredGaps(other.path)).toHaveLength(3);
    // An empty mirror has nothing to miss.
    const empty = freshPath();
    await (await openStore(`file:${empty}`)).close();
    rmSync(`${empty}.epoch.json`);
    expect(await restoredGaps(empty)).toEqual([]);
  });

  it('of a running database says nothing of it to a command beside the service', async () => {
    const { path } = await outgrown();
    const service = await openStore(`file:${path}`);
    onTestFinished(() => service.close());
    expect(await restoredGaps(path)).toEqual([]);
  });
});

describe('restored by the command', () => {
  it('a backup takes the place of the database, without its log, and has its problems at the next start', async () => {
    const { path } = await outgrown();
    const backup = join(dirname(path), 'backup.db');
    await backUpSqlite({ from: path, to: backup });
    writeFileSync(`${path}-wal`, 'of the database before');
    await restoreStore(`file:${path}`, backup);
    expect(readdirSync(dirname(path)).filter((name) => /-wal|-shm|partial/.test(name))).toEqual([]);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(await restoredGaps(path)).toHaveLength(3);
    expect(existsSync(backup)).toBe(true);
  });

  it('a copy that another program made has them from its last heartbeat on', async () => {
    const { path } = await outgrown();
    const cp = join(dirname(path), 'later.db');
    copyFileSync(path, cp);
    await restoreStore(`file:${path}`, cp);
    const [problem] = await restoredGaps(path);
    expect(problem!.error).toMatch(/accepted from 20\S+Z to 20/);
  });

  it('is refused while a service runs, and for what is no mirror, and changes nothing', async () => {
    const { path, copy } = await outgrown();
    const before = readFileSync(path);
    const restore = (file: string) => restoreStore(`file:${path}`, file);
    const lock = lockFile(`file:${path}`, 'now');
    await expect(restore(copy)).rejects.toThrow(/is in use by process/);
    lock.release();
    const [foreign, none] = [join(dirname(path), 'foreign.db'), join(dirname(path), 'none.db')];
    const db = new Database(foreign);
    db.exec('CREATE TABLE anything (x)');
    db.close();
    writeFileSync(none, 'no database'.repeat(1_000));
    await expect(restore(foreign)).rejects.toThrow(/is no mirror/);
    await expect(restore(none)).rejects.toThrow(/could not be copied|not a database/);
    await expect(restore(path)).rejects.toThrow(/is the database itself/);
    await expect(restore(`${path}.not`)).rejects.toThrow(/there is no file/);
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(leftovers(dirname(path))).toEqual([]);
  });
});

const backupsBeside = (path: string) => readdirSync(dirname(path)).filter((name) => name.endsWith('.bak'));

/** A database of this version. */
async function present(): Promise<string> {
  const path = freshPath();
  const store = await openStore(`file:${path}`);
  await store.writeFact('fact of old', 'kept');
  await store.close();
  return path;
}

/** What opens it in a later version, which takes this step first. */
const laterOpen = async (step?: string): Promise<typeof openStore> =>
  (await import(join(nextVersion(step), 'src/store/open.ts'))).openStore;

describe('before a migration', () => {
  it('the database is copied beside itself, and its path told', async () => {
    const [path, open] = [await present(), await laterOpen()];
    const told: string[] = [];
    const store = await open(`file:${path}`, { onBackup: (backup) => told.push(backup) });
    onTestFinished(() => store.close());
    expect(await store.readFact('fact of old')).toBe('kept');
    expect(told.map((backup) => backup.slice(dirname(path).length + 1))).toEqual(backupsBeside(path));
    expect(told).toHaveLength(1);
    expect(factsIn(told[0]!)).toBe(1);
    expect(statSync(told[0]!).mode & 0o777).toBe(0o600);
  });

  it('a file whose last writing was cut short is rolled back first', async () => {
    const { from, folder } = await filled();
    const cut = join(folder, 'cut.db');
    const db = new Database(from);
    db.pragma('journal_mode = DELETE');
    db.pragma('cache_size = 1');
    db.exec("BEGIN; UPDATE facts SET value = 'half way' WHERE name LIKE 'fact %'");
    for (const suffix of ['', '-journal']) copyFileSync(from + suffix, cut + suffix);
    db.close();
    const store = await openStore(`file:${cut}`);
    onTestFinished(() => store.close());
    expect(await store.readFact('fact 1')).toHaveLength(4_000);
  });

  it('one that fails leaves the file as it was and says where the copy is', async () => {
    const [path, open] = [
      await present(),
      await laterOpen(
        'CREATE TABLE later (id integer);--> statement-breakpoint\nCREATE TABLE audit (id integer)',
      ),
    ];
    const before = schemaOf(path);
    for (let attempt = 0; attempt < 2; attempt++) {
      await expect(open(`file:${path}`)).rejects.toMatchObject({
        code: 'migration_failed',
        remedy: expect.stringContaining(`${path}.schema-1.`),
      });
    }
    expect(schemaOf(path)).toEqual(before);
    expect(backupsBeside(path)).toHaveLength(1);
  });

  it('one that the disk has no room for says that, and leaves nothing of itself', () => {
    const path = freshPath();
    const db = connect(path, { readOnly: false });
    onTestFinished(() => void db.close());
    db.pragma('max_page_count = 12');
    expect(() => migrateSchema(db)).toThrow(/the disk is full/);
    expect(db.prepare('SELECT count(*) FROM sqlite_master').pluck().get()).toBe(0);
    db.pragma('max_page_count = 1000');
    migrateSchema(db);
    expect(db.prepare('SELECT count(*) FROM sqlite_master').pluck().get()).toBeGreaterThan(0);
  });

  it('which may not begin without a copy, and says so', async () => {
    const [path, open] = [await present(), await laterOpen()];
    const before = schemaOf(path);
    mkdirSync(`${path}.schema-1.bak`);
    await expect(open(`file:${path}`)).rejects.toMatchObject({
      code: 'backup_failed',
      message: expect.stringContaining('not migrated'),
    });
    expect(schemaOf(path)).toEqual(before);
  });
});

function schemaOf(path: string): unknown[] {
  const db = new DatabaseSync(path, { readOnly: true, timeout: 30_000 });
  try {
    return [
      ...db.prepare('SELECT name, sql FROM sqlite_master ORDER BY name').all(),
      ...db.prepare('SELECT created_at FROM __drizzle_migrations').all(),
    ];
  } finally {
    db.close();
  }
}
