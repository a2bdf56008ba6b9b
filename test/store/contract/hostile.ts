import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../src/compliance/json.ts';
import type { JsonObject } from '../../../src/compliance/pointers.ts';
import { inScene, type OpenEngine, SETTLE_MS } from '../scene.ts';
import { storyOn } from './story.ts';

const HOSTILE_IDS = [
  '__proto__',
  'constructor',
  '../admin',
  '..',
  "'; DROP TABLE policies; --",
  '"quoted" and \'quoted\'',
  '<script>alert(1)</script>',
  '%00%2e%2e',
  '💥 emoji \u{1F469}\u200D\u{1F4BB}',
  'e\u0301 is not \u00e9',
  '\u202eright to left',
  ' leading and trailing ',
  'a b',
  '{"json": true}',
  'x'.repeat(255),
];

export function describeHostileInput(open: OpenEngine): void {
  const story = storyOn(open);
  describe('hostile ids and payloads', () => {
    it.each(HOSTILE_IDS)('are data: the id %j goes the whole way', async (id) => {
      await inScene(open, async (scene) => {
        const event = scene.event({ id, recordId: id, shows: { name: id } });
        await scene.accept(event);
        expect(await scene.accept(event)).toMatchObject([{ status: 'duplicate', conflicting: false }]);
        expect(await scene.work()).toMatchObject([{ outcome: 'provisional' }]);
        scene.pass(SETTLE_MS);
        expect(await scene.show('policy', id, { id, name: id })).toMatchObject({ id, verified: true });
        expect(await scene.row('policy', id)).toMatchObject({ id, name: id, cause: 'refetch' });
        expect(await scene.store.show('deliveries', id)).toMatchObject({
          id,
          record_id: id,
          state: 'processed',
        });
        expect(
          (await scene.store.list('changes', { kind: 'policy', record_id: id, limit: 10 })).items.length,
        ).toBeGreaterThan(0);
        const { items: found } = await scene.store.list('records', { kind: 'policy', search: id, limit: 10 });
        expect(found.map((row) => row.id)).toEqual([id]);
        await scene.store.openProblem(
          { reason: 'unknown_record', kind: 'policy', recordId: id },
          id,
          scene.now(),
        );
        expect(await scene.openProblems()).toEqual([`unknown_record policy ${id}`]);
      })();
    });

    story('are never taken for one another where they look alike', async (scene) => {
      const alike = ['e\u0301', '\u00e9', 'A', 'a', 'a ', 'ａ'];
      await scene.apply(
        'vendor',
        alike.map((id) => ({ id, data: { id } })),
      );
      expect((await scene.store.list('records', { kind: 'vendor', limit: 10 })).items).toHaveLength(
        alike.length,
      );
    });

    story('in fields named like those of a prototype stay fields', async (scene) => {
      const data = JSON.parse(
        '{"policyId":"pol_1","__proto__":{"polluted":true},"constructor":"x","name":"N"}',
      );
      await scene.accept(scene.event({ data }));
      await scene.work();
      const row = await scene.row('policy', 'pol_1');
      // Field by field, the prototype's names included; their order is the engine's own.
      expect(Object.entries(row?.data ?? {}).sort()).toEqual(Object.entries(data).sort());
      expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
      scene.pass(SETTLE_MS);
      expect(await scene.show('policy', 'pol_1', data)).toMatchObject({
        outcome: 'unchanged',
        verified: true,
      });
    });

    story('with numbers that a double rounds are kept to the last digit, and differ by it', async (scene) => {
      const before = '{"id":"x","n":9007199254740993,"deep":{"n":[-12345678901234567890]}}';
      const after = before.replace('993', '992');
      await scene.accept(scene.event({ data: parseJson(before) as JsonObject, recordId: 'x' }));
      await scene.work();
      scene.pass(SETTLE_MS);
      expect(await scene.show('policy', 'x', parseJson(before) as JsonObject)).toMatchObject({
        outcome: 'unchanged',
        verified: true,
      });
      const row = await scene.row('policy', 'x');
      expect(JSON.stringify(row?.data)).toContain('9007199254740993');
      expect(JSON.stringify(row?.data)).toContain('[-12345678901234567890]');
      scene.pass(SETTLE_MS);
      expect(await scene.show('policy', 'x', parseJson(after) as JsonObject)).toMatchObject({
        outcome: 'updated',
      });
      const [, change] = await scene.changes();
      expect(JSON.stringify([change?.before, change?.after])).toBe(
        '[{"data":{"n":9007199254740993}},{"data":{"n":9007199254740992}}]',
      );
    });

    it.each([
      ['a number that JSON writes otherwise', '{"id":"x","n":-0,"deep":{"n":[-0]}}'],
      ['a number beyond every double', '{"id":"x","n":1e999,"deep":{"n":[1e999]}}'],
      ['half a surrogate pair', '{"id":"x","name":"\\ud800","status":"\\udc00 open"}'],
      ['a NUL', '{"id":"x","name":"a\\u0000b"}'],
      ['columns that are not text', '{"id":"x","name":7,"status":{"code":1},"version":[2]}'],
    ])('with %s are read again without a change', async (_what, json) => {
      await inScene(open, async (scene) => {
        await scene.show('policy', 'x', JSON.parse(json));
        scene.pass(SETTLE_MS);
        expect(await scene.show('policy', 'x', JSON.parse(json))).toMatchObject({ outcome: 'unchanged' });
        expect(await scene.changes()).toHaveLength(1);
      })();
    });
  });
}
