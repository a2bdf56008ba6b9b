import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/compliance/pointers.ts';
import type { FieldLook } from '../../../src/store/store.ts';
import { IS_FULL } from '../../support/full.ts';
import { anyText } from '../../support/texts.ts';
import { inScene, type OpenEngine, type Scene } from '../scene.ts';
import { beat } from './status.ts';
import { storyOn } from './story.ts';

/** Histories tried: each opens a database of its own. */
const RUNS = IS_FULL ? 25 : 8;

/** As the service does, to the end. */
async function learn({ store }: Pick<Scene, 'store'>, limit = 100) {
  let look: FieldLook | null = null;
  do look = await store.seeFields(look, limit);
  while (!look.isOver);
  return await store.learnFields(look);
}

const COLUMNS = `SELECT "column", path, type FROM fields WHERE kind = 'vendor' ORDER BY position`;

/** The vendors, by their ids and what only their view has. */
async function typed(scene: Scene, at?: string): Promise<{ [column: string]: unknown }[]> {
  const { items, columns } = await scene.store.list('records', {
    kind: 'vendor',
    typed: true,
    at,
    limit: 99,
  });
  const own = ['id', ...columns];
  return items.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => own.includes(name))));
}

export function describeFields(open: OpenEngine): void {
  const story = storyOn(open);
  describe('typed columns', () => {
    story('are none at first, and the views can be asked all the same', async ({ query, show, store }) => {
      await show('policy', 'p1', { policyId: 'p1', name: 'Access', version: '1.2', status: 'draft' });
      expect(await query('SELECT id, name, version, status, cause FROM policies_flat')).toEqual([
        { id: 'p1', name: 'Access', version: '1.2', status: 'draft', cause: 'refetch' },
      ]);
      expect(await query('SELECT id, name, status FROM risk_assessments_flat')).toEqual([]);
      expect(await query('SELECT id, name, status FROM vendors_flat')).toEqual([]);
      expect(await store.seeFields(null, 10)).toMatchObject({ isOver: true });
    });

    story('hold what records show, each in its type, of what is alive', async (scene) => {
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
      const tags = JSON.parse(String(row?.['tags'])) as unknown;
      expect({ ...row, tags, assessed_at: Date.parse(String(row?.['assessed_at'])) }).toEqual({
        assessed_at: Date.UTC(2026, 10, 1, 10),
        contract_ends: '2027-01-31',
        order: 'first',
        owner_name: 'Ann',
        tags: ['x', 'y'],
      });
      expect(await query('SELECT id, score, tags FROM vendors_flat WHERE NOT is_critical')).toEqual([
        { id: 'v2', score: null, tags: null },
      ]);
      await scene.accept(scene.event({ type: 'vendor.removed', kind: 'vendor', recordId: 'v2', shows: {} }));
      await scene.work({ eventsOnly: true });
      expect(await query('SELECT id FROM vendors_flat')).toEqual([{ id: 'v1' }]);
    });

    story('come from what a read has confirmed: what only an event has said gets none', async (scene) => {
      const columns = () =>
        scene.query(`SELECT "column" FROM fields WHERE kind = 'vendor' ORDER BY position`);
      await scene.accept(
        scene.event({ kind: 'vendor', recordId: 'v1', shows: { name: 'A', tier: 1 } }),
        scene.event({ kind: 'vendor', recordId: 'v2', shows: { name: 'B', zone: 'x' } }),
      );
      await scene.work();
      const { store } = scene;
      let look = await store.seeFields(null, 100);
      expect([look.seen, look.waiting.map(({ id }) => id)]).toEqual([[], ['v1', 'v2']]);
      scene.pass(60_000);
      // Confirmed as it is, so that no change says so; and another one than the event has shown.
      const [v1] = await scene.query("SELECT data FROM vendors WHERE id = 'v1'");
      await scene.show(
        'vendor',
        'v1',
        store.engine === 'sqlite' ? JSON.parse(String(v1!['data'])) : v1!['data'],
      );
      await scene.show('vendor', 'v2', { id: 'v2', name: 'B', seats: 2 });
      expect(await scene.query("SELECT cause FROM vendors WHERE id = 'v1'")).toEqual([{ cause: 'event' }]);
      look = await store.seeFields(look, 100);
      await store.learnFields(look);
      expect(await columns()).toEqual([{ column: 'seats' }, { column: 'tier' }, { column: 'vendor_id' }]);
      expect(await learn(scene)).toEqual([]);
      // From what was learned on: what was looked at is not looked at again, by another process either.
      if (scene.canReopen) await scene.reopen();
      const counted = await scene.query('SELECT max(seq) AS last FROM changes');
      expect(await scene.store.seeFields(null, 10)).toMatchObject({
        through: counted[0]!['last'],
        seen: [],
        isOver: true,
      });
    });

    story('come from what events say where there is no API', async (scene) => {
      await beat(scene, { eventsOnly: true });
      await scene.accept(scene.event({ kind: 'vendor', recordId: 'v1', shows: { name: 'A', tier: 1 } }));
      await scene.work({ eventsOnly: true });
      await learn(scene);
      expect(await scene.query(COLUMNS)).toMatchObject([{ column: 'tier' }, { column: 'vendor_id' }]);
    });

    story(
      'have in the views the names that `fields` gives them, whatever the fields are called',
      async (scene) => {
        const called = ['true', 'FALSE', 'null', 'select', 'rowid', 'ctid', 'current_user', 'column1'];
        const data = Object.fromEntries(called.map((name) => [name, `is ${name}`]));
        await scene.show('vendor', 'v1', { id: 'v1', ...data });
        await learn(scene);
        const [row] = await scene.query('SELECT * FROM vendors_flat');
        for (const { column, path } of await scene.query(COLUMNS))
          expect(row![String(column)]).toBe(`is ${path}`);
      },
    );

    story('widen without a moment in which a query fails: views on top of ours stay', async (scene) => {
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
    });

    story('show no day and no instant for what is none', async (scene) => {
      await scene.show('vendor', 'v0', { id: 'v0', ends: '2026-01-31', at: '2026-01-31T12:00:00Z' });
      await learn(scene);
      const wrong = [
        { ends: '2026-02-30', at: '2026-02-30T12:00:00Z' },
        { ends: '2026-01-31T12:00:00Z', at: '2026-01-31T12:00:00' },
        { ends: 2_460_000, at: '2026-01-31T24:00:00Z' },
        { ends: 'now', at: '2026-01-31T12:00:00..5Z' },
        { ends: '0000-00-00', at: '0000-00-00' },
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
    });

    it.each<[type: string, values: Record<string, string | null>]>([
      ['date', { '2026-11-01': '2026-11-01', '0000-00-00': null }],
      [
        'timestamp',
        {
          '2026-11-01T00:00:00': '2026-11-01T00:00:00.000000',
          '2026-11-01 10:20:30.5': '2026-11-01T10:20:30.500000',
          '2026-11-02': '2026-11-02T00:00:00.000000',
          '2026-12-31T23:59:59.9999999': '2026-12-31T23:59:59.999999',
          '0000-00-00 00:00:00': null,
        },
      ],
      [
        'instant',
        {
          '2026-11-01': '2026-11-01T00:00:00.000000Z',
          '2026-12-24T00:00:00Z': '2026-12-24T00:00:00.000000Z',
          '2026-11-01T00:00:00.000+0000': '2026-11-01T00:00:00.000000Z',
          '2026-11-01 02:30:00+0530': '2026-10-31T21:00:00.000000Z',
          '2026-11-01 02:30:00-02': '2026-11-01T04:30:00.000000Z',
          '2026-12-31T23:59:59.9999999Z': '2026-12-31T23:59:59.999999Z',
          '9999-12-31T23:59:59.9999999Z': '9999-12-31T23:59:59.999999Z',
          '2026-12-31T23:59:59.9999999-00:01': '2027-01-01T00:00:59.999999Z',
        },
      ],
    ])('of the type %s show what other services write, cut and never rounded', (type, values) =>
      inScene(open, async (scene) => {
        for (const at of Object.keys(values)) await scene.show('vendor', at, { id: at, at });
        await learn(scene);
        expect(await scene.query(COLUMNS)).toEqual([{ column: 'at', path: 'at', type }]);
        const told = await typed(scene);
        expect(Object.fromEntries(told.map(({ id, at }) => [id, at]))).toEqual(values);
      })(),
    );

    story('keep every digit of a number, and are right to compare with', async (scene) => {
      await scene.show('vendor', 'v1', { id: 'v1', code: 1795892039123456789n, ratio: 0.1 });
      await scene.show('vendor', 'v2', { id: 'v2', code: -7, ratio: 2.5 });
      await learn(scene);
      expect(await typed(scene)).toEqual([
        { id: 'v1', code: '1795892039123456789', ratio: 0.1 },
        { id: 'v2', code: -7, ratio: 2.5 },
      ]);
      expect(await scene.query('SELECT id FROM vendors_flat WHERE code > 1795892039123456788')).toEqual([
        { id: 'v1' },
      ]);
    });

    story('are those of each version in the history, deleted records too', async (scene) => {
      await scene.show('vendor', 'v1', { id: 'v1', name: 'Alder', status: 'approved', tier: 1 });
      await scene.show('vendor', 'v2', { id: 'v2', name: 'Birch', status: 'approved', tier: 3 });
      scene.pass(60_000);
      const between = new Date(scene.now().wall).toISOString();
      scene.pass(60_000);
      await scene.show('vendor', 'v1', { id: 'v1', name: 'Alder & Co', status: 'retired', tier: 2 });
      await scene.accept(scene.event({ type: 'vendor.removed', kind: 'vendor', recordId: 'v2', shows: {} }));
      await scene.work({ eventsOnly: true });
      await learn(scene);
      const asOf = (at: string) =>
        scene.query(
          `SELECT id, name, status, tier, operation FROM vendors_history WHERE valid_from <= '${at}' AND (valid_to > '${at}' OR valid_to IS NULL) ORDER BY id`,
        );
      expect(await asOf(between)).toEqual([
        { id: 'v1', name: 'Alder', status: 'approved', tier: 1, operation: 'insert' },
        { id: 'v2', name: 'Birch', status: 'approved', tier: 3, operation: 'insert' },
      ]);
      expect(await asOf('2999-01-01T00:00:00.000Z')).toEqual([
        { id: 'v1', name: 'Alder & Co', status: 'retired', tier: 2, operation: 'update' },
        { id: 'v2', name: 'Birch', status: 'approved', tier: 3, operation: 'delete' },
      ]);
      const listed = async (at: string, deleted?: boolean) =>
        (await scene.store.list('records', { kind: 'vendor', at, deleted, limit: 10 })).items.map(
          ({ id, name }) => [id, name],
        );
      expect(await listed(between)).toEqual([
        ['v1', 'Alder'],
        ['v2', 'Birch'],
      ]);
      expect(await listed('2999-01-01T00:00:00.000Z')).toEqual([['v1', 'Alder & Co']]);
      expect(await listed('2999-01-01T00:00:00.000Z', true)).toEqual([['v2', 'Birch']]);
      expect(await typed(scene, between)).toEqual([
        { id: 'v1', tier: 1 },
        { id: 'v2', tier: 3 },
      ]);
      expect(await typed(scene)).toEqual([{ id: 'v1', tier: 2 }, { id: 'v2' }]);
      expect((await scene.store.feed()).begins).toBe(new Date(scene.now().wall - 120_000).toISOString());
    });

    story('end a version when the next one of the record begins, also of two in one unit', async (scene) => {
      for (const id of ['v1', 'v2']) await scene.show('vendor', id, { id, name: 'Alder' });
      for (const name of ['Birch', 'Cedar', 'Cedar', 'Elm']) {
        scene.pass(2_000);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'v1', shows: { name } }));
      }
      await scene.work();
      scene.pass(60_000);
      await scene.show('vendor', 'v1', { id: 'v1', name: 'Fir' });
      const versions = await scene.query(
        `SELECT id, name, valid_to, lead(valid_from) OVER (PARTITION BY id ORDER BY seq) AS next FROM vendors_history ORDER BY seq`,
      );
      expect(versions.map(({ id, name }) => `${id} ${name}`)).toEqual([
        'v1 Alder',
        'v2 Alder',
        'v1 Birch',
        'v1 Cedar',
        'v1 Elm',
        'v1 Fir',
      ]);
      for (const version of versions) expect(version['valid_to']).toEqual(version['next']);
    });

    story('are the same whether changes are looked at one by one or together', async (scene) => {
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
    });

    story(
      'are looked for in so much at a time as takes a moment, however large records are',
      async (scene) => {
        for (let n = 0; n < 5; n += 1)
          await scene.show('vendor', `v${n}`, { id: `v${n}`, [`field${n}`]: 'x'.repeat(100_000) });
        let look = await scene.store.seeFields(null, 100);
        expect([look.seen.length, look.isOver]).toEqual([3, false]);
        look = await scene.store.seeFields(look, 100);
        expect([look.seen.length, look.isOver]).toEqual([5, true]);
      },
    );

    it('show every value as it is in data, whatever the names and the values; and none breaks a query', async () => {
      const key = fc.oneof(
        anyText({ maxLength: 12 }),
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
        anyText({ maxLength: 8 }),
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
          '0000-00-00',
          '2026-11-01 10:20:30',
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
          inScene(open, async (scene) => {
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
                if (
                  held === null ||
                  ((held === '' || held === '0000-00-00') && type !== 'text' && type !== 'json')
                )
                  expect(told).toBeNull();
                else if (type === 'text' && typeof held === 'string')
                  expect(isHostile(held) || told === held).toBe(true);
                else if (type === 'number' && typeof held === 'number')
                  expect(Object.is(told, held) || told === held).toBe(true);
                else if (type === 'boolean' && typeof held === 'boolean') expect(Boolean(told)).toBe(held);
                else if (
                  (type === 'date' || type === 'instant' || type === 'timestamp') &&
                  typeof held === 'string'
                )
                  expect(isPassed || told !== null).toBe(true);
                else if (type === 'json') expect(told).not.toBeNull();
              }
            }
          })(),
        ),
        { numRuns: RUNS },
      );
    });

    story(
      'show half of a surrogate pair as text that strict readers take, and leave what only looks like it',
      async (scene) => {
        await scene.show('vendor', 'v1', { id: 'v1', cut: 'so \ud83d', path: 'C:\\ud83d' });
        await learn(scene);
        const [row] = await scene.query('SELECT cut, path FROM vendors_flat');
        // What stands for bytes that are no UTF-8.
        expect(row!['cut']).not.toContain('\uFFFD');
        expect(row!['cut']).toContain('so ');
        expect(row!['path']).toBe('C:\\ud83d');
      },
    );

    story('go when a setting says so; those behind them move up', async (scene) => {
      const { store, query } = scene;
      const none = { policy: [], risk_assessment: [], vendor: [] };
      await scene.show('vendor', 'v1', { id: 'v1', first: 1, link: { url: 'x', at: 'y' }, last: 'z' });
      await learn(scene);
      const forget = () => store.forgetFields('vendor', [['link']]);
      expect(await store.forgetFields('vendor', [])).toBe(0);
      expect(await store.forgetFields('policy', [['link']])).toBe(0);
      await query('CREATE VIEW mine AS SELECT id, last FROM vendors_flat');
      const isInUse = store.engine === 'postgres';
      expect(await forget()).toBe(isInUse ? null : 2);
      await query('DROP VIEW mine');
      expect(await forget()).toBe(isInUse ? 2 : 0);
      expect(await query(COLUMNS)).toMatchObject([{ column: 'first' }, { column: 'last' }]);
      for (const view of ['vendors_flat', 'vendors_history'])
        expect(await query(`SELECT first, last FROM ${view}`)).toEqual([{ first: 1, last: 'z' }]);
      // It is not learned again.
      scene.pass(60_000);
      await scene.show('vendor', 'v1', { id: 'v1', first: 2, link: { url: 'z', at: 'y' }, seats: 3 });
      const look = await store.seeFields(null, 100, { ...none, vendor: [['link']] });
      expect(look.seen.map(({ keys }) => keys)).toEqual([['seats']]);
    });

    story('are as many as a view can have, of a record with any number of fields', async (scene) => {
      const data = Object.fromEntries(
        Array.from({ length: 600 }, (_, n) => [`${'"\''.repeat(40)}${n}`, `${n}`]),
      );
      await scene.show('vendor', 'v1', { ...data, id: 'v1' });
      await learn(scene);
      const [row] = await scene.query('SELECT * FROM vendors_flat');
      expect(Object.keys(row!).length).toBe(513);
      expect(await scene.query('SELECT count(*) AS count FROM fields')).toEqual([{ count: 501 }]);
      expect(await scene.query('SELECT position FROM fields WHERE "column" IS NULL')).toEqual([
        { position: 501 },
      ]);
    });
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
