import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { UNKNOWN_STATE } from '../../src/mirror/decide.ts';
import { openStore } from '../../src/store/open.ts';
import { createArrivals } from '../../src/store/sqlite/events.ts';
import { createBusyRecords, RECORDS_KEPT } from '../../src/store/sqlite/records.ts';
import type { LoadedRecord } from '../../src/store/units/records.ts';
import { createScene, type Scene, SETTLE_MS } from './scene.ts';

/** A scene over a file, and another program's connection to it. */
async function shared(): Promise<{ scene: Scene; other: Database.Database }> {
  const folder = await mkdtemp(join(tmpdir(), 'mirror-busy-'));
  const path = join(folder, 'mirror.db');
  const store = await openStore(`file:${path}`);
  const other = new Database(path);
  const scene = await createScene(async () => ({
    store,
    query: async (sql) => other.prepare(sql).all() as Record<string, unknown>[],
    close: () => store.close(),
  }));
  onTestFinished(async () => {
    other.close();
    await scene.close();
    await rm(folder, { recursive: true, force: true });
  });
  return { scene, other };
}

const dataOf = async (scene: Scene) => (await scene.row('policy', 'pol_1'))?.data;

async function shown(scene: Scene, shows: Record<string, unknown>): Promise<void> {
  scene.pass(1_000);
  await scene.accept(scene.event({ shows: shows as never }));
  await scene.work({ eventsOnly: true });
}

it('an event is laid over what another program has written since the last one', async () => {
  const { scene, other } = await shared();
  await shown(scene, { name: 'one', owner: 'a' });
  await shown(scene, { name: 'two' });
  other.exec(`UPDATE policies SET data = json_set(data, '$.owner', 'edited')`);
  await shown(scene, { name: 'three' });
  expect(await dataOf(scene)).toMatchObject({ name: 'three', owner: 'edited' });
});

it('an event is laid over what the API has shown since the last one', async () => {
  const { scene } = await shared();
  await shown(scene, { name: 'one', owner: 'a' });
  // After SETTLE: before, what an event has shown stays.
  scene.pass(SETTLE_MS);
  await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'read', owner: 'as read' });
  await shown(scene, { name: 'two' });
  expect(await dataOf(scene)).toMatchObject({ name: 'two', owner: 'as read' });
});

it('an event that was rolled back leaves nothing behind for the next', async () => {
  const { scene } = await shared();
  await shown(scene, { name: 'one' });
  scene.pass(1_000);
  const broken = { ...scene.event({ recordId: 'pol_2' }), body: 'no JSON' };
  await scene.accept(scene.event({ shows: { name: 'two' } }), broken);
  const claimed = await scene.claim();
  const rules = scene.rules({ eventsOnly: true });
  await expect(scene.store.applyEvents(claimed, rules, scene.now())).rejects.toThrow();
  const [alone] = await scene.store.applyEvents(claimed.slice(0, 1), rules, scene.now());
  expect(alone).toMatchObject({ outcome: 'provisional' });
  expect(await dataOf(scene)).toMatchObject({ name: 'two' });
  expect((await scene.changes()).at(-1)).toMatchObject({ record_id: 'pol_1', after: { name: 'two' } });
});

it('an event refused by its commit leaves its number to another, and its payload is not taken for that one', async () => {
  const { scene, other } = await shared();
  other.exec(`CREATE TRIGGER refuses BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'refused'); END`);
  const lost = { ...scene.event({ shows: { name: 'lost' } }), data: { policyId: 'pol_1', name: 'lost' } };
  await expect(scene.accept(lost)).rejects.toThrow();
  other.exec('DROP TRIGGER refuses');
  await shown(scene, { name: 'kept' });
  expect(await dataOf(scene)).toMatchObject({ name: 'kept' });
});

it('an event is laid over a document that has become too large to be kept', async () => {
  const { scene } = await shared();
  await shown(scene, { name: 'one', note: 'short' });
  const note = 'x'.repeat(10_000);
  await shown(scene, { name: 'two', note });
  await shown(scene, { name: 'three' });
  await shown(scene, { owner: 'a' });
  expect(await dataOf(scene)).toMatchObject({ name: 'three', note, owner: 'a' });
});

describe('what is kept in memory', () => {
  it('is a bounded number of records, of which the oldest go, and none with a large document or an earlier form of it', () => {
    const busy = createBusyRecords(new Database(':memory:'));
    const held = (id: string): LoadedRecord => ({
      kind: 'vendor',
      id,
      state: { ...UNKNOWN_STATE },
      row: null,
      stored: null,
      storedRow: null,
      error: null,
      syncRunId: null,
      written: false,
    });
    busy.keep(held('small'), 500);
    expect(busy.get('vendor', 'small')).toMatchObject({ id: 'small', stored: UNKNOWN_STATE });
    busy.keep(held('large'), 100_000);
    busy.keep(held('small'), 100_000);
    expect([busy.get('vendor', 'large'), busy.get('vendor', 'small')]).toEqual([undefined, undefined]);

    const ids = Array.from({ length: RECORDS_KEPT + 2 }, (_, nth) => `ven_${nth}`);
    for (const id of ids) busy.keep(held(id), 500);
    busy.keep(held(ids.at(-1)!), 500);
    expect(ids.filter((id) => busy.get('vendor', id) === undefined)).toEqual(['ven_0', 'ven_1']);
  });

  it('is of events no more than a few megabytes, however large they are, until some are shown', () => {
    const arrivals = createArrivals();
    let serial = 0;
    const arrive = (bytes: number) => {
      serial += 1;
      const body = 'x'.repeat(bytes);
      const event = { id: `evt_${serial}`, type: 'vendor.updated', created: '', createdMs: 0, known: true };
      const about = { kind: 'vendor' as const, recordId: 'ven_1', body, data: {}, t: '' };
      arrivals.accepted([{ ...event, ...about }], [{ status: 'accepted', seq: serial }], 0);
      return serial;
    };
    const large = Array.from({ length: 20 }, () => arrive(2 ** 20));
    const held = large.filter((seq) => arrivals.get(seq) !== undefined);
    expect(held.length).toBeGreaterThan(0);
    expect(held.length).toBeLessThan(10);

    for (const seq of [...held, ...held, ...large]) arrivals.forget(seq);
    const again = Array.from({ length: 20 }, () => arrive(2 ** 20));
    expect(again.filter((seq) => arrivals.get(seq) !== undefined)).toHaveLength(held.length);
  });
});
