import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DEFAULT_ID_POINTERS } from '../../src/compliance/pointers.ts';
import { StoreUnavailable, UsageError } from '../../src/platform/errors.ts';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent, ProblemKey, Store } from '../../src/store/store.ts';
import { freshPath } from './folder.ts';
import { createScene } from './scene.ts';

const NOW = { wall: Date.parse('2026-11-01T12:00:00Z'), steady: 1_000 };
const TIMING = { settleMs: 10_000 };
const TURN = {
  limit: 1,
  retryDelaysMs: [],
  rules: {
    pointers: DEFAULT_ID_POINTERS,
    eventsOnly: false,
    toleranceMs: 1,
    guardPercent: 20,
    timing: TIMING,
  },
};
const SILENCE: ProblemKey = { reason: 'silence', kind: null, recordId: null };
const DOWNTIME: ProblemKey = { reason: 'downtime', kind: null, recordId: null };

function event(id: string): IncomingEvent {
  return {
    id,
    type: 'policy.updated',
    created: '2026-11-01T12:00:00Z',
    createdMs: NOW.wall,
    t: '1',
    kind: 'policy',
    recordId: `pol of ${id}`,
    known: true,
    body: '{}',
  };
}
const accept = (store: Store, id: string) => store.accept({ events: [event(id)], unusable: [] }, NOW, TIMING);

async function opened(path: string, lost: (error: Error) => void = () => undefined): Promise<Store> {
  const store = await openStore(`file:${path}`, { inThread: { onLost: lost } });
  onTestFinished(() => store.close());
  return store;
}

