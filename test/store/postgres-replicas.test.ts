import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openPostgres } from '../../src/store/postgres/postgres.ts';
import type { ChangeReport } from '../../src/store/reports.ts';
import type { Store } from '../../src/store/store.ts';
import { createTestDatabase, type TestDatabase } from '../postgres/database.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { createScene, LEASE_MS, type Scene, SETTLE_MS, TIMING } from './scene.ts';

let server: PostgresServer;
let database: TestDatabase;
/** As many openings as a test asks for: to the database each is another process. */
let stores: Store[];
let scene: Scene;

beforeAll(async () => {
  server = await startPostgres();
  database = await createTestDatabase(server);
});
afterAll(async () => {
  await database.close();
  await server.stop();
});

beforeEach(async () => {
  await database.empty();
  stores = [];
  scene = await createScene(async () => ({
    store: await replica(),
    query: database.query,
    close: async () => undefined,
  }));
  return async () => {
    for (const store of stores) await store.close();
  };
});

async function replica(): Promise<Store> {
  const store = await openPostgres(database.url);
  stores.push(store);
  return store;
}

const ids = (events: readonly { id: string }[]) => events.map((event) => event.id);
const acceptAt = (store: Store, ...events: Parameters<Scene['accept']>) =>
  store.accept({ events, unusable: [] }, scene.now(), TIMING);
const claimAt = (store: Store, owner: string, limit = 100) =>
  store.claimEvents(owner, limit, LEASE_MS, scene.now());

async function rawClient(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  return client;
}

