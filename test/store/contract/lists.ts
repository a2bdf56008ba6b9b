import { describe, expect, it } from 'vitest';
import { inScene, isoOf, type OpenEngine } from '../scene.ts';

export function describeLists(open: OpenEngine): void {
  describe('long lists', () => {
    it(
      'of a search go on where the page before ended, among ids and then among names, without a repeat',
      inScene(open, async (scene) => {
        const names: Record<string, string> = {
          ac_2: 'Zed',
          ac_1: 'acorn',
          b: 'ACME',
          c: 'acme',
          d: 'Acre',
          e: 'ac',
          f: 'Bac',
        };
        await scene.apply(
          'vendor',
          Object.entries(names).map(([id, name]) => ({ id, data: { id, name } })),
        );
        for (const limit of [1, 2, 3, 10]) {
          const found: string[] = [];
          for (let after: string | undefined; ; ) {
            const rows = await scene.store.listRecords('vendor', { search: 'ac' }, { limit, after });
            found.push(...rows.map((row) => row.id));
            if (rows.length < limit) break;
            after = rows.at(-1)!.id;
          }
          expect(found, `pages of ${limit}`).toEqual(['ac_1', 'ac_2', 'e', 'b', 'c', 'd']);
        }
        for (const id of ['ac_2', 'c', 'd', 'f']) {
          await scene.accept(scene.event({ kind: 'vendor', recordId: id }));
        }
        const outstanding = async (after?: string) =>
          (
            await scene.store.listRecords('vendor', { search: 'ac', unverified: true }, { limit: 2, after })
          ).map((row) => row.id);
        expect([await outstanding(), await outstanding('c')]).toEqual([['ac_2', 'c'], ['d']]);
      }),
    );

    it(
      'of a search stay within its names where the record that the page before ended at was renamed',
      inScene(open, async (scene) => {
        const named = (id: string, name: string) => ({ id, data: { id, name } });
        const names = [named('x', 'Acme'), named('y', 'Acorn'), named('z', 'Aaron')];
        await scene.apply('vendor', names);
        const { store } = scene;
        expect(await store.listRecords('vendor', { search: 'ac' }, { limit: 1 })).toMatchObject([
          { id: 'x' },
        ]);
        scene.pass(60_000);
        await scene.apply('vendor', [named('x', 'AAA')]);
        const rest = await store.listRecords('vendor', { search: 'ac' }, { limit: 9, after: 'x' });
        expect(rest.map((row) => row.id)).toEqual(['y']);
      }),
    );

    it(
      'of records come in the order of their bytes, whatever the language says of the letters',
      inScene(open, async (scene) => {
        const ids = ['-', 'B', 'Z', '_', 'a', 'b', 'ba', 'z', '\u00e9', '\u{1f4a5}'];
        const shuffled = [...ids].reverse().map((id) => ({ id, data: { id, name: `n${id}` } }));
        await scene.apply('vendor', shuffled);
        const idsOf = (rows: readonly { id: string }[]) => rows.map((row) => row.id);
        expect(idsOf(await scene.store.listRecords('vendor', {}, { limit: 20 }))).toEqual(ids);
        expect(idsOf(await scene.store.listRecords('vendor', {}, { limit: 3, after: 'Z' }))).toEqual([
          ...['_', 'a', 'b'],
        ]);
        expect(idsOf(await scene.store.knownIds('vendor', '_', 3))).toEqual(['a', 'b', 'ba']);
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
          (await scene.store.listRecords('vendor', { search }, { limit: 9 })).map((row) => row.id);
        expect(await find('SUPPLIER')).toEqual(['a', 'b']);
        expect(await find(long.toUpperCase())).toEqual(['a', 'b']);
        expect(await find(`${long}TWO`)).toEqual(['b']);
        expect(await find('\u00e9CL')).toEqual(['d']);
      }),
    );

    it(
      'of pending deletions name each id once, page by page, with its approval',
      inScene(open, async (scene) => {
        for (const id of ['a', 'b', 'c', 'd']) await scene.show('policy', id, { id });
        const { pending } = await scene.conclude('policy', { absent: ['a', 'b', 'c'] });
        expect(pending).toEqual(['a', 'b', 'c']);
        const [{ syncRunId } = { syncRunId: 0 }] = await scene.store.pendingDeletions(scene.now().wall);
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
        await scene.store.approveDeletions(syncRunId, until);
        expect(await page('policy/b')).toEqual([['c', isoOf(until)]]);
        expect(await scene.store.listPendingDeletions({ syncRunId: syncRunId + 1 }, { limit: 2 })).toEqual(
          [],
        );
      }),
    );

    it(
      'of minutes add up what is counted of each, and forget the old ones',
      inScene(open, async (scene) => {
        const { wall } = scene.now();
        const [old, young] = [isoOf(wall - 3_600_000), isoOf(wall)];
        const row = (minute: string, times: number, max_ms: number) => ({
          ...{ minute, what: 'lag:provisional', times, total_ms: times * 10, max_ms },
        });
        await scene.store.addTraffic([row(old, 1, 5), row(young, 2, 30)], 0);
        await scene.store.addTraffic([row(young, 3, 20)], wall - 60_000);
        expect(await scene.store.listTraffic(0)).toEqual([row(young, 5, 30)]);
        expect(await scene.store.listTraffic(wall + 1)).toEqual([]);
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
        const [row] = await scene.store.listQuarantine({ limit: 1 });
        expect(Buffer.from((await scene.store.readQuarantinedBody(row!.id))!)).toEqual(body);
        expect(await scene.store.readQuarantinedBody(row!.id + 1)).toBeNull();
        const bytes = { body: '\ufffd\0{', body_base64: body.toString('base64') };
        expect(await scene.store.showQuarantined(row!.id)).toMatchObject(bytes);
        expect(row).toMatchObject({ body: null, body_base64: null });

        const rejection = { reason: 'no_match', t: '1', bytes: 3, bodySha256: null, header: null, wall: 0 };
        await scene.store.recordRejections([{ ...rejection, body, address: null, times: 1 }]);
        const [rejected] = await scene.store.listRejections({ limit: 1 });
        expect(rejected).toMatchObject({ body: null, body_base64: null });
        expect(await scene.store.showRejection(rejected!.id)).toMatchObject(bytes);
        expect(await scene.store.showRejection(rejected!.id + 1)).toBeNull();
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
          expect(await scene.store.countLive('policy')).toBe(live);
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
