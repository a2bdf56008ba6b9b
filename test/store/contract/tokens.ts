import { describe, expect, it } from 'vitest';
import { createScene, type OpenEngine, shownOf } from '../scene.ts';

const NAME = 'oauth';
const ENTRY = { actor: 'login', action: 'token_grant', outcome: 'ok', target: NAME };

export function describeTokens(open: OpenEngine): void {
  describe('tokens at rest', () => {
    async function withTokens(work: (scene: Awaited<ReturnType<typeof createScene>>) => Promise<void>) {
      const scene = await createScene(open);
      try {
        expect(await scene.store.saveTokens(NAME, { sealed: 'sealed 1' }, null, ENTRY, scene.now())).toBe(
          true,
        );
        await work(scene);
      } finally {
        await scene.close();
      }
    }

    it('are not there before the first sign-in', async () => {
      const scene = await createScene(open);
      expect(await scene.store.readTokens(NAME)).toBeNull();
      await scene.close();
    });

    it('are saved over the version that was read and over no other, with their audit entry or without both', async () => {
      await withTokens(async ({ store, now }) => {
        const entry = { ...ENTRY, action: 'token_refresh' };
        expect(await store.saveTokens(NAME, { sealed: 'sealed 2' }, 1, entry, now())).toBe(true);
        expect(await store.saveTokens(NAME, { sealed: 'too late' }, 1, entry, now())).toBe(false);
        expect(await store.readTokens(NAME)).toEqual({ version: 2, sealed: 'sealed 2', refusal: null });
        const audit = (await store.list('audit', { limit: 10 })).items;
        expect(audit.map(({ action }) => action)).toEqual(['token_refresh', 'token_grant']);
      });
    });

    it('keep a refusal until others are saved, and none that is for earlier ones', async () => {
      await withTokens(async ({ store, now }) => {
        const entry = { ...ENTRY, outcome: 'invalid_grant' };
        expect(await store.saveTokens(NAME, { refusal: 'invalid_grant' }, 7, entry, now())).toBe(false);
        expect((await store.readTokens(NAME))?.refusal).toBeNull();
        expect(await store.saveTokens(NAME, { refusal: 'invalid_grant' }, 1, entry, now())).toBe(true);
        expect((await store.readTokens(NAME))?.refusal).toBe('invalid_grant');
        await store.saveTokens(NAME, { sealed: 'sealed 2' }, null, ENTRY, now());
        expect((await store.readTokens(NAME))?.refusal).toBeNull();
        const outcomes = (await store.list('audit', { limit: 10 })).items.map(({ outcome }) => outcome);
        expect(outcomes).toEqual(['ok', 'invalid_grant', 'ok']);
      });
    });
  });

  describe('a rejected delivery', () => {
    it('is read back with its bytes, as far as they were kept', async () => {
      const scene = await createScene(open);
      const { wall } = scene.now();
      const common = { t: '1', bytes: 3, bodySha256: 'ab', header: 't=1', address: '192.0.2.1', wall };
      await scene.store.recordRejections([
        { ...common, reason: 'bad_signature', body: Buffer.from([0, 255, 10]), times: 1 },
        { ...common, reason: 'missing_header', header: null, t: null, body: null, address: null, times: 7 },
      ]);
      const first = await scene.store.show('deliveries', 'rejection:1');
      const { bodySha256: body_sha256, wall: _, ...shown } = common;
      expect(first).toMatchObject({
        ...shown,
        body_sha256,
        reason: 'bad_signature',
        received_at: new Date(wall).toISOString(),
      });
      expect([...Buffer.from(first!.body_base64!, 'base64')]).toEqual([0, 255, 10]);
      expect(await scene.store.show('deliveries', 'rejection:2')).toMatchObject({
        header: null,
        address: null,
        body: null,
        body_base64: null,
        t: null,
      });
      expect((await shownOf(scene.store, 'rejected')).map(({ deliveries }) => deliveries)).toEqual([7, 1]);
      expect(await scene.store.show('deliveries', 'rejection:3')).toBeNull();
      await scene.close();
    });
  });
}
