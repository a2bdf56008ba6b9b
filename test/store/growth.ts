import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { retentionTasks } from '../../src/service/upkeep.ts';
import type { IncomingEvent, ProvisionalRules, Store } from '../../src/store/store.ts';
import { dueOf, fullSyncsOf, workNow } from './planner.ts';

/**
 * What a piece of work costs where ten times as much is stored, by what it does and not by how long it takes. `npm run bench`
 * has the same in time, at larger sizes.
 */

export interface Stored {
  /** Events stored, and about as many records and changes. */
  size: number;
  store: Store;
  /** By hand. */
  sql(text: string): Promise<unknown>;
  /** What `work` asks of the engine; where that can be, nothing is in memory as it begins. */
  costOf(work: () => Promise<unknown>): Promise<Cost>;
  close(): Promise<void>;
}

interface Cost {
  statements: number;
  pages: number;
}

const TIMING = { settleMs: 10_000 };
const POINTERS = { policy: ['id'], risk_assessment: ['id'], vendor: ['id'] };
const RULES: ProvisionalRules = {
  eventsOnly: false,
  toleranceMs: 300_000,
  guardPercent: 20,
  pointers: POINTERS,
  timing: TIMING,
};
const NOW = { wall: Date.parse('2027-01-01T00:00:00Z'), steady: 1_000_000 };
const LATER = { wall: NOW.wall + 60_000, steady: NOW.steady + 60_000 };
/** Fewer than leaves of the smaller trees, so that each finds one of its own in either. */
const FEW = 16;

/** Ids of vendors that are alive, as far apart as they stand; others for each `n`. */
const vendorsOf = (size: number, n: number) =>
  Array.from({ length: FEW }, (_, at) => {
    const apart = Math.floor(size / 3 / FEW / 50) * 50;
    return `ven_${String(at * apart + 1 + n).padStart(7, '0')}`;
  });

function eventAbout(recordId: string): IncomingEvent {
  const id = `evt_of_${recordId}`;
  const data = { id: recordId, name: `Of ${recordId}`, status: 'draft' };
  const created = '2026-12-31T23:59:59Z';
  return {
    id,
    type: 'vendor.updated',
    created,
    createdMs: Date.parse(created),
    t: '1',
    kind: 'vendor',
    recordId,
    known: true,
    body: JSON.stringify({ id, type: 'vendor.updated', created, data }),
  };
}

export async function process(store: Store): Promise<number> {
  const { outcomes } = await store.processPending({ limit: FEW, rules: RULES, retryDelaysMs: [] }, NOW);
  return outcomes.length;
}

async function read(store: Store, ids: readonly string[], data: (id: string) => Record<string, unknown>) {
  const syncRun = await store.startSyncRun('vendor', 'manual', NOW);
  const moment = { beganAt: LATER.steady, endedAt: LATER.steady, endedWall: LATER.wall };
  const applied = await store.applyReads(
    'vendor',
    ids.map((id) => ({ id, json: JSON.stringify({ id, ...data(id) }) })),
    { number: syncRun.number, ...moment },
    {
      cause: { cause: 'sync', causeId: String(syncRun.id) },
      syncRunId: syncRun.id,
      timing: TIMING,
      pointers: POINTERS,
    },
  );
  const progress = { pages: 1, seen: FEW, inserted: 0, updated: 0, deleted: 0, unchanged: FEW };
  await store.progressSyncRun(syncRun.id, progress);
  const end = {
    outcome: 'complete',
    error: null,
    progress,
    differences: {},
    hasDifferences: false,
  } as const;
  await store.finishSyncRun(syncRun.id, end, LATER);
  return applied;
}

const pageOf = (page: number) => Array.from({ length: 100 }, (_, at) => `ven_${page * 100 + at}`);

/** Reads a page of 100 vendors, as a list shows them. */
export const listPage = (store: Store, page: number) =>
  read(store, pageOf(page), (id) => ({ name: `Vendor ${id}`, status: 'active' }));

export const acceptAbout = (store: Store, ids: readonly string[]) =>
  store.accept({ events: ids.map(eventAbout), unusable: [] }, NOW, TIMING);

/** Accepts an event about each vendor of a page. */
export const acceptSome = (store: Store, page: number) => acceptAbout(store, pageOf(page));

/** Reads a page of vendors as the events of \`acceptSome\` have shown them. */
export const readShown = (store: Store, page: number) =>
  read(store, pageOf(page), (id) => ({ name: `Of ${id}`, status: 'draft' }));

interface Scale {
  /** Events stored. */
  sizes: readonly [small: number, large: number];
  /** Pages in the larger one to those in the smaller one. */
  most: number;
}

