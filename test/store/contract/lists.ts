import { describe, expect, it } from 'vitest';
import type { RecordFilter, RecordOrder } from '../../../src/store/reports.ts';
import { inScene, isoOf, type OpenEngine } from '../scene.ts';

export function describeLists(open: OpenEngine): void {
  describe('long lists', () => {
    it(
      'of a search go on where the page before ended, among ids and then among names, without a repeat',
      inScene(open, async (scene) => {
        const names: Record<string, string> = {
          ac_2: 'Zed ac',
          ac_1: 'acorn',
          b: 'ACME',
          c: 'acme',
          d: 'Acre',
          e: 'ac',
          f: 'Bac',
          g: 'a bac',
        };
        await scene.apply(
          'vendor',
          Object.entries(names).map(([id, name]) => ({ id, data: { id, name } })),
        );
        for (const limit of [1, 2, 3, 10]) {
          const found: string[] = [];
          for (let after: string | undefined; ; ) {
            const page = await scene.store.listRecords('vendor', { search: 'ac' }, { limit, after });
            found.push(...page.items.map((row) => row.id));
            expect(page.items.length).toBeLessThanOrEqual(limit);
            if (page.next === null) break;
            after = page.next;
          }
          expect(found, `pages of ${limit}`).toEqual(['ac_1', 'ac_2', 'e', 'b', 'c', 'd', 'g', 'f']);
        }
        await scene.show('vendor', 'other', { id: 'other', name: 'Other' });
        for (const id of ['ac_2', 'c', 'd', 'f', 'other']) {
          await scene.accept(scene.event({ kind: 'vendor', recordId: id }));
        }
        const filter = { search: 'ac', unverified: true };
        const first = await scene.store.listRecords('vendor', filter, { limit: 2 });
        const after = first.next ?? undefined;
        const second = await scene.store.listRecords('vendor', filter, { limit: 3, after });
        expect([first, second].map(({ items }) => items.map((row) => row.id))).toEqual([
          ['ac_2', 'c'],
          ['d', 'f'],
        ]);
      }),
    );

    it.each([
      { name: 'Acme', search: 'ac', renamed: 'AAA' },
      // Too long for the cursor.
      { name: `Ac${'m'.repeat(100)}`, search: 'AC', renamed: 'aaa' },
    ])(
      'of a search stay within its names where the record that the page before ended at was renamed: $search',
      async ({ name, search, renamed }) => {
        await inScene(open, async (scene) => {
          const named = (id: string, name: string) => ({ id, data: { id, name } });
          await scene.apply('vendor', [named('x', name), named('y', 'Acorn'), named('z', 'Aaron')]);
          const { store } = scene;
          const first = await store.listRecords('vendor', { search }, { limit: 1 });
          expect(first.items).toMatchObject([{ id: 'x' }]);
          scene.pass(60_000);
          await scene.apply('vendor', [named('x', renamed)]);
          const after = first.next ?? undefined;
          const rest = await store.listRecords('vendor', { search }, { limit: 9, after });
          expect(rest.items.map((row) => row.id)).toEqual(['y']);
        })();
      },
    );

    it(
      'of records come in the order of their bytes, whatever the language says of the letters',
      inScene(open, async (scene) => {
        const ids = ['-', 'B', 'Z', '_', 'a', 'b', 'ba', 'z', '\u00e9', '\u{1f4a5}'];
        const shuffled = [...ids].reverse().map((id) => ({ id, data: { id, name: `n${id}` } }));
        await scene.apply('vendor', shuffled);
        const idsOf = ({ items }: { items: readonly { id: string }[] }) => items.map((row) => row.id);
        expect(idsOf(await scene.store.listRecords('vendor', {}, { limit: 20 }))).toEqual(ids);
        expect(idsOf(await scene.store.listRecords('vendor', {}, { limit: 3, after: '0.Z' }))).toEqual([
          ...['_', 'a', 'b'],
        ]);
        expect((await scene.store.knownIds('vendor', '_', 3)).map(({ id }) => id)).toEqual(['a', 'b', 'ba']);
        // By name: letters of ASCII in either case are one, then bytes.
        expect(idsOf(await scene.store.listRecords('vendor', { search: 'N' }, { limit: 20 }))).toEqual([
          ...['-', '_', 'a', 'B', 'b', 'ba', 'Z', 'z', '\u00e9', '\u{1f4a5}'],
        ]);
      }),
    );

    it(
      'of a search find a name of any length by its beginning, and fold no letter beyond ASCII',
      inScene(open, async (scene) => {
        const long = 'Supplier '.repeat(700);
        const names = { a: `${long}one`, b: `${long}two`, c: '\u00c9clair', d: '\u00e9clair' };
        await scene.apply(
          'vendor',
          Object.entries(names).map(([id, name]) => ({ id, data: { id, name } })),
        );
        const find = async (search: string) =>
          (await scene.store.listRecords('vendor', { search }, { limit: 9 })).items.map((row) => row.id);
        expect(await find('SUPPLIER')).toEqual(['a', 'b']);
        expect(await find(long.toUpperCase())).toEqual(['a', 'b']);
        expect(await find(`${long}TWO`)).toEqual(['b']);
        expect(await find('\u00e9CL')).toEqual(['d']);
      }),
    );

    it(
      'of records are filtered by status and by any field, by its path and its value',
      inScene(open, async (scene) => {
        const all = [
          { id: 'a', status: 'approved', owner: { team: 'Legal' }, score: 3, 'is.open': true },
          {
            id: 'b',
            status: 'draft',
            owner: { team: 'It\u2019s "IT"' },
            score: 3.5,
            note: 'a\u0000b',
            large: 1e21,
          },
          { id: 'c', status: 'approved', owner: 'Legal', score: '3', open: true },
          { id: 'd', owner: { team: null }, tags: ['x', { deep: 1, a: 'y' }] },
        ];
        await scene.apply(
          'vendor',
          all.map((data) => ({ id: data.id, data })),
        );
        const found = async (filter: RecordFilter, order?: RecordOrder) =>
          (await scene.store.listRecords('vendor', filter, { limit: 9, order })).items
            .map(({ id }) => id)
            .join('');
        const field = (path: string, value: string) => found({ field: { path: path.split('/'), value } });
        expect(await found({ status: 'approved' })).toBe('ac');
        expect(await found({ status: 'none' })).toBe('');
        expect(await found({ status: 'approved', search: 'c' })).toBe('c');
        expect(await field('owner/team', 'Legal')).toBe('a');
        expect(await field('owner/team', 'It\u2019s "IT"')).toBe('b');
        expect(await field('owner', 'Legal')).toBe('c');
        expect(await field('score', '3')).toBe('ac');
        expect(await field('open', 'true')).toBe('c');
        expect(await field('owner/team', 'null')).toBe('d');
        expect(await field('tags', '["x",{"deep":1,"a":"y"}]')).toBe('d');
        expect(await field('tags', '["x", {"deep": 1, "a": "y"} ]')).toBe('d');
        expect(await field('tags', '["x",{"a":"y","deep":1}]')).toBe('d');
        expect(await field('tags', '[{"deep":1,"a":"y"},"x"]')).toBe('');
        expect(await field('tags', '["x",{"deep":1}]')).toBe('');
        expect(await field('tags', '["x"')).toBe('');
        expect(await field('note', 'a\u0000b')).toBe('b');
        expect(await field('note', 'a')).toBe('');
        expect(await field('large', '1e+21')).toBe('b');
        expect(await field('nowhere/at/all', 'x')).toBe('');
        expect(await scene.store.listStatuses('vendor')).toEqual([
          { status: 'approved', records: 2 },
          { status: 'draft', records: 1 },
        ]);
        expect(await scene.store.listStatuses('policy')).toEqual([]);
        // No filter takes a longer one, and it may have megabytes.
        await scene.show('vendor', 'e', { id: 'e', status: 'b'.repeat(1_000_000) });
        await scene.show('vendor', 'f', { id: 'f', status: `bb\0${'c'.repeat(1_000_000)}` });
        await scene.show('vendor', 'g', { id: 'g', status: `bb${'\u{1f600}'.repeat(200)}` });
        const listed = await scene.store.listStatuses('vendor');
        expect(listed.every(({ status }) => status.length <= 255)).toBe(true);
        expect(listed.filter(({ status }) => !status.startsWith('bb'))).toHaveLength(2);
        const many = Array.from({ length: 60 }, (_, n) => ({
          id: `s${n}`,
          data: { id: `s${n}`, status: `s${n}` },
        }));
        await scene.apply('vendor', many);
        expect((await scene.store.listStatuses('vendor')).length).toBeLessThanOrEqual(50);
      }),
    );

    it(
      'of records come by id, by name or the last changed first, each once, page by page',
      inScene(open, async (scene) => {
        const names: [string, string?][] = [['a', 'Zed'], ['b', 'acorn'], ['c'], ['d', 'Acme'], ['e'], ['0']];
        for (const [id, name] of names) await scene.show('vendor', id, { id, name });
        await scene.show('policy', 'p', { id: 'p' });
        scene.pass(60_000);
        await scene.show('vendor', 'b', { id: 'b', name: 'Acorn' });
        const walk = async (order: RecordOrder, filter: RecordFilter, limit: number, lookAt?: number) => {
          const ids: string[] = [];
          for (let after: string | undefined; ; ) {
            const page = await scene.store.listRecords('vendor', filter, { limit, after, order, lookAt });
            ids.push(...page.items.map(({ id }) => id));
            if (page.next === null) return ids.join('');
            after = page.next;
          }
        };
        for (const limit of [1, 2, 5, 9]) {
          expect(await walk('id', {}, limit), `pages of ${limit}`).toBe('0abcde');
          expect(await walk('name', {}, limit), `pages of ${limit}`).toBe('dba0ce');
          expect(await walk('changed', {}, limit), `pages of ${limit}`).toBe('b0edca');
          expect(await walk('changed', { search: 'a' }, limit), `pages of ${limit}`).toBe('bda');
          // However few a page looks at, nothing is left out.
          for (const order of ['id', 'name', 'changed'] as const) {
            const [all, some] = [
              await walk(order, { deleted: false }, limit),
              await walk(order, { deleted: false }, limit, 1),
            ];
            expect(some).toBe(all);
          }
          expect(await walk('id', { search: 'o' }, limit, 2)).toBe('b');
        }
      }),
    );

    it(
      'of records by name go on from a place that reorders and hides nothing on a terminal, whatever the names hold',
      inScene(open, async (scene) => {
        for (const mark of ['\u00ad', '\u200b', '\u2028', '\u202e', '\ufeff'])
          await scene.show('vendor', `v-${mark.charCodeAt(0)}`, {
            id: `v-${mark.charCodeAt(0)}`,
            name: `Ann${mark}`,
          });
        for (const limit of [1, 2, 3, 4]) {
          const { next } = await scene.store.listRecords('vendor', {}, { limit, order: 'name' });
          expect(next).toMatch(/^0\.[ -~]+$/);
        }
      }),
    );

    it(
      'of records by name leave out none that keeps its name, whatever becomes of the one at which a page ended',
      inScene(open, async (scene) => {
        const long = 'Very '.repeat(100);
        const names = {
          a: '',
          b: 'Ann',
          c: 'ben',
          d: '7:\u00c9 \ud83d\ude00',
          e: 'x\ty',
          f: `${long}one`,
          g: `${long}two`,
        };
        for (const [id, name] of Object.entries(names)) await scene.show('vendor', id, { id, name });
        const list = (limit: number, after?: string) =>
          scene.store.listRecords('vendor', {}, { limit, after, order: 'name' });
        const all = (await list(9)).items.map(({ id }) => id);
        for (let n = 1; n < all.length; n += 1) {
          const { next } = await list(n);
          // As long as the API takes one, whatever the id.
          expect(next!.length).toBeLessThanOrEqual(107);
          expect((await list(9, next!)).items.map(({ id }) => id)).toEqual(all.slice(n));
        }
        const first = await list(3);
        scene.pass(60_000);
        const last = first.items.at(-1)!.id;
        await scene.show('vendor', last, { id: last, name: 'zz' });
        expect((await list(3, first.next!)).items.map(({ id }) => id)).toEqual(all.slice(3, 6));
      }),
    );

    it(
      'of records say how far they looked, where that is not to the end',
      inScene(open, async (scene) => {
        const ids = Array.from({ length: 7 }, (_, n) => `ven_${n}`);
        await scene.apply(
          'vendor',
          ids.map((id) => ({ id, data: { id, name: `Name ${id}` } })),
        );
        const look = (filter: RecordFilter, after?: string) =>
          scene.store.listRecords('vendor', filter, { limit: 2, lookAt: 5, after });
        const rare = { field: { path: ['name'], value: 'Name ven_6' } };
        expect(await look(rare)).toEqual({ items: [], next: '0.ven_4', searched_to: 'ven_4' });
        const second = await look(rare, '0.ven_4');
        expect(second).toMatchObject({ items: [{ id: 'ven_6' }], next: null, searched_to: null });
        expect(await look({ search: '_6' })).toMatchObject({ items: [], searched_to: 'Name ven_4' });
        expect(await look({})).toMatchObject({ next: '0.ven_1', searched_to: null });
      }),
    );

    it(
      'of pending deletions name each id once, page by page, with its approval',
      inScene(open, async (scene) => {
        for (const id of ['a', 'b', 'c', 'd']) await scene.show('policy', id, { id });
        const { pending } = await scene.conclude('policy', { absent: ['a', 'b', 'c'] });
        expect(pending).toEqual(['a', 'b', 'c']);
        const [waiting] = await scene.store.pendingDeletions(scene.now().wall);
        expect(waiting).toMatchObject({ kind: 'policy', count: 3 });
        const syncRunId = waiting!.sync_run_id;
        const page = async (after?: string) =>
          (await scene.store.listPendingDeletions({ syncRunId }, { limit: 2, after })).map(
            ({ id, approved_until }) => [id, approved_until],
          );
        expect([await page(), await page('policy/b')]).toEqual([
          [
            ['a', null],
            ['b', null],
          ],
          [['c', null]],
        ]);
        const until = scene.now().wall + 1000;
        await scene.store.approveDeletions('policy', ['a', 'b', 'c'], syncRunId, until);
        expect(await page('policy/b')).toEqual([['c', isoOf(until)]]);
        expect(await scene.store.listPendingDeletions({ syncRunId: syncRunId + 1 }, { limit: 2 })).toEqual(
          [],
        );
      }),
    );

    it(
      'of pending deletions have only the beginning of a long name or status',
      inScene(open, async (scene) => {
        const long = 'n'.repeat(100_000);
        await scene.show('vendor', 'a', { id: 'a', name: long, status: long });
        const { id: fullSync } = await scene.store.startSyncRun('vendor', 'test', scene.now());
        await scene.store.addPendingDeletion('vendor', 'a', fullSync, scene.now());
        await scene.show('vendor', 'b', { id: 'b', name: 'one\0two' });
        await scene.store.addPendingDeletion('vendor', 'b', fullSync, scene.now());
        const beginning = 'n'.repeat(1_000);
        expect(await scene.store.listPendingDeletions({}, { limit: 2 })).toMatchObject([
          { id: 'a', name: beginning, status: beginning },
          { id: 'b', name: 'one\0two', status: null },
        ]);
      }),
    );

    it(
      'of the pending deletions of all kinds name each once, page by page, as the record of its kind is called',
      inScene(open, async (scene) => {
        const named: string[] = [];
        for (const kind of ['policy', 'risk_assessment', 'vendor'] as const) {
          for (const id of ['a', 'b']) {
            const name = `${kind}/${id}`;
            await scene.show(kind, id, { id, name });
            await scene.store.addPendingDeletion(kind, id, null, scene.now());
            named.push(name);
          }
        }
        const page = async (after?: string) =>
          (await scene.store.listPendingDeletions({}, { limit: 3, after })).map(({ name }) => name);
        expect(await page()).toEqual(named.slice(0, 3));
        expect(await page(named[2])).toEqual(named.slice(3));
        // Another kind's record of the same id does not lend it a name.
        await scene.show('policy', 'c', { id: 'c' });
        await scene.show('vendor', 'c', { id: 'c', name: 'vendor/c' });
        await scene.store.addPendingDeletion('policy', 'c', null, scene.now());
        expect((await page('policy/b'))[0]).toBeNull();
      }),
    );

    it(
      'of minutes add up what is counted of each, and forget the old ones',
      inScene(open, async (scene) => {
        const { wall } = scene.now();
        const [old, young] = [isoOf(wall - 3_600_000), isoOf(wall)];
        const row = (minute: string, times: number, max_ms: number) => ({
          minute,
          what: 'lag:provisional',
          times,
          total_ms: times * 10,
          max_ms,
        });
        await scene.store.addTraffic([row(old, 1, 5), row(young, 2, 30)], 0);
        await scene.store.addTraffic([row(young, 3, 20)], wall - 60_000);
        expect(await scene.store.listTraffic(0)).toEqual([row(young, 5, 30)]);
        expect(await scene.store.listTraffic(wall + 1)).toEqual([]);
      }),
    );

    it(
      'of minutes are added up by the hour where that is asked for',
      inScene(open, async ({ store }) => {
        const row = (minute: string, times: number, max_ms: number, what = 'accepted') => ({
          minute: `2026-11-20T${minute}:00.000Z`,
          what,
          times,
          total_ms: times * 10,
          max_ms,
        });
        const rows = [row('10:59', 4, 9), row('11:00', 1, 5), row('11:59', 2, 30), row('11:30', 7, 1, 'b')];
        await store.addTraffic(rows, 0);
        const since = Date.parse('2026-11-20T11:00:00Z');
        expect(await store.listTraffic(since, 'hour')).toEqual([
          row('11:00', 3, 30),
          row('11:00', 7, 1, 'b'),
        ]);
        expect((await store.listTraffic(0, 'hour')).map(({ times }) => times)).toEqual([4, 3, 7]);
      }),
    );

    it(
      'and bodies in quarantine come as the bytes that were signed',
      inScene(open, async (scene) => {
        const body = Buffer.from([0xff, 0x00, 0x7b]);
        await scene.store.accept(
          { events: [], unusable: [{ reason: 'not_json', t: '1', kind: null, recordId: null, body }] },
          scene.now(),
          { settleMs: 1 },
        );
        const [row] = await scene.store.list('quarantine', { limit: 1 });
        const bytes = { body: '\ufffd\0{', body_base64: body.toString('base64') };
        expect(await scene.store.show('quarantine', row!.id)).toMatchObject(bytes);
        expect(row).toMatchObject({ body: null, body_base64: null });

        const rejection = { reason: 'no_match', t: '1', bytes: 3, bodySha256: null, header: null, wall: 0 };
        await scene.store.recordRejections([{ ...rejection, body, address: null, times: 1 }]);
        const [rejected] = await scene.store.list('rejections', { limit: 1 });
        expect(rejected).toMatchObject({ body: null, body_base64: null });
        expect(await scene.store.show('rejections', rejected!.id)).toMatchObject(bytes);
        expect(await scene.store.show('rejections', rejected!.id + 1)).toBeNull();
      }),
    );
  });

  describe('the counts of records', () => {
    it(
      'are what counting the rows would say, through deletion and revival',
      inScene(open, async (scene) => {
        const check = async () => {
          const [policy] = (await scene.store.summary()).kinds.filter(({ kind }) => kind === 'policy');
          const [row] = await scene.query(
            'SELECT count(*) AS n, sum(CASE WHEN deleted_at IS NULL THEN 1 ELSE 0 END) AS live FROM policies',
          );
          const live = Number(row!['live']);
          expect([policy!.records, policy!.deleted]).toEqual([live, Number(row!['n']) - live]);
          return live;
        };
        for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) await scene.show('policy', id, { id });
        expect(await check()).toBe(6);
        await scene.conclude('policy', { absent: ['b'] });
        expect(await check()).toBe(5);
        scene.pass(60_000);
        await scene.show('policy', 'b', { id: 'b' });
        expect(await check()).toBe(6);
        const known = await scene.query("SELECT count(*) AS n FROM record_state WHERE kind = 'policy'");
        expect(await scene.store.countKnown('policy')).toBe(Number(known[0]!['n']));
      }),
    );
  });
}
