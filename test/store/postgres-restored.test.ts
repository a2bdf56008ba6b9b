import { execFileSync } from 'node:child_process';
import { chownSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { KINDS } from '../../src/compliance/kinds.ts';
import { openStore } from '../../src/store/open.ts';
import type { GapChange, IncomingEvent, ServiceFacts, Store } from '../../src/store/store.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';

let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const FACTS: ServiceFacts = {
  eventsOnly: false,
  settleMs: 3_000,
  fullSyncMs: 0,
  unreachable: false,
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
  store.watchGaps(({ gap, what }: GapChange) => told.push(`${what} ${gap.reason} ${gap.kind}`));
  return told;
}

const restoredGaps = async (store: Store) =>
  (await store.list('gaps', { limit: 100 })).filter(({ reason }) => reason === 'restored');
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
  it('are noticed by replicas that ran meanwhile, once by all of them', async () => {
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
    const epochs = new Set([await stores[0]!.epoch()]);

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
      expect(epochs.has(await stores[1]!.epoch())).toBe(false);
      epochs.add(await stores[1]!.epoch());
    }
    rmSync(`${folder}-earlier`, { recursive: true });
  }, 240_000);
});

describe('another server', () => {
  it('that has taken over beneath a running service may lack what was accepted; one that was only started anew does not', async () => {
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
    const gaps = await restoredGaps(store);
    expect(gaps).toHaveLength(3);
    expect(gaps[0]!.error).toContain(`accepted from ${last} to `);
  }, 240_000);
});

describe('a database that was put back', () => {
  it('begins another epoch in its new place by itself, and says from when to when what was accepted is missing', async () => {
    const wall = Date.now() - 3_600_000;
    const original = await lived(wall);
    const copy = await copyOf(original);
    const before = Date.now();
    const store = await opened(copy);
    expect(watched(store)).toEqual(OPENED);
    const gaps = await restoredGaps(store);
    expect(gaps.map(({ kind }) => kind).toReversed()).toEqual([...KINDS]);
    for (const { error } of gaps) {
      const [, since, until] = /accepted from (\S+Z) to (\S+Z) is not in it/.exec(error ?? '') ?? [];
      expect(since).toBe(new Date(wall).toISOString());
      // Two clocks of one machine, each rounded.
      expect(Math.abs(Date.parse(until!) - before)).toBeLessThan(60_000);
    }
    const source = await opened(original);
    expect(await store.epoch()).not.toBe(await source.epoch());
    expect(await restoredGaps(source)).toEqual([]);
  });

  it('does so once, however many replicas start together, and not again', async () => {
    const copy = await copyOf(await lived(Date.now()));
    const stores = await Promise.all(Array.from({ length: 4 }, () => opened(copy)));
    const told = stores.map(watched);
    expect(told.flat().sort()).toEqual([...OPENED].sort());
    const epoch = await stores[0]!.epoch();
    for (const store of stores) await beat(store);
    const again = await opened(copy);
    expect(await again.epoch()).toBe(epoch);
    expect(await restoredGaps(again)).toHaveLength(3);
  });

  it('a second time has gaps of its own beside those that are open', async () => {
    const copy = await copyOf(await lived(Date.now()));
    await (await openStore(copy)).close();
    const store = await opened(await copyOf(copy));
    const gaps = await restoredGaps(store);
    expect(gaps).toHaveLength(6);
    expect(await store.settleGap(gaps[1]!.id, now())).toBe(true);
    expect((await store.list('gaps', { open: true, limit: 100 })).map(({ id }) => id)).not.toContain(
      gaps[1]!.id,
    );
    expect((await store.list('gaps', { open: true, limit: 100 })).length).toBe(5);
  });

  it('row by row is one that a person has told so, also while the service runs', async () => {
    const url = await lived(Date.now());
    const store = await opened(url);
    const told = watched(store);
    const before = await store.epoch();
    await beat(store);
    expect(told).toEqual([]);
    await server.query("DELETE FROM facts WHERE name = 'epoch'", url);
    await beat(store);
    expect(told).toEqual(OPENED);
    expect(await store.epoch()).toMatch(/^[0-9a-f]{16}$/);
    expect(await store.epoch()).not.toBe(before);
    await beat(store);
    expect(await restoredGaps(store)).toHaveLength(3);
  });

  it('waits with the lists until they cannot be older than what was lost', async () => {
    const store = await opened(await copyOf(await lived(Date.now())));
    const steady = Date.now();
    expect(await store.kindsWantingFullSync({ wall: steady, steady })).toEqual([]);
    const later = { wall: steady, steady: steady + FACTS.settleMs + 60_000 };
    expect(await store.kindsWantingFullSync(later)).toEqual(['policy', 'vendor']);
  });

  it('is only looked at by who may not write', async () => {
    const copy = await copyOf(await lived(Date.now()));
    const reader = await openStore(copy, { readOnly: true });
    onTestFinished(() => reader.close());
    expect(await restoredGaps(reader)).toEqual([]);
  });

  it('is not noticed where the server does not tell its place, unless a person says so', async () => {
    const copy = await copyOf(await lived(Date.now()));
    await server.query('REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC', copy);
    await server.query(
      "CREATE ROLE tenant LOGIN PASSWORD 'x'; GRANT ALL ON ALL TABLES IN SCHEMA public TO tenant; GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO tenant",
      copy,
    );
    const url = server.url({ database: new URL(copy).pathname.slice(1), user: 'tenant', password: 'x' });
    const store = await opened(url);
    await beat(store);
    expect(await restoredGaps(store)).toEqual([]);
    await server.query("DELETE FROM facts WHERE name = 'epoch'", copy);
    await beat(store);
    expect(await restoredGaps(store)).toHaveLength(3);
  });
});