export function describeGrowth(
  engine: string,
  open: (size: number) => Promise<Stored>,
  { sizes, most }: Scale,
): void {
  const stored: Stored[] = [];

  beforeAll(async () => {
    for (const size of sizes) stored.push(await open(size));
  });
  afterAll(async () => {
    for (const { close } of stored) await close();
  });

  /** The second time: the first one, a server's connection reads what it has to know of the tables. */
  async function expectFlat(work: (at: Stored, time: number) => Promise<unknown>) {
    const costs: Cost[] = [];
    for (const at of stored) {
      await work(at, 0);
      costs.push(await at.costOf(() => work(at, 1)));
    }
    const [small, large] = costs as [Cost, Cost];
    expect(small.statements).toBeGreaterThan(0);
    expect(large.statements).toBe(small.statements);
    expect(large.pages, `of ${small.pages} pages`).toBeLessThanOrEqual(most * small.pages);
  }

  describe(`with ten times as much stored, it costs ${engine} the same`, () => {
    it('to take in, show and verify the first events about new records', () =>
      expectFlat(async ({ store }, time) => {
        const ids = Array.from({ length: FEW }, (_, at) => `ven_new_${time}_${at}`);
        await store.accept({ events: ids.map(eventAbout), unusable: [] }, NOW, TIMING);
        expect(await process(store)).toBe(FEW);
        const applied = await read(store, ids, () => ({ name: 'As read', status: 'approved' }));
        expect(new Set(applied.map(({ verified }) => verified))).toEqual(new Set([true]));
      }));

    it('to take in and show events about known records', () =>
      expectFlat(async ({ store, size }, time) => {
        const ids = vendorsOf(size, time);
        await store.accept({ events: ids.map(eventAbout), unusable: [] }, NOW, TIMING);
        expect(await process(store)).toBe(FEW);
        await read(store, ids, (id) => ({ name: `Of ${id}`, status: 'draft' }));
      }));

    it('to read a page of unchanged records in a full sync', () =>
      expectFlat(async ({ store, size }, time) => {
        const applied = await read(store, vendorsOf(size, 2 + time), (id) => ({
          name: `vendor ${Number(id.slice(4))}`,
          status: 'approved',
        }));
        expect(new Set(applied.map(({ outcome }) => outcome))).toEqual(new Set(['unchanged']));
      }));

    it('to plan and to end a full sync while the whole mirror has a problem', () =>
      expectFlat(async ({ store }) => {
        await store.openProblem({ reason: 'downtime', kind: null, recordId: null }, null, NOW);
        expect(await fullSyncsOf(store, NOW)).toContain('vendor');
        await read(store, [], () => ({}));
        expect(await fullSyncsOf(store, NOW)).not.toContain('vendor');
      }));

    it('to ask for due assessments while a full sync reads all that are known by their ids only', () =>
      expectFlat(async ({ store, size }, time) => {
        const ids = Array.from({ length: size }, (_, n) => `ra_known_${n}`);
        if (time === 0) await store.makeKnown('risk_assessment', ids, NOW);
        const running = { timing: TIMING, isRunning: true };
        expect(await dueOf(store, 'risk_assessment', LATER, running)).toEqual([]);
      }));

    const settings = { bodyDays: 1, historyDays: 1 };
    const things = retentionTasks(settings).map(({ thing }) => thing);
    // Events are spread over an index by record, so each may be on a page of its own.
    const growing = things.filter((thing) => thing !== 'events');
    it.each(growing)('to trim a few old ones: %s', (thing) =>
      expectFlat(async ({ store }) => {
        const step = { before: NOW.wall, now: NOW.wall, after: 0, limit: 200 };
        expect((await store.trim(thing, step)).trimmed).toBeGreaterThan(0);
      }),
    );

    it('to look for what one record went through', async () => {
      const looks = [
        ({ store }: Stored) =>
          store.list('changes', { kind: 'vendor', record_id: 'ven_0000003', limit: 100 }),
        ({ store }: Stored) =>
          store.list('changes', {
            kind: 'vendor',
            record_id: 'ven_0000003',
            limit: 100,
            after: '0',
            oldestFirst: true,
          }),
        ({ store }: Stored) => store.list('deliveries', { record_id: 'ven_0000003', limit: 100 }),
      ];
      for (const look of looks) await expectFlat(look);
    });
  });

  describe(`with ten times as many that wait, it costs ${engine} the same`, () => {
    it('to work off a batch of events', async () => {
      for (const { sql } of stored) {
        await sql(`UPDATE events SET state = 'pending', processed_at = NULL,
          body = '{"id":"' || id || '","type":"vendor.updated","data":{"id":"' || record_id || '","name":"Shown"}}'`);
      }
      await expectFlat(async ({ store }) => {
        expect(await process(store)).toBe(FEW);
      });
    });

    it('to list problems and full syncs, and to tell what is due', async () => {
      const since = "unverified_since = '2026-12-31T00:00:00.000Z'";
      const run = 'kind, reason, started_at, number, began_at';
      for (const { sql } of stored) {
        // Long ago a last one was complete, and long before that a record was read.
        for (const outcome of ['complete', 'incomplete'])
          await sql(
            `INSERT INTO sync_runs (${run}, finished_at, outcome) SELECT ${run}, '2027-01-01T00:00:00.000Z', '${outcome}' FROM sync_runs`,
          );
        await sql(`UPDATE record_state SET ${since}, dirty_at = 1, first_dirty_at = 1, due_at = 1`);
        for (const table of ['policies', 'risk_assessments', 'vendors'])
          await sql(`UPDATE ${table} SET ${since}`);
      }
      await expectFlat(async ({ store }) => {
        await store.list('problems', { open: true, limit: 200 });
        await store.list('sync_runs', { limit: 8 });
        await workNow(store, NOW, { timing: TIMING });
        await store.lastDelivery(1_000);
      });
    });
  });
}
