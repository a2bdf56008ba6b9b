import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { eventually } from '../convergence/service.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';

const TIMEOUT_MS = 180_000;

let server: PostgresServer;
let url: string;
let stores: [Store, Store];

beforeAll(async () => {
  server = await startPostgres();
  url = await server.createDatabase();
  const first = await openStore(url);
  stores = [first, await openStore(url)];
}, TIMEOUT_MS);
afterAll(async () => {
  for (const store of stores) await store.close();
  await server.stop();
});

describe('notices', () => {
  it(
    'reach the other processes of the same schema, and again after the connection was lost',
    async () => {
      const elsewhere = await openStore(url, { postgres: { schema: 'another' } });
      const [teller, hearer] = stores;
      const heard: string[] = [];
      const overheard: string[] = [];
      const ears = await hearer.listen((notice) => heard.push(notice));
      const others = await elsewhere.listen((notice) => overheard.push(notice));
      // Each hears everything once as it begins, since what was told before is lost on it.
      await eventually('both to listen', () => heard.length === 2 && overheard.length === 2);
      await teller.notify('work');
      await eventually('the notice', () => heard.length === 3);
      expect(heard[2]).toBe('work');

      await server.halt('crash');
      await server.start();
      await eventually('it to listen again', () => heard.length === 5);
      await eventually('a notice', async () => {
        await teller.notify('events').catch(() => undefined);
        return heard.length > 5;
      });
      expect(heard[5]).toBe('events');
      await eventually('the other to listen again', () => overheard.length === 4);
      expect(overheard).toHaveLength(4);
      await ears.stop();
      await others.stop();
      await elsewhere.close();
    },
    TIMEOUT_MS,
  );
});

describe("the database's time", () => {
  it('is set right for all when a process knows that it is behind, and never set back', async () => {
    const [one, other] = stores;
    const asked = Date.now();
    const before = (await one.sharedTime(null))!;
    expect(before.wall).toBeGreaterThan(asked - 5_000);
    expect(before.wall).toBeLessThan(Date.now() + 5_000);
    const ahead = before.steady + 3_600_000;
    expect((await one.sharedTime(ahead))!.steady).toBeGreaterThanOrEqual(ahead);
    expect((await other.sharedTime(null))!.steady).toBeGreaterThanOrEqual(ahead);
    expect((await other.sharedTime(before.steady))!.steady).toBeGreaterThanOrEqual(ahead);
    // What people read is not moved by it.
    expect((await other.sharedTime(null))!.wall).toBeLessThan(ahead);
  });
});
