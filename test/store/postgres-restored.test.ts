import { execFileSync } from 'node:child_process';
import { chownSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { KINDS } from '../../src/compliance/kinds.ts';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent, ProblemChange, ServiceFacts, Store } from '../../src/store/store.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { IS_FULL } from '../support/full.ts';
import { fullSyncsOf } from './planner.ts';

let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const FACTS: ServiceFacts = {
  eventsOnly: false,
  settleMs: 3_000,
  fullSyncMs: 0,
  unreachable: false as const,
  access: 'key',
};
const EVENT: IncomingEvent = {
  id: 'evt_1',
  type: 'risk.identified',
  kind: 'risk_assessment',
  recordId: 'ra_1',
  known: true,
  t: '1',
  created: '2026-11-20T12:00:00Z',
  createdMs: Date.parse('2026-11-20T12:00:00Z'),
  body: '{}',
};
const now = (wall = Date.now()) => ({ wall, steady: wall });
const beat = (store: Store) => store.beat(now(), FACTS);

async function opened(url: string): Promise<Store> {
  const store = await openStore(url);
  onTestFinished(() => store.close());
  return store;
}

/** What such a store has told since. */
function watched(store: Store): string[] {
  const told: string[] = [];
  store.watchProblems(({ problem, what }: ProblemChange) =>
    told.push(`${what} ${problem.reason} ${problem.kind}`),
  );
  return told;
}

const restoredGaps = async (store: Store) =>
  (await store.list('problems', { limit: 100 })).items.filter(({ reason }) => reason === 'restored');
const OPENED = KINDS.map((kind) => `opened restored ${kind}`);

/** A mirror that has lived: with a heartbeat of this wall-clock time. */
async function lived(wall: number): Promise<string> {
  const url = await server.createDatabase();
  const store = await openStore(url);
  await store.beat(now(wall), FACTS);
  await store.close();
  return url;
}

/** As `pg_dump` and `pg_restore` would: the same rows in another database. */
const copyOf = (url: string) => server.createDatabase(new URL(url).pathname.slice(1));

/** Until the server is there again. */
const comesBack = (store: Store) =>
  expect
    .poll(
      () =>
        beat(store).then(
          () => true,
          () => false,
        ),
      { timeout: 60_000 },
    )
    .toBe(true);

// First, while the server has few databases: after each crash it syncs every file of all of them.
describe('files of the server as they were earlier', () => {
  it.runIf(IS_FULL)(
    'are noticed by replicas that ran meanwhile, once by all of them',
    async () => {
      const url = await lived(Date.now());
      const stores = [await opened(url), await opened(url)];
      const told = stores.map(watched);
      const folder = String((await server.query('SHOW data_directory'))[0]!['data_directory']);
      await server.halt('crash');
      execFileSync('cp', ['-a', folder, `${folder}-earlier`]);
      await server.start();
      for (const store of stores) await comesBack(store);
      await stores[0]!.accept({ events: [EVENT], unusable: [] }, now(), FACTS);
      for (const store of stores) await beat(store);
      expect(told.flat()).toEqual([]);
      const epochs = new Set([(await stores[0]!.feed()).epoch]);

      // The same files may be put back again.
      for (const round of [1, 2]) {
        await server.halt('crash');
        rmSync(folder, { recursive: true });
        execFileSync('cp', ['-a', `${folder}-earlier`, folder]);
        await server.start();
        for (const store of [...stores, ...stores]) await comesBack(store);
        expect(await server.query('SELECT id FROM events', url)).toEqual([]);
        expect(told.flat().sort()).toEqual(
          Array.from({ length: round }, () => OPENED)
            .flat()
            .sort(),
        );
        expect(epochs.has((await stores[1]!.feed()).epoch)).toBe(false);
        epochs.add((await stores[1]!.feed()).epoch);
      }
      rmSync(`${folder}-earlier`, { recursive: true });
    },
    240_000,
  );
});

