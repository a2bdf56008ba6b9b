import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDatabase, type PostgresDatabase } from '../../src/store/postgres/connection.ts';
import { openPostgres } from '../../src/store/postgres/postgres.ts';
import { sql } from '../../src/store/statement.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';

let server: PostgresServer;
let database: PostgresDatabase;
beforeAll(async () => {
  server = await startPostgres();
  await (await openPostgres(server.url())).close();
  database = createDatabase(server.url());
  await server.query('UPDATE counter SET value = 0; CREATE TABLE noted (n int PRIMARY KEY)');
});
afterAll(async () => {
  await database?.close();
  await server?.stop();
});

const noted = async () => (await server.query('SELECT n FROM noted ORDER BY n')).map((row) => row['n']);
const note = (n: number) => sql`INSERT INTO noted VALUES (${n})`;

describe('a unit that writes', () => {
  it('keeps what it sent without waiting, and its numbers', async () => {
    await database.transact(async (unit) => {
      unit.send(note(1));
      unit.numbers.next();
      unit.send(note(2));
    });
    expect(await noted()).toEqual([1, 2]);
    expect(await server.query('SELECT value::int AS value FROM counter')).toEqual([{ value: 1 }]);
  });

  it('keeps nothing where something it sent fails, and fails with that', async () => {
    const failing = database.transact(async (unit) => {
      unit.send(note(3));
      unit.numbers.next();
      unit.send(note(1));
      unit.send(note(4));
    });
    await expect(failing).rejects.toMatchObject({ message: expect.stringContaining('duplicate key') });
    expect(await noted()).toEqual([1, 2]);
    expect(await server.query('SELECT value::int AS value FROM counter')).toEqual([{ value: 1 }]);
  });

  it('fails with what it sent, and not with what the server says to everything after that', async () => {
    const failing = database.transact(async (unit) => {
      unit.send(note(1));
      await unit.query(sql`SELECT 1`);
    });
    await expect(failing).rejects.toMatchObject({ message: expect.stringContaining('duplicate key') });
  });

  it('fails where a statement had failed and nobody had minded, for nothing of it is kept', async () => {
    const careless = database.transact(async (unit) => {
      unit.send(note(5));
      await unit.change(note(1)).catch(() => undefined);
    });
    await expect(careless).rejects.toThrow('rolled back');
    expect(await noted()).toEqual([1, 2]);
  });

  it('keeps nothing of what it sent where its own work fails', async () => {
    const failing = database.transact(async (unit) => {
      unit.send(note(6));
      throw new Error('ours');
    });
    await expect(failing).rejects.toThrow('ours');
    expect(await noted()).toEqual([1, 2]);
  });

  it('sees in what it reads first what was committed before it had the counter', async () => {
    const seen: unknown[] = [];
    const { promise: held, resolve: hold } = Promise.withResolvers<void>();
    const { promise: goOn, resolve: letGo } = Promise.withResolvers<void>();
    const one = createDatabase(server.url());
    const before = one.transact(async (unit) => {
      unit.send(note(7));
      hold();
      await goOn;
    });
    await held;
    const after = database.transact(
      async (_unit, rows: unknown[]) => void seen.push(...rows),
      (from) => from.query(sql`SELECT n FROM noted WHERE n = 7`),
    );
    while (
      (await server.query("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")).length === 0
    );
    letGo();
    await Promise.all([before, after]);
    await one.close();
    expect(seen).toEqual([{ n: 7 }]);
  });

  it('leaves numbers out after a crash, which may have taken some that somebody has seen', async () => {
    const before = await database.currentNumber();
    await server.query('DELETE FROM counter_intact');
    const next = () => database.transact(async ({ numbers }) => numbers.next());
    expect(await next()).toBe(before + 1_000_001);
    expect(await next()).toBe(before + 1_000_002);
  });

  it('is refused where the counter cannot be seen, and says why', async () => {
    const value = await database.currentNumber();
    await server.query('DELETE FROM counter');
    await expect(database.transact(async () => undefined)).rejects.toMatchObject({
      message: expect.stringContaining('no row of the table counter can be seen'),
      remedy: expect.stringContaining('ROW LEVEL SECURITY'),
    });
    await server.query(`INSERT INTO counter VALUES (${value})`);
    expect(await database.transact(async ({ numbers }) => numbers.next())).toBe(value + 1);
  });
});
