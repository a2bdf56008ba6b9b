import { expect, it } from 'vitest';
import { turns } from '../../src/store/database.ts';

it('each has its turn after the one before it, whatever became of that', async () => {
  const inTurn = turns();
  const seen: string[] = [];
  const step = async (name: string) => {
    seen.push(`${name} begins`);
    await Promise.resolve();
    seen.push(`${name} ends`);
    if (name === 'a') throw new Error('broken');
    return name;
  };
  const [a, b] = await Promise.allSettled([inTurn(() => step('a')), inTurn(() => step('b'))]);
  expect(seen).toEqual(['a begins', 'a ends', 'b begins', 'b ends']);
  expect([a.status, b.status]).toEqual(['rejected', 'fulfilled']);
});

it('a failure that nobody waits for is noticed', async () => {
  const noticed = new Promise((resolve) => process.once('unhandledRejection', resolve));
  void turns()(() => Promise.reject(new Error('left alone')));
  expect(await noticed).toMatchObject({ message: 'left alone' });
});