/** Until somebody waits for a lock, as the server sees it. */
async function untilWaiting(): Promise<void> {
  const waiting =
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
  while (Number((await database.query(waiting))[0]?.['n']) === 0) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

describe('several replicas over one database', () => {
  it('accept an event that reaches all of them at once exactly once', async () => {
    const [a, b, c] = [scene.store, await replica(), await replica()];
    const events = Array.from({ length: 40 }, (_, n) => scene.event({ id: `e${n}`, recordId: `p${n % 7}` }));
    const outcomes = await Promise.all(
      events.flatMap((event) => [a, b, c].map((store) => acceptAt(store, event))),
    );
    const accepted = outcomes.flat().filter((outcome) => outcome.status === 'accepted');
    expect(accepted).toHaveLength(events.length);
    expect(outcomes.flat().filter((outcome) => outcome.status === 'duplicate')).toHaveLength(
      2 * events.length,
    );
    const rows = await scene.query('SELECT deliveries, seq FROM events ORDER BY seq');
    expect(rows.every((row) => row['deliveries'] === 3)).toBe(true);
    expect(new Set(accepted.map((outcome) => ('seq' in outcome ? outcome.seq : 0))).size).toBe(events.length);
    expect((await a.summary()).events.pending).toBe(events.length);
  });

  it('never claim an event, or two events of one record, at the same time', async () => {
    const all = [scene.store, await replica(), await replica()];
    const events = Array.from({ length: 120 }, (_, n) =>
      scene.event({ id: `e${n}`, recordId: `p${n % 11}` }),
    );
    await acceptAt(scene.store, ...events);
    const holders = new Map<string, string>();
    const seen: string[] = [];
    await Promise.all(
      all.map(async (store, place) => {
        for (let round = 0; ; round += 1) {
          const owner = `replica ${place}, batch ${round}`;
          const claimed = await claimAt(store, owner, 5);
          if (claimed.length === 0 && seen.length === events.length) return;
          for (const { id, recordId } of claimed) {
            expect(holders.get(recordId ?? '') ?? owner).toBe(owner);
            holders.set(recordId ?? '', owner);
            seen.push(id);
          }
          // Given up here first: the claim ends as the verb commits, before its promise resolves.
          for (const { recordId } of claimed) holders.delete(recordId ?? '');
          const outcomes = await store.previewEvents(claimed, scene.rules(), scene.now());
          expect(outcomes).toHaveLength(claimed.length);
        }
      }),
    );
    expect(seen.sort()).toEqual(ids(events).sort());
    expect((await scene.store.summary()).events).toMatchObject({ pending: 0, done: events.length });
    expect(await scene.query('SELECT * FROM claims')).toEqual([]);
  });

  it('leave a lost claim to whoever has it, and skip what its loser still brings', async () => {
    const other = await replica();
    await scene.accept(scene.event({ id: 'a' }));
    const lost = await claimAt(scene.store, 'the slow one');
    expect(ids(await claimAt(other, 'the other'))).toEqual([]);
    scene.pass(LEASE_MS);
    const taken = await claimAt(other, 'the other');
    expect(ids(taken)).toEqual(['a']);
    expect(await scene.store.previewEvents(lost, scene.rules(), scene.now())).toEqual([]);
    await scene.store.releaseEvents(lost);
    expect(await other.previewEvents(taken, scene.rules(), scene.now())).toMatchObject([
      { outcome: 'previewed' },
    ]);
  });

  it('keep their claims while another starts, and give them back when they end', async () => {
    await scene.accept(scene.event({ id: 'a' }));
    expect(ids(await claimAt(scene.store, 'me'))).toEqual(['a']);
    const other = await replica();
    expect(await other.recoverClaims()).toBe(1);
    expect(await claimAt(other, 'the other')).toEqual([]);
    await stores.shift()?.close();
    expect(ids(await claimAt(other, 'the other'))).toEqual(['a']);
  });

  it('claim without waiting for a transaction that holds the counter', async () => {
    await scene.accept(scene.event({ id: 'a' }));
    const slow = await rawClient();
    await slow.query('BEGIN; SELECT value FROM counter FOR UPDATE');
    expect(ids(await claimAt(scene.store, 'me'))).toEqual(['a']);
    await slow.query('ROLLBACK');
    await slow.end();
  });

  it('commit in the order of their numbers, also behind a slow transaction', async () => {
    const other = await replica();
    await acceptAt(other, scene.event({ id: 'a', recordId: 'p1' }), scene.event({ id: 'b', recordId: 'p2' }));
    // A writer of another process: it has taken its number and is slow to commit.
    const slow = await rawClient();
    await slow.query('BEGIN');
    const taken = await slow.query<{ value: string }>('SELECT value FROM counter FOR UPDATE');
    const number = Number(taken.rows[0]?.value) + 1;
    const work = scene.work();
    await untilWaiting();
    expect(await other.listChanges(0, 10)).toEqual([]);
    await slow.query(
      `INSERT INTO changes (seq, kind, record_id, operation, before, after, cause, at)
       VALUES ($1, 'vendor', 'v', 'insert', '{}', '{}', 'test', now())`,
      [number],
    );
    await slow.query('UPDATE counter SET value = $1', [number]);
    await slow.query('COMMIT');
    await slow.end();
    expect(await work).toHaveLength(2);
    const changes = await other.listChanges(0, 10);
    expect(changes.map((change) => change.record_id)).toEqual(['v', 'p1', 'p2']);
    expect(changes[0]?.seq).toBe(number);
  });

  it('show every change to whoever follows the feed while three of them write', async () => {
    const writers = [scene.store, await replica(), await replica()];
    const reader = await replica();
    const followed: ChangeReport[] = [];
    let writing = true;
    const follower = (async () => {
      for (;;) {
        const last = !writing;
        const page = await reader.listChanges(followed.at(-1)?.seq ?? 0, 7);
        followed.push(...page);
        if (last && page.length === 0) return;
      }
    })();
    await Promise.all(
      writers.map(async (store, place) => {
        for (let n = 0; n < 25; n += 1) {
          const began = { number: await store.currentNumber(), beganAt: scene.now().steady };
          const objects = [0, 1, 2].map((k) => ({ id: `r${place}_${k}`, data: { name: `${n}` } }));
          await acceptAt(store, scene.event({ recordId: `e${n % 5}`, shows: { name: `${place} ${n}` } }));
          await store.previewEvents(await claimAt(store, `${place} ${n}`, 3), scene.rules(), scene.now());
          scene.pass(SETTLE_MS);
          await store.applyReads(
            'vendor',
            objects,
            scene.endRead({ ...began, beganAt: scene.now().steady }),
            {
              ...{ cause: 'refetch', sweepId: null, timing: TIMING, pointers: scene.rules().pointers },
            },
          );
        }
      }),
    );
    writing = false;
    await follower;
    expect(followed.length).toBeGreaterThan(200);
    const all: ChangeReport[] = [];
    for (let page = await reader.listChanges(0, 500); page.length > 0; ) {
      all.push(...page);
      page = await reader.listChanges(all.at(-1)!.seq, 500);
    }
    expect(followed.map((change) => change.seq)).toEqual(all.map((change) => change.seq));
  });

  it('try a transaction again that the server ended for a deadlock', async () => {
    await scene.show('policy', 'p', { id: 'p', name: 'One' });
    const rival = await rawClient();
    // It looks for deadlocks later than the store's own connection does: that one is to be ended.
    await rival.query("SET deadlock_timeout = '30s'");
    await rival.query('BEGIN');
    await rival.query("UPDATE record_state SET attempts = 7 WHERE id = 'p'");
    scene.pass(SETTLE_MS);
    const write = scene.show('policy', 'p', { id: 'p', name: 'Two' });
    await untilWaiting();
    // Each now waits for the other.
    await rival.query('SELECT value FROM counter FOR UPDATE');
    await rival.query('COMMIT');
    await rival.end();
    expect(await write).toMatchObject({ outcome: 'updated' });
    expect((await scene.row('policy', 'p'))?.name).toBe('Two');
  });

  it('start beside others without moving what is due, and lay it anew where nobody has served for long', async () => {
    await scene.store.beat(scene.now(), {
      eventsOnly: false,
      settleMs: SETTLE_MS,
      sweepMs: 0,
      blocked: false,
    });
    await scene.accept(scene.event({ kind: 'vendor', recordId: 'v' }));
    const due = scene.now().steady + SETTLE_MS;
    scene.pass(SETTLE_MS / 2);
    const other = await replica();
    expect(await other.rehintUnverified(scene.now(), TIMING)).toBe(0);
    expect(await other.nextDueAt('vendor')).toBe(due);
    scene.pass(3_600_000);
    expect(await other.rehintUnverified(scene.now(), TIMING)).toBe(1);
    expect(await other.nextDueAt('vendor')).toBe(scene.now().steady + SETTLE_MS);
  });

  it('take back what a clock ahead of theirs has noted, so that no record waits for it', async () => {
    await scene.store.beat(scene.now(), {
      eventsOnly: false,
      settleMs: SETTLE_MS,
      sweepMs: 0,
      blocked: false,
    });
    const ahead = { ...scene.now(), steady: scene.now().steady + 86_400_000 };
    await scene.store.accept(
      { events: [scene.event({ kind: 'vendor', recordId: 'v' })], unusable: [] },
      ahead,
      TIMING,
    );
    const other = await replica();
    expect(await other.rehintUnverified(scene.now(), TIMING)).toBe(1);
    scene.pass(SETTLE_MS);
    expect(await other.dueRecords('vendor', scene.now(), TIMING, 5)).toMatchObject([{ id: 'v' }]);
  });
});
