import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { contentHashOf } from '../../src/compliance/json.ts';
import { openPostgres } from '../../src/store/postgres/postgres.ts';
import type { ChangeReport } from '../../src/store/reports.ts';
import type { Store, Verbs } from '../../src/store/store.ts';
import { createTestDatabase, type TestDatabase } from '../postgres/database.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { createScene, isoOf, type Scene, SETTLE_MS, TIMING } from './scene.ts';

const LEASE_MS = 10_000;

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

const acceptAt = (store: Store, ...events: Parameters<Scene['accept']>) =>
  store.accept({ events, unusable: [] }, scene.now(), TIMING);

async function rawClient(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  return client;
}

/** Until so many wait for a lock, as the server sees it. */
async function untilWaiting(many = 1): Promise<void> {
  const waiting =
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
  while (Number((await database.query(waiting))[0]?.['n']) < many) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/**
 * In the server, so that nothing comes between: whoever waits looks for a deadlock once, a second after it began, and
 * by then there must be one.
 */
const COUNTER_ONCE_SOMEBODY_WAITS = `DO $$ BEGIN
  WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted) LOOP PERFORM pg_sleep(0.005); END LOOP;
  PERFORM value FROM counter FOR UPDATE;
END $$`;

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

  it('accept groups with the same ids and records at once: numbers in commit order, the highest as dirty mark, no id twice', async () => {
    const all = [scene.store, await replica(), await replica()];
    await Promise.all(['p0', 'p1'].map((id) => scene.show('policy', id, { id, name: 'One' })));
    const numbered = new Map<number, string>();
    const followed: unknown[] = [];
    let delivered = 0;
    let accepting = true;
    const follower = (async () => {
      for (let isLast = false; !isLast; ) {
        isLast = !accepting;
        const last = Number(followed.at(-1) ?? 0);
        const rows = await scene.query(`SELECT seq FROM events WHERE seq > ${last} ORDER BY seq`);
        followed.push(...rows.map((row) => row['seq']));
      }
    })();
    for (let round = 0; round < 25; round += 1) {
      const fresh = (place: number) =>
        [0, 1, 2, 3].map((n) =>
          scene.event({ id: `e${round}_${place}_${n}`, recordId: `p${(n + place) % 3}` }),
        );
      // Some of each group reach another replica as well; a sender repeats what was not answered in time.
      const groups = all.map((_, place) => fresh(place));
      const batches = groups.map((group, place) =>
        round % 2 === 0 ? group : [...group, ...(groups[(place + 1) % 3] ?? []).slice(0, 1)],
      );
      const outcomes = await Promise.all(
        all.map((store, place) => acceptAt(store, ...(batches[place] ?? []))),
      );
      for (const [place, batch] of batches.entries()) {
        for (const [index, event] of batch.entries()) {
          const outcome = outcomes[place]?.[index];
          delivered += 1;
          if (outcome?.status !== 'accepted') continue;
          expect(numbered.get(outcome.seq)).toBeUndefined();
          numbered.set(outcome.seq, event.id);
        }
      }
    }
    accepting = false;
    await follower;
    const events = await scene.query('SELECT id, seq, record_id, deliveries FROM events ORDER BY seq');
    expect(followed).toEqual(events.map((row) => row['seq']));
    expect(events.map((row) => [row['seq'], row['id']])).toEqual([...numbered].sort(([a], [b]) => a - b));
    expect(new Set(numbered.values()).size).toBe(25 * 12);
    expect(events.reduce((sum, row) => sum + Number(row['deliveries']), 0)).toBe(delivered);
    for (const { id, dirty } of await scene.query("SELECT id, dirty FROM record_state WHERE id LIKE 'p%'")) {
      const last = events.filter((row) => row['record_id'] === id).at(-1);
      expect(dirty, String(id)).toBe(last?.['seq']);
    }
    expect((await scene.store.summary()).events).toEqual({ pending: events.length, failed: 0 });
    expect(await scene.store.currentNumber()).toBe(events.at(-1)?.['seq']);
  });

  it('see what another wrote while they waited for the counter: ids it took or trimmed, and rows it made', async () => {
    const rival = await rawClient();
    await rival.query('BEGIN');
    await rival.query('UPDATE counter SET value = value + 1');
    const [taken, trimmed, made] = [
      scene.event({ id: 'taken', recordId: 'p1' }),
      scene.event({ id: 'trimmed', recordId: 'p2' }),
      scene.event({ id: 'new', recordId: 'p3' }),
    ];
    const accepting = [taken, trimmed, made].map(async (event) => acceptAt(await replica(), event));
    await untilWaiting(3);
    await rival.query(
      `INSERT INTO events (seq, id, type, created, created_ms, received_at, last_delivered_at, state, body)
       VALUES ((SELECT value FROM counter), 'taken', 'x', now(), 0, now(), now(), 'ignored', $1)`,
      [taken.body],
    );
    await rival.query('INSERT INTO trimmed_events VALUES ($1, $2, now())', [
      'trimmed',
      contentHashOf(trimmed.body),
    ]);
    await rival.query(
      `INSERT INTO policies (id, name, data, first_seen_at, synced_at, cause) VALUES ('p3', 'x', '{}', now(), now(), 'test')`,
    );
    await rival.query("INSERT INTO record_state (kind, id) VALUES ('policy', 'p3')");
    await rival.query('COMMIT');
    await rival.end();
    expect((await Promise.all(accepting)).flat()).toMatchObject([
      { status: 'duplicate', conflicting: false },
      { status: 'duplicate', conflicting: false },
      { status: 'accepted' },
    ]);
    expect((await scene.row('policy', 'p3'))?.unverified_since).toBe(isoOf(scene.now().wall));
  });

  it('take nothing of a group in when a part of it cannot be written, and serve the next', async () => {
    await scene.query("ALTER TABLE record_state ADD CONSTRAINT no_such CHECK (id <> 'no such')");
    try {
      const number = await scene.store.currentNumber();
      const group = [scene.event({ id: 'a' }), scene.event({ id: 'b', recordId: 'no such' })];
      await expect(acceptAt(scene.store, ...group)).rejects.toThrow('no_such');
      expect(await scene.query('SELECT id FROM events')).toEqual([]);
      expect(await scene.store.currentNumber()).toBe(number);
      expect(await acceptAt(scene.store, scene.event({ id: 'a' }))).toMatchObject([{ status: 'accepted' }]);
    } finally {
      await scene.query('ALTER TABLE record_state DROP CONSTRAINT no_such');
    }
  });

  it('accept without reading tables from end to end, also where they were empty as the statement was planned', async () => {
    // What a connection read is counted by the time it has ended.
    const reads = async () => {
      const others =
        'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()';
      await Promise.all(stores.splice(0).map((each) => each.close()));
      while ((await database.query(others)).length > 0)
        await new Promise((resolve) => setTimeout(resolve, 5));
      await database.query('SELECT pg_stat_force_next_flush()');
      const [row] = await database.query(
        `SELECT sum(seq_scan)::int AS whole, sum(idx_scan)::int AS "byIndex" FROM pg_stat_user_tables
         WHERE schemaname = 'public' AND relname IN ('events', 'trimmed_events', 'record_state', 'policies')`,
      );
      return { whole: Number(row?.['whole']), byIndex: Number(row?.['byIndex']) };
    };
    const before = await reads();
    const store = await replica();
    for (let n = 0; n < 12; n += 1) await acceptAt(store, scene.event({ recordId: `p${n}` }));
    const after = await reads();
    expect(after.byIndex).toBeGreaterThanOrEqual(before.byIndex + 3 * 12);
    expect(after.whole).toBe(before.whole);
  });

  it('process nothing, read nothing and delete nothing under a lease that another has taken', async () => {
    const { store } = scene;
    const other = await replica();
    await scene.accept(scene.event({ id: 'a' }));
    const lost = store.underLease((await store.takeLease('worker', 'one', 1_000, scene.now().steady))!);
    const open = await lost.startSyncRun('vendor', 'timer', scene.now());
    scene.pass(1_000);
    const held = other.underLease((await other.takeLease('worker', 'other', 1_000, scene.now().steady))!);
    const turn = { limit: 10, rules: scene.rules(), retryDelaysMs: [] };
    const read = scene.endRead(await scene.beginRead());
    const reading = {
      cause: { cause: 'refetch', causeId: null } as const,
      syncRunId: null,
      timing: TIMING,
      pointers: turn.rules.pointers,
    };
    const cause = { cause: 'sync', causeId: '1' } as const;
    const deleting = { cause, unannounced: null, guardPercent: 20, timing: TIMING };
    const none = { absent: [], number: 0, beganAt: 0 };
    const work = [
      (verbs: Verbs) => verbs.processPending(turn, scene.now()),
      (verbs: Verbs) => verbs.applyReads('vendor', [{ id: 'v', json: '{"id":"v"}' }], read, reading),
      (verbs: Verbs) => verbs.concludeDeletions('vendor', none, deleting, scene.now()),
      (verbs: Verbs) => verbs.startSyncRun('vendor', 'takeover', scene.now()),
      (verbs: Verbs) => verbs.interruptSyncRuns(scene.now()),
    ];
    for (const each of work) await expect(each(lost)).rejects.toMatchObject({ code: 'lease_lost' });
    expect(await scene.query('SELECT state FROM events')).toEqual([{ state: 'pending' }]);
    expect(await scene.query('SELECT id, outcome FROM sync_runs')).toEqual([{ id: open.id, outcome: null }]);
    expect(await scene.row('vendor', 'v')).toBeNull();
    for (const each of work) await each(held);
    expect(await scene.query('SELECT state FROM events')).toEqual([{ state: 'processed' }]);
  });

  it('do not show an event that is dismissed while its batch waits for the counter', async () => {
    await scene.accept(scene.event({ id: 'a' }), scene.event({ id: 'b', recordId: 'pol_2' }));
    const slow = await rawClient();
    await slow.query('BEGIN; SELECT value FROM counter FOR UPDATE');
    const work = scene.work();
    await untilWaiting();
    await slow.query("UPDATE events SET state = 'dismissed' WHERE id = 'a'; COMMIT");
    await slow.end();
    expect((await work).map(({ event }) => event.id)).toEqual(['b']);
    expect(await scene.row('policy', 'pol_1')).toBeNull();
  });

  it('name the newest number once every change up to it is shown, also one that is committed meanwhile', async () => {
    await scene.show('vendor', 'v1', { id: 'v1', name: 'before' });
    const slow = await rawClient();
    await slow.query('BEGIN; LOCK TABLE counter; UPDATE counter SET value = value + 1');
    await slow.query("UPDATE vendors SET name = 'after'");
    const asked = scene.store.feed();
    await untilWaiting();
    await slow.query('COMMIT');
    await slow.end();
    expect((await asked).newest).toBe(await scene.store.currentNumber());
    expect((await scene.store.list('records', { kind: 'vendor', limit: 1 })).items).toMatchObject([
      { name: 'after' },
    ]);
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
    expect((await other.list('changes', { oldestFirst: true, after: 0, limit: 10 })).items).toEqual([]);
    await slow.query(
      `INSERT INTO changes (seq, kind, record_id, operation, before, after, data, cause, at)
       VALUES ($1, 'vendor', 'v', 'insert', '{}', '{}', '{}', 'test', now())`,
      [number],
    );
    await slow.query('UPDATE counter SET value = $1', [number]);
    await slow.query('COMMIT');
    await slow.end();
    expect(await work).toHaveLength(2);
    const changes = (await other.list('changes', { oldestFirst: true, after: 0, limit: 10 })).items;
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
        const page = (
          await reader.list('changes', { oldestFirst: true, after: followed.at(-1)?.seq ?? 0, limit: 7 })
        ).items;
        followed.push(...page);
        if (last && page.length === 0) return;
      }
    })();
    await Promise.all(
      writers.map(async (store, place) => {
        for (let n = 0; n < 25; n += 1) {
          const began = { number: await store.currentNumber(), beganAt: scene.now().steady };
          const objects = [0, 1, 2].map((k) => ({ id: `r${place}_${k}`, json: `{"name":"${n}"}` }));
          await acceptAt(store, scene.event({ recordId: `e${n % 5}`, shows: { name: `${place} ${n}` } }));
          await store.processPending({ limit: 3, rules: scene.rules(), retryDelaysMs: [] }, scene.now());
          scene.pass(SETTLE_MS);
          await store.applyReads(
            'vendor',
            objects,
            scene.endRead({ ...began, beganAt: scene.now().steady }),
            {
              cause: { cause: 'refetch', causeId: null } as const,
              syncRunId: null,
              timing: TIMING,
              pointers: scene.rules().pointers,
            },
          );
        }
      }),
    );
    writing = false;
    await follower;
    expect(followed.length).toBeGreaterThan(200);
    const all: ChangeReport[] = [];
    for (
      let page = (await reader.list('changes', { oldestFirst: true, after: 0, limit: 500 })).items;
      page.length > 0;
    ) {
      all.push(...page);
      page = (await reader.list('changes', { oldestFirst: true, after: all.at(-1)!.seq, limit: 500 })).items;
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
    // Each then waits for the other.
    await rival.query(COUNTER_ONCE_SOMEBODY_WAITS);
    await rival.query('COMMIT');
    await rival.end();
    expect(await write).toMatchObject({ outcome: 'updated' });
    expect((await scene.row('policy', 'p'))?.name).toBe('Two');
  });

  it('try a transaction again that the server could not serialise, and give up in the end', async () => {
    // What a sequence has given out it does not take back: so many tries fail, and then no more.
    const failing = (tries: number) =>
      scene.query(`CREATE SEQUENCE tried; CREATE FUNCTION fail_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('tried') <= ${tries} THEN RAISE SQLSTATE '40001' USING MESSAGE = 'could not serialize'; END IF;
        RETURN new; END $$; CREATE TRIGGER fail_first BEFORE INSERT ON problems FOR EACH ROW EXECUTE FUNCTION fail_first()`);
    const resolve = () => scene.query('DROP FUNCTION fail_first CASCADE; DROP SEQUENCE tried');
    const open = () =>
      scene.store.openProblem({ reason: 'downtime', kind: null, recordId: null }, null, scene.now());
    const problems = () => scene.query('SELECT reason FROM problems');
    await failing(3);
    try {
      await open();
      expect(await problems()).toHaveLength(1);
      expect((await scene.query('SELECT last_value::int AS tries FROM tried'))[0]?.['tries']).toBe(4);
      await scene.query('DELETE FROM problems; DROP FUNCTION fail_first CASCADE; DROP SEQUENCE tried');
      await failing(1_000);
      await expect(open()).rejects.toMatchObject({
        code: 'store_unavailable',
        retryable: true,
        message: expect.stringContaining('40001'),
      });
      expect(await problems()).toEqual([]);
    } finally {
      await resolve();
    }
  });

  it('prolong a lease while a unit of the worker takes long', async () => {
    const { store } = scene;
    const lease = (await store.takeLease('worker', 'a', LEASE_MS, scene.now().steady))!;
    const slow = await rawClient();
    await slow.query('BEGIN; SELECT value FROM counter FOR UPDATE');
    const unit = store.underLease(lease).interruptSyncRuns(scene.now());
    await untilWaiting();
    expect(await store.takeLease('worker', 'a', LEASE_MS, scene.now().steady)).toEqual(lease);
    await slow.query('COMMIT');
    await slow.end();
    await unit;
  });
});