describe('another server', () => {
  it.runIf(IS_FULL)(
    'that has taken over beneath a running service may lack what was accepted; one that was only started anew does not',
    async () => {
      const url = await lived(Date.now());
      const store = await opened(url);
      const told = watched(store);
      const heartbeat = () => store.readFact('heartbeat');
      await server.halt('crash');
      await server.start();
      await comesBack(store);
      expect(told).toEqual([]);
      const last = await heartbeat();

      // A standby of itself that is promoted: the cluster is the same, and goes on along another line of time.
      const folder = String((await server.query('SHOW data_directory'))[0]!['data_directory']);
      await server.halt('orderly');
      const signal = join(folder, 'standby.signal');
      writeFileSync(signal, '');
      chownSync(signal, statSync(folder).uid, statSync(folder).gid);
      await server.start();
      await expect(beat(store)).rejects.toThrow();
      expect(await heartbeat()).toBe(last);
      expect(await server.query('SELECT pg_promote()')).toEqual([{ pg_promote: true }]);
      // The new server takes deliveries before anybody has looked where it is.
      await expect
        .poll(() => store.accept({ events: [EVENT], unusable: [] }, now(), FACTS).catch(() => null), {
          timeout: 60_000,
        })
        .not.toBeNull();
      await comesBack(store);
      expect(told).toEqual(OPENED);
      await beat(store);
      const problems = await restoredGaps(store);
      expect(problems).toHaveLength(3);
      expect(problems[0]!.error).toContain(`accepted from ${last} to `);
    },
    240_000,
  );
});

describe('a database that was put back', () => {
  it('begins another epoch in its new place by itself, and says from when to when what was accepted is missing', async () => {
    const wall = Date.now() - 3_600_000;
    const original = await lived(wall);
    const copy = await copyOf(original);
    const before = Date.now();
    const store = await opened(copy);
    expect(watched(store)).toEqual(OPENED);
    const problems = await restoredGaps(store);
    expect(problems.map(({ kind }) => kind).toReversed()).toEqual([...KINDS]);
    for (const { error } of problems) {
      const [, since, until] = /accepted from (\S+Z) to (\S+Z) is not in it/.exec(error ?? '') ?? [];
      expect(since).toBe(new Date(wall).toISOString());
      // Two clocks of one machine, each rounded.
      expect(Math.abs(Date.parse(until!) - before)).toBeLessThan(60_000);
    }
    const source = await opened(original);
    expect((await store.feed()).epoch).not.toBe((await source.feed()).epoch);
    expect(await restoredGaps(source)).toEqual([]);
  });

  it('does so once, however many replicas start together, and not again', async () => {
    const copy = await copyOf(await lived(Date.now()));
    const stores = await Promise.all(Array.from({ length: 4 }, () => opened(copy)));
    const told = stores.map(watched);
    expect(told.flat().sort()).toEqual([...OPENED].sort());
    const epoch = (await stores[0]!.feed()).epoch;
    for (const store of stores) await beat(store);
    const again = await opened(copy);
    expect((await again.feed()).epoch).toBe(epoch);
    expect(await restoredGaps(again)).toHaveLength(3);
  });

  it('a second time has problems of its own beside those that are open', async () => {
    const copy = await copyOf(await lived(Date.now()));
    await (await openStore(copy)).close();
    const store = await opened(await copyOf(copy));
    const problems = await restoredGaps(store);
    expect(problems).toHaveLength(6);
    expect(await store.resolveProblem(problems[1]!.id, problems[1]!.digest, now())).toBe('resolved');
    expect(
      (await store.list('problems', { open: true, limit: 100 })).items.map(({ id }) => id),
    ).not.toContain(problems[1]!.id);
    expect((await store.list('problems', { open: true, limit: 100 })).items.length).toBe(5);
  });

  it('waits with the lists until they cannot be older than what was lost', async () => {
    const store = await opened(await copyOf(await lived(Date.now())));
    const steady = Date.now();
    expect(await fullSyncsOf(store, { wall: steady, steady })).toEqual([]);
    const later = { wall: steady, steady: steady + FACTS.settleMs + 60_000 };
    expect(await fullSyncsOf(store, later)).toEqual(['policy', 'vendor']);
  });
});
