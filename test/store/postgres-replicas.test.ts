import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { contentHashOf } from '../../src/compliance/json.ts';
import { openPostgres } from '../../src/store/postgres/postgres.ts';
import type { ChangeReport } from '../../src/store/reports.ts';
import type { Store } from '../../src/store/store.ts';
import { createTestDatabase, type TestDatabase } from '../postgres/database.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { createScene, isoOf, LEASE_MS, type Scene, SETTLE_MS, TIMING } from './scene.ts';

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
    expect((await scene.store.summary()).events).toMatchObject({ pending: events.length, ignored: 0 });
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
         WHERE schemaname = 'public' AND relname IN ('events', 'trimmed_events', 'policies')`,
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

  it('accept again what the server ended for a deadlock', async () => {
    await scene.accept(scene.event({ id: 'a', recordId: 'p' }));
    const rival = await rawClient();
    await rival.query("SET deadlock_timeout = '30s'");
    await rival.query('BEGIN');
    await rival.query("UPDATE record_state SET attempts = 7 WHERE id = 'p'");
    const accepting = scene.accept(scene.event({ id: 'b', recordId: 'p' }));
    await rival.query(COUNTER_ONCE_SOMEBODY_WAITS);
    await rival.query('COMMIT');
    await rival.end();
    expect(await accepting).toMatchObject([{ status: 'accepted' }]);
    expect(await scene.query('SELECT id FROM events ORDER BY seq')).toEqual([{ id: 'a' }, { id: 'b' }]);
  });

  it('claim few events of large records at a time, since all others wait until their rows are written', async () => {
    const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    for (const id of ids) await scene.show('vendor', id, { id, notes: 'x'.repeat(1_000_000) });
    await scene.accept(...ids.map((id) => scene.event({ id, kind: 'vendor', recordId: id })));
    const claimed = async () => (await scene.claim()).map(({ id }) => id);
    expect(await claimed()).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(await claimed()).toEqual(['f', 'g']);
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
          const outcomes = await store.applyEvents(claimed, scene.rules(), scene.now());
          expect(outcomes).toHaveLength(claimed.length);
        }
      }),
    );
    expect(seen.sort()).toEqual(ids(events).sort());
    expect((await scene.store.summary()).events).toMatchObject({ pending: 0, processed: events.length });
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
    expect(await scene.store.applyEvents(lost, scene.rules(), scene.now())).toEqual([]);
    await scene.store.releaseEvents(lost);
    expect(await other.applyEvents(taken, scene.rules(), scene.now())).toMatchObject([
      { outcome: 'provisional' },
    ]);
  });

  it('keep their claims while another starts, and give them back when they end', async () => {
    await scene.accept(scene.event({ id: 'a' }));
    expect(ids(await claimAt(scene.store, 'me'))).toEqual(['a']);
    const other = await replica();
    await other.recoverClaims();
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

  it('claim the events of a record in order, also while a redelivery of the first is being counted', async () => {
    await scene.accept(scene.event({ id: 'a' }), scene.event({ id: 'b' }));
    const counting = await rawClient();
    await counting.query("BEGIN; UPDATE events SET deliveries = deliveries + 1 WHERE id = 'a'");
    const claimed = await claimAt(scene.store, 'me');
    await counting.query('COMMIT');
    await counting.end();
    expect(ids(claimed)).toEqual(['a', 'b']);
  });

  it('do not claim an event that is being discarded', async () => {
    await scene.accept(scene.event({ id: 'a' }), scene.event({ id: 'b' }));
    const discarding = await rawClient();
    await discarding.query("BEGIN; SELECT 1 FROM events WHERE id = 'a' FOR UPDATE");
    await discarding.query("UPDATE events SET state = 'discarded' WHERE id = 'a'");
    const claimed = await claimAt(scene.store, 'me');
    await discarding.query('COMMIT');
    await discarding.end();
    expect(ids(claimed)).toEqual(['b']);
  });

  it('claim in turn by a lock that nobody can hold without rights to the tables', async () => {
    await scene.accept(scene.event({ id: 'a' }));
    const slow = await rawClient();
    await slow.query('BEGIN; LOCK TABLE claims');
    const claiming = claimAt(scene.store, 'me');
    await untilWaiting();
    expect(await database.query("SELECT * FROM pg_locks WHERE locktype = 'advisory'")).toEqual([]);
    await slow.query('ROLLBACK');
    await slow.end();
    expect(ids(await claiming)).toEqual(['a']);
  });

  it('show in a snapshot every change up to its number, also one that is committed while it is taken', async () => {
    await scene.show('vendor', 'v1', { id: 'v1', name: 'before' });
    const slow = await rawClient();
    await slow.query('BEGIN; LOCK TABLE counter; UPDATE counter SET value = value + 1');
    await slow.query("UPDATE vendors SET name = 'after'");
    const snapshot = scene.store.snapshotRecords('vendor', { limit: 1 });
    await untilWaiting();
    await slow.query('COMMIT');
    await slow.end();
    const { seq, records } = await snapshot;
    expect(seq).toBe(await scene.store.currentNumber());
    expect(records).toMatchObject([{ name: 'after' }]);
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
          await store.applyEvents(await claimAt(store, `${place} ${n}`, 3), scene.rules(), scene.now());
          scene.pass(SETTLE_MS);
          await store.applyReads(
            'vendor',
            objects,
            scene.endRead({ ...began, beganAt: scene.now().steady }),
            { cause: 'refetch', syncRunId: null, timing: TIMING, pointers: scene.rules().pointers },
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
        RETURN new; END $$; CREATE TRIGGER fail_first BEFORE INSERT ON gaps FOR EACH ROW EXECUTE FUNCTION fail_first()`);
    const resolve = () => scene.query('DROP FUNCTION fail_first CASCADE; DROP SEQUENCE tried');
    const open = () =>
      scene.store.openGap({ reason: 'downtime', kind: null, recordId: null }, null, scene.now());
    const gaps = () => scene.query('SELECT reason FROM gaps');
    await failing(3);
    try {
      await open();
      expect(await gaps()).toHaveLength(1);
      expect((await scene.query('SELECT last_value::int AS tries FROM tried'))[0]?.['tries']).toBe(4);
      await scene.query('DELETE FROM gaps; DROP FUNCTION fail_first CASCADE; DROP SEQUENCE tried');
      await failing(1_000);
      await expect(open()).rejects.toMatchObject({
        code: 'store_unavailable',
        retryable: true,
        message: expect.stringContaining('40001'),
      });
      expect(await gaps()).toEqual([]);
    } finally {
      await resolve();
    }
  });

  it('start beside others without moving what is due, and lay it anew where nobody has served for long', async () => {
    await scene.store.beat(scene.now(), {
      eventsOnly: false,
      settleMs: SETTLE_MS,
      fullSyncMs: 0,
      unreachable: false,
      access: 'key',
    });
    await scene.accept(scene.event({ kind: 'vendor', recordId: 'v' }));
    const due = scene.now().steady + SETTLE_MS;
    scene.pass(SETTLE_MS / 2);
    const other = await replica();
    expect(await other.markUnverifiedDirty(scene.now(), TIMING)).toBe(0);
    expect(await other.nextDueAt('vendor')).toBe(due);
    scene.pass(3_600_000);
    expect(await other.markUnverifiedDirty(scene.now(), TIMING)).toBe(1);
    expect(await other.nextDueAt('vendor')).toBe(scene.now().steady + SETTLE_MS);
  });

  it('take back what a clock ahead of theirs has noted, so that no record waits for it', async () => {
    await scene.store.beat(scene.now(), {
      eventsOnly: false,
      settleMs: SETTLE_MS,
      fullSyncMs: 0,
      unreachable: false,
      access: 'key',
    });
    const ahead = { ...scene.now(), steady: scene.now().steady + 86_400_000 };
    await scene.store.accept(
      { events: [scene.event({ kind: 'vendor', recordId: 'v' })], unusable: [] },
      ahead,
      TIMING,
    );
    const other = await replica();
    expect(await other.markUnverifiedDirty(scene.now(), TIMING)).toBe(1);
    scene.pass(SETTLE_MS);
    expect(await other.dueRecords('vendor', scene.now(), TIMING, 5)).toMatchObject([{ id: 'v' }]);
  });

  it('prolong a lease while the holder of another is in the middle of a unit that needs its own', async () => {
    const [a, b] = [scene.store, await replica()];
    await a.takeLease('backfill', 'a', LEASE_MS, scene.now());
    await a.takeLease('retention', 'a', LEASE_MS, scene.now());
    const unit = await rawClient();
    await unit.query('BEGIN');
    await unit.query("SELECT 1 FROM leases WHERE name = 'backfill' FOR SHARE");
    const waiting = [
      a.takeLease('backfill', 'a', LEASE_MS, scene.now()),
      b.takeLease('backfill', 'b', LEASE_MS, scene.now()),
    ];
    await untilWaiting(2);
    expect(await a.takeLease('retention', 'a', LEASE_MS, scene.now())).toMatchObject({ fence: 1 });
    await unit.query('COMMIT');
    await unit.end();
    expect(await Promise.all(waiting)).toMatchObject([{ owner: 'a', fence: 1 }, null]);
  });
});
