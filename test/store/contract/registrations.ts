import { describe, expect } from 'vitest';
import type { SealedText, Store } from '../../../src/store/store.ts';
import { isoOf, type OpenEngine } from '../scene.ts';
import { storyOn } from './story.ts';

const ENTRY = { actor: 'cli', action: 'registration_forget', outcome: 'ok', target: 'wh_1' };

const registration = (upstreamId: string, wall: number) => ({
  upstreamId,
  url: 'https://mirror.example/webhooks',
  events: ['policy.*'],
  description: 'ours',
  delivers: ['policy.created'],
  sealedSecret: `sealed ${upstreamId}`,
  sealedAnswer: null,
  createdAt: isoOf(wall),
});

export function describeRegistrations(open: OpenEngine): void {
  const story = storyOn(open);
  describe('a registration', () => {
    story('that is forgotten is gone, with the audit entry', async ({ store, now }) => {
      const at = now();
      await store.saveRegistration(registration('wh_1', at.wall));
      await store.saveRegistration(registration('wh_2', at.wall));
      expect(await store.forgetRegistration('wh_1', ENTRY, at)).toBe(true);
      expect(await store.listRegistrations()).toEqual([registration('wh_2', at.wall)]);
      expect((await store.list('audit', { limit: 5 })).items).toMatchObject([ENTRY]);
    });

    story('that is not held cannot be forgotten, and nothing is noted', async ({ store, now }) => {
      expect(await store.forgetRegistration('wh_1', ENTRY, now())).toBe(false);
      expect((await store.list('audit', { limit: 5 })).items).toEqual([]);
    });
  });

  describe('what is sealed', () => {
    const rotation = { actor: 'cli', action: 'rotate_key', outcome: 'ok:2', target: null };
    const grant = { actor: 'login', action: 'token_grant', outcome: 'ok', target: 'oauth' };

    story(
      'is every secret, answer and token by its row, and changes all at once with the audit entry',
      async ({ store, now }) => {
        await store.saveRegistration(registration('wh_1', now().wall));
        await store.saveRegistration({
          ...registration('wh_2', now().wall),
          sealedSecret: null,
          sealedAnswer: 'answer',
        });
        await store.saveTokens('oauth', { sealed: 'sealed tokens' }, null, grant, now());
        expect(await sealed(store)).toEqual([
          { table: 'registration_answers', row: 'wh_2', sealed: 'answer' },
          { table: 'registrations', row: 'wh_1', sealed: 'sealed wh_1' },
          { table: 'tokens', row: 'oauth', sealed: 'sealed tokens' },
        ]);
        await store.reseal(() => ({ resealed: ['a', 'b', 'c'], entry: rotation }), now());
        expect((await sealed(store)).map((text) => text.sealed)).toEqual(['a', 'b', 'c']);
        expect(await store.listRegistrations()).toMatchObject([
          { sealedSecret: 'b', sealedAnswer: null },
          { sealedSecret: null, sealedAnswer: 'a' },
        ]);
        // Whoever has read the tokens before does not save over them.
        expect(await store.readTokens('oauth')).toMatchObject({ sealed: 'c', version: 2 });
        expect((await store.list('audit', { limit: 1 })).items).toMatchObject([rotation]);
      },
    );
  });
}

async function sealed(store: Store): Promise<readonly SealedText[]> {
  let found: readonly SealedText[] = [];
  const look = (present: readonly SealedText[]) => {
    found = present;
    return null;
  };
  await store.reseal(look, { wall: 0, steady: 0 });
  return found;
}
