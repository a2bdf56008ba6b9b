import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/compliance/pointers.ts';
import type { FieldLook } from '../../../src/store/store.ts';
import { createScene, type OpenEngine, type Scene } from '../scene.ts';

/** Histories tried: each opens a database of its own. */
const RUNS = 25;

/** As the service does, to the end. */
async function learn({ store }: Pick<Scene, 'store'>, limit = 100) {
  let look: FieldLook | null = null;
  do look = await store.seeFields(look, limit);
  while (!look.isOver);
  return await store.learnFields(look);
}

async function withScene(open: OpenEngine, story: (scene: Scene) => Promise<void>): Promise<void> {
  const scene = await createScene(open);
  try {
    await story(scene);
  } finally {
    await scene.close();
  }
}

const COLUMNS = `SELECT "column", path, type FROM fields WHERE kind = 'vendor' ORDER BY position`;

export function describeFields(open: OpenEngine): void {
  describe('typed columns', () => {
    it('are none at first, and the views can be asked all the same', () =>
      withScene(open, async ({ query, show, store }) => {
        await show('policy', 'p1', { policyId: 'p1', name: 'Access', version: '1.2', status: 'draft' });
        expect(await query('SELECT id, name, version, status, cause FROM policies_flat')).toEqual([
          { id: 'p1', name: 'Access', version: '1.2', status: 'draft', cause: 'refetch' },
        ]);
        expect(await query('SELECT id, name, status FROM risk_assessments_flat')).toEqual([]);
        expect(await query('SELECT id, name, status FROM vendors_flat')).toEqual([]);
        expect(await store.seeFields(null, 10)).toMatchObject({ isOver: true });
      }));

    it('hold what records show, each in its type, of what is alive', () =>
      withScene(open, async (scene) => {
        const { query, show } = scene;
        const shown = {
          id: 'v1',
          name: 'Alder',
          tier: 2,
          score: 7.5,
          isCritical: true,
          contractEnds: '2027-01-31',
          assessedAt: '2026-11-01T12:00:00+02:00',
          owner: { name: 'Ann', teams: ['a'] },
          order: 'first',
          tags: ['x', 'y'],
          nothing: null,
        };
        await show('vendor', 'v1', shown);
        await show('vendor', 'v2', { id: 'v2', name: 'Birch', tier: 3, isCritical: false });
        await learn(scene);
        expect(await query(COLUMNS)).toEqual([
          { column: 'assessed_at', path: 'assessedAt', type: 'instant' },
          { column: 'contract_ends', path: 'contractEnds', type: 'date' },
          { column: 'is_critical', path: 'isCritical', type: 'boolean' },
          { column: 'order', path: 'order', type: 'text' },
          { column: 'owner_name', path: 'owner.name', type: 'text' },
          { column: 'owner_teams', path: 'owner.teams', type: 'json' },
          { column: 'score', path: 'score', type: 'number' },
          { column: 'tags', path: 'tags', type: 'json' },
          { column: 'tier', path: 'tier', type: 'number' },
        ]);
        const [row] = await query(
          `SELECT assessed_at, CAST(contract_ends AS text) AS contract_ends, "order", owner_name, CAST(tags AS text) AS tags
           FROM vendors_flat WHERE is_critical AND tier + score = 9.5 AND contract_ends < '2027-02-01'`,
        );
        expect({ ...row, tags: JSON.parse(String(row?.['tags'])) }).toEqual({
          assessed_at: '2026-11-01T10:00:00.000Z',
          contract_ends: '2027-01-31',
          order: 'first',
          owner_name: 'Ann',
          tags: ['x', 'y'],
        });
        expect(await query('SELECT id, score, tags FROM vendors_flat WHERE NOT is_critical')).toEqual([
          { id: 'v2', score: null, tags: null },
        ]);
        await scene.accept(
          scene.event({ type: 'vendor.removed', kind: 'vendor', recordId: 'v2', shows: {} }),
        );
        await scene.work({ eventsOnly: true });
        expect(await query('SELECT id FROM vendors_flat')).toEqual([{ id: 'v1' }]);
      }));

    it('come from what events show as well, once, and are dated by the change that showed them', () =>
      withScene(open, async (scene) => {
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'v1', shows: { name: 'A', tier: 1 } }));
        await scene.work();
        const before = await scene.query('SELECT at FROM changes');
        scene.pass(60_000);
        const learned = await learn(scene);
        expect(learned.map(({ kind, column, firstSeenAt }) => [kind, column, firstSeenAt])).toEqual([
          ['vendor', 'tier', before[0]!['at']],
          ['vendor', 'vendor_id', before[0]!['at']],
        ]);
        expect(await learn(scene)).toEqual([]);
        // From what was learned on: what was looked at is not looked at again, by another process either.
        if (scene.canReopen) await scene.reopen();
        const counted = await scene.query('SELECT max(seq) AS last FROM changes');
        expect(await scene.store.seeFields(null, 10)).toEqual({
          through: counted[0]!['last'],
          seen: [],
          isOver: true,
        });
      }));

    it('have in the views the names that `fields` gives them, whatever the fields are called', () =>
      withScene(open, async (scene) => {
        const called = ['true', 'FALSE', 'null', 'select', 'rowid', 'ctid', 'current_user', 'column1'];
        const data = Object.fromEntries(called.map((name) => [name, `is ${name}`]));
        await scene.show('vendor', 'v1', { id: 'v1', ...data });
        await learn(scene);
        const [row] = await scene.query('SELECT * FROM vendors_flat');
        for (const { column, path } of await scene.query(COLUMNS))
          expect(row![String(column)]).toBe(`is ${path}`);
      }));

    it('widen without a moment in which a query fails: views on top of ours stay', () =>
      withScene(open, async (scene) => {
        const { query, show } = scene;
        await show('vendor', 'v1', { id: 'v1', tier: 1, last: 'x' });
        await learn(scene);
        await query('CREATE VIEW mine AS SELECT id, tier FROM vendors_flat');
        await show('vendor', 'v2', { id: 'v2', tier: 'two' });
        // Between two looks: what does not fit is null.
        expect(await query('SELECT id, tier FROM vendors_flat ORDER BY id')).toEqual([
          { id: 'v1', tier: 1 },
          { id: 'v2', tier: null },
        ]);
        await learn(scene);
        expect(await query('SELECT id, tier, tier_number, last FROM vendors_flat ORDER BY id')).toEqual([
          { id: 'v1', tier: '1', tier_number: 1, last: 'x' },
          { id: 'v2', tier: 'two', tier_number: null, last: null },
        ]);
        expect((await query('SELECT * FROM mine ORDER BY id')).length).toBe(2);
        expect(await query(COLUMNS)).toEqual([
          { column: 'last', path: 'last', type: 'text' },
          { column: 'tier_number', path: 'tier', type: 'number' },
          { column: 'tier', path: 'tier', type: 'text' },
        ]);
        await query('DROP VIEW mine');
      }));

    it('show no day and no instant for what is none', () =>
      withScene(open, async (scene) => {
        await scene.show('vendor', 'v0', { id: 'v0', ends: '2026-01-31', at: '2026-01-31T12:00:00Z' });
        await learn(scene);
        const wrong = [
          { ends: '2026-02-30', at: '2026-02-30T12:00:00Z' },
          { ends: '2026-01-31T12:00:00Z', at: '2026-01-31T12:00:00' },
          { ends: 2_460_000, at: '2026-01-31T24:00:00Z' },
          { ends: 'now', at: '2026-01-31' },
        ];
        for (const [nth, data] of wrong.entries())
          await scene.show('vendor', `v${nth + 1}`, { ...data, id: `v${nth + 1}` });
        const nothing = wrong.map(() => ({ ends: null, at: null }));
        const told = (columns: string) =>
          scene.query(`SELECT ${columns} FROM vendors_flat WHERE id > 'v0' ORDER BY id`);
        expect(await told('ends, at')).toEqual(nothing);
        await learn(scene);
        expect(await told('ends_date AS ends, at_instant AS at')).toEqual(nothing);
        expect(await told('ends, at')).toEqual(wrong.map(({ ends, at }) => ({ ends: `${ends}`, at })));
      }));

    it('are the same whether changes are looked at one by one or together', () =>
      withScene(open, async (scene) => {
        for (let n = 0; n < 5; n += 1)
          await scene.show('vendor', `v${n}`, {
            id: `v${n}`,
            [`field${n % 3}`]: n,
            ['owner-name']: 'x',
            ownerName: 1,
          });
        const { store } = scene;
        const together = await store.seeFields(null, 100);
        let look: FieldLook | null = null;
        do look = await store.seeFields(look, 1);
        while (!look.isOver);
        expect(look).toEqual({ ...together });
        expect(look.seen.map(({ keys }) => keys[0])).toEqual([
          'field0',
          'owner-name',
          'ownerName',
          'field1',
          'field2',
        ]);
      }));

    it('are looked for in so much at a time as takes a moment, however large records are', () =>
      withScene(open, async (scene) => {
        for (let n = 0; n < 5; n += 1)
          await scene.show('vendor', `v${n}`, { id: `v${n}`, [`field${n}`]: 'x'.repeat(100_000) });
        let look = await scene.store.seeFields(null, 100);
        expect([look.seen.length, look.isOver]).toEqual([3, false]);
        look = await scene.store.seeFields(look, 100);
        expect([look.seen.length, look.isOver]).toEqual([5, true]);
      }));

    it('show every value as it is in data, whatever the names and the values; and none breaks a query', async () => {
      const key = fc.oneof(
        fc.string({ unit: 'binary', maxLength: 12 }),
        fc.constantFrom(
          'a',
          'a.b',
          'A',
          "it's",
          '"',
          '\\',
          '$',
          '*',
          '[0]',
          '%s',
          '__proto__',
          'select',
          'é',
          '0',
          'x'.repeat(99),
          'a\u0000b',
        ),
      );
      const scalar = fc.oneof(
        fc.double(),
        fc.integer(),
        fc.string({ unit: 'binary', maxLength: 8 }),
        fc.boolean(),
        fc.constant(null),
        fc.constantFrom(
          '2026-11-01',
          '2024-02-29',
          '2026-02-30',
          '0000-01-01',
          '9999-12-31T23:59:59.999999999-14:00',
          '9999-12-31T23:59:59.999999999Z',
          'now',
        ),
        fc.constantFrom(
          '0001-01-01T00:00:00+14:59',
          '2026-11-01T12:00:00.5Z',
          '2026-11-01T12:00:60Z',
          '1',
          '',
        ),
      );
      const value = fc.oneof(
        scalar,
        fc.dictionary(key, scalar, { maxKeys: 3 }),
        fc.array(scalar, { maxLength: 2 }),
      );
      const record = fc.dictionary(key, value, { maxKeys: 6 }) as fc.Arbitrary<JsonObject>;
      await fc.assert(
        fc.asyncProperty(fc.array(record, { minLength: 1, maxLength: 4 }), fc.boolean(), (records, atOnce) =>
          withScene(open, async (scene) => {
            for (const [nth, data] of records.entries()) {
              await scene.show('vendor', `v${nth}`, { ...data, id: `v${nth}` });
              if (!atOnce) {
                expect((await scene.query('SELECT * FROM vendors_flat')).length).toBe(nth + 1);
                await learn(scene);
              }
            }
            await learn(scene);
            const rows = await scene.query('SELECT * FROM vendors_flat ORDER BY id');
            expect(rows.length).toBe(records.length);
            const fields = await scene.query(
              `SELECT "column", type, keys FROM fields WHERE kind = 'vendor' ORDER BY position`,
            );
            for (const [nth, { column, type, keys }] of fields.entries()) {
              // Its field has another column by now, with room for what did not fit here.
              const isPassed = fields.slice(nth + 1).some((later) => isDeepStrictEqual(later['keys'], keys));
              const path = (typeof keys === 'string' ? JSON.parse(keys) : keys) as string[];
              for (const [nth, data] of records.entries()) {
                if (isHiddenByNul(data, path)) continue;
                const held = path.reduce<unknown>(
                  (at, name) => (isObject(at) && Object.hasOwn(at, name) ? at[name] : null),
                  data,
                );
                const told = rows[nth]![String(column)] ?? null;
                if (held === null || (held === '' && type !== 'text' && type !== 'json'))
                  expect(told).toBeNull();
                else if (type === 'text' && typeof held === 'string')
                  expect(isHostile(held) || told === held).toBe(true);
                else if (type === 'number' && typeof held === 'number')
                  expect(Object.is(told, held) || told === held).toBe(true);
                else if (type === 'boolean' && typeof held === 'boolean') expect(Boolean(told)).toBe(held);
                else if ((type === 'date' || type === 'instant') && typeof held === 'string')
                  expect(isPassed || told !== null).toBe(true);
                else if (type === 'json') expect(told).not.toBeNull();
              }
            }
          }),
        ),
        { numRuns: RUNS },
      );
    });

    it('show half of a surrogate pair as text that strict readers take, and leave what only looks like it', () =>
      withScene(open, async (scene) => {
        await scene.show('vendor', 'v1', { id: 'v1', cut: 'so \ud83d', path: 'C:\\ud83d' });
        await learn(scene);
        const [row] = await scene.query('SELECT cut, path FROM vendors_flat');
        // What stands for bytes that are no UTF-8.
        expect(row!['cut']).not.toContain('\uFFFD');
        expect(row!['cut']).toContain('so ');
        expect(row!['path']).toBe('C:\\ud83d');
      }));

    it('are as many as a view can have, of a record with any number of fields', () =>
      withScene(open, async (scene) => {
        const data = Object.fromEntries(
          Array.from({ length: 2_000 }, (_, n) => [`${'"\''.repeat(40)}${n}`, `${n}`]),
        );
        await scene.show('vendor', 'v1', { ...data, id: 'v1' });
        await learn(scene);
        const [row] = await scene.query('SELECT * FROM vendors_flat');
        expect(Object.keys(row!).length).toBe(511);
        expect(await scene.query('SELECT count(*) AS count FROM fields')).toEqual([{ count: 501 }]);
        expect(await scene.query('SELECT position FROM fields WHERE "column" IS NULL')).toEqual([
          { position: 501 },
        ]);
      }));
  });
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What PostgreSQL stores as an escape, and SQLite's text ends at. */
const isHostile = (text: string) => !text.isWellFormed() || /[\u0000\u0001]/.test(text);

/** SQLite reads a name in `data` up to its first NUL: one that begins as another can stand in its place. */
const isHiddenByNul = (data: JsonObject, [name = '', ...rest]: readonly string[]): boolean =>
  Object.keys(data).some((key) => key.startsWith(`${name}\u0000`)) ||
  (rest.length > 0 && isObject(data[name]) && isHiddenByNul(data[name], rest));