describe('a store in threads of its own', () => {
  it('answers once the commit is made', async () => {
    const path = freshPath();
    const store = await opened(path);
    const other = new Database(path, { readonly: true });
    onTestFinished(() => void other.close());
    const count = other.prepare('SELECT count(*) FROM events').pluck();
    for (let n = 1; n <= 50; n += 1) {
      await accept(store, `${n}`);
      expect(count.get()).toBe(n);
      // So does whoever reads by the other thread.
      expect(await store.show('deliveries', `${n}`)).toMatchObject({ state: 'pending' });
    }
  });

  it('tells of problems in the order of commits, and before their verbs resolve', async () => {
    const store = await opened(freshPath());
    const seen: string[] = [];
    store.watchProblems(({ problem, what }) => seen.push(`${problem.reason} ${what}`));
    const noting = (what: string, verb: Promise<unknown>) => verb.then(() => seen.push(what));
    await Promise.all([
      noting('one', store.openProblem(SILENCE, null, NOW)),
      noting('two', store.openProblem(DOWNTIME, null, NOW)),
      noting('three', store.endProblem(SILENCE, NOW)),
      noting('four', store.openProblem(DOWNTIME, null, NOW)),
    ]);
    expect(seen).toEqual([
      ...['silence opened', 'one', 'downtime opened', 'two', 'silence resolved', 'three', 'four'],
    ]);
  });

  it('does what waits for it one whole unit after the other, deliveries first, all others as they came', async () => {
    const path = freshPath();
    const store = await opened(path);
    const other = new Database(path);
    onTestFinished(() => void other.close());
    const seen: string[] = [];
    const noting = (what: string, verb: Promise<unknown>) => verb.then(() => seen.push(what));
    // It is at the first one for as long as the file is held, and everything else has come by then.
    other.exec('BEGIN IMMEDIATE');
    const asked = [
      noting('first', accept(store, 'first')),
      noting('sync', store.makeDue('vendor', ['v'], NOW)),
      noting('processing', store.processPending(TURN, NOW)),
      noting('operator', store.writeFact('x', 'y')),
      noting('delivery', accept(store, 'second')),
      noting('rejection', store.recordRejections([])),
      noting('probe', store.checkWritable()),
    ];
    other.exec('ROLLBACK');
    await Promise.all(asked);
    expect(seen).toEqual(['first', 'delivery', 'rejection', 'probe', 'sync', 'processing', 'operator']);
  });

  it('lets another program see a unit whole, or nothing of it: a group of deliveries, and a page of a full sync', async () => {
    const path = freshPath();
    const store = await opened(path);
    const scene = await createScene(async () => ({ store, query: async () => [], close: store.close }));
    const other = new Database(path, { readonly: true });
    onTestFinished(() => void other.close());
    const looking = async (sql: string, unit: Promise<unknown>) => {
      const count = other.prepare(sql).pluck();
      const seen = new Set<unknown>();
      let isOver = false;
      void unit.finally(() => {
        isOver = true;
      });
      while (!isOver) {
        seen.add(count.get());
        await setImmediate();
      }
      await unit;
      seen.add(count.get());
      return [...seen].filter((each) => each !== 0);
    };
    const numbers = Array.from({ length: 300 }, (_, n) => n);
    const group = numbers.map((n) => scene.event({ recordId: `pol_${n}` }));
    expect(await looking('SELECT count(*) FROM events', scene.accept(...group))).toEqual([300]);
    const page = numbers.map((n) => ({ id: `v${n}`, data: { vendorId: `v${n}`, name: `vendor ${n}` } }));
    const written = 'SELECT (SELECT count(*) FROM vendors) + (SELECT count(*) FROM changes)';
    expect(await looking(written, scene.apply('vendor', page))).toEqual([600]);
  });

  it('reports one moment of the file, however much is written meanwhile', async () => {
    const path = freshPath();
    const store = await opened(path);
    const scene = await createScene(async () => ({ store, query: async () => [], close: store.close }));
    let isOver = false;
    const writing = (async () => {
      while (!isOver) {
        await scene.accept(scene.event());
        await scene.work();
      }
    })();
    const moments = new Set<string>();
    // Until both have been seen: which of them a thousand looks meet is up to the machine.
    for (let n = 0; n < 1_000 || moments.size < 2; n += 1) {
      const { events, oldest_pending_at } = await store.summary();
      moments.add(`${events.pending} waiting, the oldest ${oldest_pending_at === null ? 'none' : 'one'}`);
    }
    isOver = true;
    await writing;
    expect([...moments].sort()).toEqual(['0 waiting, the oldest none', '1 waiting, the oldest one']);
  });

  it('rejects a verb whose problems could not be told', async () => {
    const store = await opened(freshPath());
    store.watchProblems(() => {
      throw new Error('not now');
    });
    await expect(store.openProblem(SILENCE, null, NOW)).rejects.toThrow('not now');
    await store.currentNumber();
  });

  it('is refused as it would be without them', async () => {
    const garbage = freshPath();
    writeFileSync(garbage, 'This was a shopping list. '.repeat(400));
    await expect(opened(garbage)).rejects.toMatchObject({ name: 'StoreUnavailable', fatal: true });
    await expect(opened(garbage)).rejects.toBeInstanceOf(StoreUnavailable);

    const newer = freshPath();
    await (await openStore(`file:${newer}`)).close();
    const db = new Database(newer);
    db.exec("INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('of the future', 9999999999999)");
    db.close();
    await expect(opened(newer)).rejects.toThrow(UsageError);
    await expect(opened(newer)).rejects.toMatchObject({
      remedy: expect.stringContaining('restore the backup'),
    });
  });

  it('keeps its lock on the file, so that another program that closes it does not remove the log', async () => {
    const path = freshPath();
    const store = await opened(path);
    await accept(store, '1');
    // The thread for reports has opened the file, too.
    expect(await store.show('deliveries', '1')).toMatchObject({ state: 'pending' });
    // So does setup, beside the service that it runs: its commands open the file and close it.
    for (const readOnly of [true, false]) await (await openStore(`file:${path}`, { readOnly })).close();
    const alone = `const db = new (require('better-sqlite3'))(${JSON.stringify(path)}, { timeout: 0 });
      db.pragma('locking_mode = EXCLUSIVE');
      try { db.exec('SELECT id FROM events'); } catch (error) { console.log(error.code); }`;
    expect(execFileSync(process.execPath, ['-e', alone], { encoding: 'utf8' })).toBe('SQLITE_BUSY\n');
  });

  it('says that another program holds the file, and works again once it lets go', async () => {
    const path = freshPath();
    const store = await opened(path);
    const other = new Database(path);
    onTestFinished(() => void other.close());
    other.exec('BEGIN IMMEDIATE');
    await expect(accept(store, 'a')).rejects.toMatchObject({ name: 'StoreUnavailable', fatal: false });
    // Reading needs nobody's leave.
    expect(await store.show('deliveries', 'a')).toBeNull();
    other.exec('ROLLBACK');
    await store.checkWritable();
    expect(await accept(store, 'a')).toEqual([{ status: 'accepted', seq: 1 }]);
  });

  it('says why a file could not be opened, and ends', async () => {
    const thread = new URL('../../src/store/sqlite/thread.ts', import.meta.url);
    const worker = new Worker(thread, { workerData: { storeFile: { path: freshPath(), isReader: true } } });
    onTestFinished(async () => void (await worker.terminate()));
    const came: unknown[] = [];
    worker.on('message', (answer) => came.push(answer));
    worker.postMessage({ id: 1, verb: 'summary', args: [] });
    expect(await once(worker, 'exit')).toEqual([0]);
    expect(came).toMatchObject([{ what: 'not opened', error: { fields: { name: 'UsageError' } } }]);
  });
});
