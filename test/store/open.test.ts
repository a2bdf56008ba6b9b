import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/platform/errors.ts';
import { openStore, sqlitePath } from '../../src/store/open.ts';
import { freshPath } from './folder.ts';

describe('DATABASE_URL', () => {
  it.each([
    ['file:./data/mirror.db', './data/mirror.db'],
    ['file:/var/lib/mirror.db', '/var/lib/mirror.db'],
    ['file:///var/lib/with%20space.db', '/var/lib/with space.db'],
    [':memory:', ':memory:'],
    ['file::memory:', ':memory:'],
  ])('%s names %s', (url, path) => {
    expect(sqlitePath(url)).toBe(path);
  });

  it.each(['', 'mirror.db', 'mysql://localhost/x', 'http://localhost', 'file:'])(
    'refuses %j, and says what to write',
    (url) => {
      expect(() => sqlitePath(url)).toThrow(UsageError);
      expect(() => sqlitePath(url)).toThrow(/DATABASE_URL/);
    },
  );

  it.each([
    ['has a table of one of our names', 'CREATE TABLE vendors (number int)'],
    [
      'keeps its migrations as we do ours',
      "CREATE TABLE __drizzle_migrations (id, hash, created_at); INSERT INTO __drizzle_migrations VALUES (1, 'x', 9999999999999)",
    ],
  ])("is answered with what to do where the file is another program's, which %s", async (_what, sql) => {
    const path = freshPath();
    const theirs = new Database(path);
    theirs.exec(sql);
    theirs.close();
    await expect(openStore(`file:${path}`)).rejects.toMatchObject({
      remedy: expect.stringMatching(/let DATABASE_URL name a file of its own/),
    });
  });

  it('opens a database in memory, which asks for no file', async () => {
    const store = await openStore(':memory:');
    await store.writeFact('x', 'y');
    expect(await store.readFact('x')).toBe('y');
    await store.close();
  });
});
