import { describe, expect } from 'vitest';
import type { Kind } from '../../../src/compliance/kinds.ts';
import type { Filters } from '../../../src/store/reports.ts';
import { type OpenEngine, shownOf } from '../scene.ts';
import { storyOn } from './story.ts';

export function describeLists(open: OpenEngine): void {
  const story = storyOn(open);
  describe('long lists', () => {
    story('of a search go on where the page before ended, without a repeat', async (scene) => {
      const names: Record<string, string> = { ac_2: 'Zed', b: 'ACME', c: 'acme', d: 'a bac', e: 'Other' };
      await scene.apply(
        'vendor',
        Object.entries(names).map(([id, name]) => ({ id, data: { id, name } })),
      );
      const find = async (filter: Partial<Filters['records']>, limit: number) => {
        const found: string[] = [];
        for (let after: string | undefined; ; ) {
          const page = await scene.store.list('records', { kind: 'vendor', ...filter, limit, after });
          found.push(...page.items.map((row) => row.id));
          expect(page.items.length).toBeLessThanOrEqual(limit);
          if (page.next === null) return found;
          after = page.next;
        }
      };
      for (const limit of [1, 2, 3, 10])
        expect(await find({ search: 'ac' }, limit)).toEqual(['ac_2', 'b', 'c', 'd']);
      for (const id of ['ac_2', 'd', 'e']) await scene.accept(scene.event({ kind: 'vendor', recordId: id }));
      expect(await find({ search: 'ac', unverified: true }, 1)).toEqual(['ac_2', 'd']);
    });

    story('of records are filtered by status and by any field, by its path and its value', async (scene) => {
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
      const found = async (filter: Partial<Filters['records']>) =>
        (await scene.store.list('records', { kind: 'vendor', ...filter, limit: 9 })).items
          .map(({ id }) => id)
          .join('');
      const statuses = async (kind: Kind) =>
        (await scene.store.list('statuses', { kind, limit: 50 })).items.map(({ status }) => status);
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
      expect(await statuses('vendor')).toEqual(['approved', 'draft']);
      expect(await statuses('policy')).toEqual([]);
      // No filter takes a longer one, and it may have megabytes.
      await scene.show('vendor', 'e', { id: 'e', status: 'b'.repeat(1_000_000) });
      await scene.show('vendor', 'f', { id: 'f', status: `bb\0${'c'.repeat(1_000_000)}` });
      expect(await statuses('vendor')).toEqual(['approved', 'draft']);
      const many = Array.from({ length: 60 }, (_, n) => ({
        id: `s${n}`,
        data: { id: `s${n}`, status: `s${n}` },
      }));
      await scene.apply('vendor', many);
      expect(
        (await scene.store.list('statuses', { kind: 'vendor', limit: 50 })).items.length,
      ).toBeLessThanOrEqual(50);
    });

    story('of records come by id, each once, page by page', async (scene) => {
      const names: [string, string?][] = [['a', 'Zed'], ['b', 'acorn'], ['c'], ['d', 'Acme'], ['e'], ['0']];
      for (const [id, name] of names) await scene.show('vendor', id, { id, name });
      await scene.show('policy', 'p', { id: 'p' });
      scene.pass(60_000);
      await scene.show('vendor', 'b', { id: 'b', name: 'Acorn' });
      const walk = async (filter: Partial<Filters['records']>, limit: number) => {
        const ids: string[] = [];
        for (let after: string | undefined; ; ) {
          const page = await scene.store.list('records', { kind: 'vendor', ...filter, limit, after });
          ids.push(...page.items.map(({ id }) => id));
          if (page.next === null) return ids.join('');
          after = page.next;
        }
      };
      for (const limit of [1, 2, 5, 9]) {
        expect(await walk({}, limit), `pages of ${limit}`).toBe('0abcde');
        expect(await walk({ search: 'o' }, limit)).toBe('b');
      }
    });

    story('of records whose deletion waits for a person name each once, page by page', async (scene) => {
      for (const id of ['a', 'b', 'c', 'd']) await scene.show('policy', id, { id });
      for (const id of ['a', 'b', 'd'])
        await scene.store.askToDelete('policy', id, 'not listed', scene.now());
      const page = async (deletion_pending: boolean, after?: string) =>
        (await scene.store.list('records', { kind: 'policy', deletion_pending, limit: 2, after })).items.map(
          ({ id }) => id,
        );
      expect([await page(true), await page(true, 'b')]).toEqual([['a', 'b'], ['d']]);
      expect(await page(false)).toEqual(['c']);
      await scene.decide('policy', 'keep');
      expect(await page(true)).toEqual([]);
    });

    story('and bodies in quarantine come as the bytes that were signed', async (scene) => {
      const body = Buffer.from([0xff, 0x00, 0x7b]);
      await scene.store.accept(
        { events: [], unusable: [{ reason: 'not_json', t: '1', kind: null, recordId: null, body }] },
        scene.now(),
        { settleMs: 1 },
      );
      const [row] = await shownOf(scene.store, 'quarantined');
      const bytes = { body: '\ufffd\0{', body_base64: body.toString('base64') };
      expect(row).toMatchObject(bytes);

      const rejection = { reason: 'no_match', t: '1', bytes: 3, bodySha256: null, header: null, wall: 0 };
      await scene.store.recordRejections([{ ...rejection, body, address: null, times: 1 }]);
      const [rejected] = await shownOf(scene.store, 'rejected');
      expect(rejected).toMatchObject(bytes);
      expect(await scene.store.show('deliveries', `rejection:${rejected!.number + 1}`)).toBeNull();
    });
  });

  describe('the counts of records', () => {
    story('are what counting the rows would say, through deletion and revival', async (scene) => {
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
    });
  });
}
