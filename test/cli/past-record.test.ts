import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { recordAt, recordsAt } from '../../src/cli/records.ts';
import type { JsonObject } from '../../src/compliance/pointers.ts';
import { apiHere, createApi } from '../../src/ops/api/app.ts';
import type { ApiClient } from '../../src/ops/api/client.ts';
import type { ApiContext } from '../../src/ops/context.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { createScene, isoOf, type Scene } from '../store/scene.ts';

async function scene(): Promise<Scene> {
  return await createScene(async () => {
    const store = await openStore(':memory:');
    return { store, query: async () => [], close: () => store.close() };
  });
}

/** Reading needs nothing of a service but its store. */
function apiOf({ store }: Scene): ApiClient {
  const signal = new AbortController().signal;
  const unused = { operations: {} as never, snapshots: {} as never };
  const context = { store, clock: systemClock(), signal } as unknown as ApiContext;
  return apiHere(createApi(context, unused), 'test');
}

const fields = fc.dictionary(
  fc.constantFrom('name', 'version', 'status', 'owner', '__proto__'),
  fc.oneof(fc.string({ maxLength: 3 }), fc.constant(null), fc.jsonValue({ maxDepth: 1 })),
  { maxKeys: 4 },
);
const step = fc.record({ verb: fc.constantFrom('read', 'read', 'event', 'absent'), n: fc.nat(2), fields });

it('the history tells of any instant what each record was then', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 15 }), async (history) => {
      const story = await scene();
      try {
        const pages: { at: string; rows: JsonObject[] }[] = [{ at: isoOf(story.now().wall - 1), rows: [] }];
        for (const { verb, n, fields: shows } of history) {
          const recordId = `p${n}`;
          if (verb === 'read') await story.show('policy', recordId, shows as JsonObject);
          if (verb === 'event') {
            await story.accept(story.event({ recordId, shows: shows as JsonObject }));
            await story.work();
          }
          if (verb === 'absent') await story.conclude('policy', { absent: [recordId] });
          const { items: held } = await story.store.listRecords('policy', {}, { limit: 10 });
          const rows = held.map(({ id, name, version, status, data, deleted_at }) => ({
            id,
            name,
            version,
            status,
            data,
            deleted_at,
          }));
          pages.push({ at: isoOf(story.now().wall), rows });
          story.pass(20_000);
        }
        for (const { at, rows } of pages) {
          const first = await recordsAt(apiOf(story), 'policy', at, { limit: 2 });
          expect(first.items).toEqual(rows.slice(0, 2));
          const all = await recordsAt(apiOf(story), 'policy', at, { limit: 9 });
          expect(all).toEqual({ items: rows, next: null });
        }
      } finally {
        await story.close();
      }
    }),
    { numRuns: 40 },
  );
});

it('what was trimmed is said to be gone, and not made up', async () => {
  const story = await scene();
  onTestFinished(() => story.close());
  await story.show('vendor', 'v1', { name: 'One' });
  const then = isoOf(story.now().wall);
  story.pass(20_000);
  await story.show('vendor', 'v1', { name: 'Two' });
  await story.store.trim('changes', {
    before: story.now().wall + 1,
    now: story.now().wall + 1,
    after: 0,
    limit: 10,
  });
  await expect(recordsAt(apiOf(story), 'vendor', then, { limit: 5 })).rejects.toThrow(/kept since/);
  const now = isoOf(story.now().wall);
  const { items } = await recordsAt(apiOf(story), 'vendor', now, { limit: 5 });
  expect(items).toMatchObject([{ name: 'Two' }]);
});

it('only the deleted are listed where those are asked for', async () => {
  const story = await scene();
  onTestFinished(() => story.close());
  for (const id of ['a', 'b', 'c', 'd']) await story.show('vendor', id, { name: id });
  await story.conclude('vendor', { absent: ['b'] });
  const now = isoOf(story.now().wall);
  const { items: gone } = await recordsAt(apiOf(story), 'vendor', now, { limit: 1, deleted: true });
  expect(gone.map((record) => record.id)).toEqual(['b']);
});

it('a record was not there before its insertion, and after it needs no change taken back', async () => {
  const story = await scene();
  onTestFinished(() => story.close());
  await story.show('vendor', 'v', { name: 'One' });
  const row = (await story.row('vendor', 'v'))!;
  const changes = await story.changes();
  expect(recordAt(row, changes, isoOf(story.now().wall - 1))).toBeNull();
  expect(recordAt(row, [], isoOf(story.now().wall))).toMatchObject({ id: 'v', name: 'One' });
});

it('of many records few come at once, with how far they go, since each needs its history', async () => {
  const story = await scene();
  onTestFinished(() => story.close());
  const ids = Array.from({ length: 60 }, (_, n) => `v${n + 10}`);
  for (const id of ids) await story.show('vendor', id, { name: id });
  const now = isoOf(story.now().wall);
  const found: string[] = [];
  let after: string | undefined;
  do {
    const { items, next, searched_to } = await recordsAt(apiOf(story), 'vendor', now, { limit: 500, after });
    found.push(...items.map(({ id }) => id));
    expect(items.length).toBeLessThan(30);
    if (next !== null) expect(searched_to).toBe(found.at(-1));
    after = next ?? undefined;
  } while (after !== undefined);
  expect(found).toEqual(ids);
});
