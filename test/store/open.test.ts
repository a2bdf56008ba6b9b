import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/platform/errors.ts';
import { openStore, sqlitePath } from '../../src/store/open.ts';

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

  it('opens a database in memory, which asks for no file', async () => {
    const store = await openStore(':memory:');
    await store.writeFact('x', 'y');
    expect(await store.readFact('x')).toBe('y');
    await store.close();
  });
});
