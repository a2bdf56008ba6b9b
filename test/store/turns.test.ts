import { expect, it } from 'vitest';
import { turns } from '../../src/store/database.ts';
import { alternatingTurns } from '../../src/store/postgres/pool.ts';

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

it('of two queues each goes on after one of the other, however long that is, and whatever became of it', async () => {
  const [one, other] = alternatingTurns();
  const seen: string[] = [];
  const step = (name: string) => async () => {
    await Promise.resolve();
    seen.push(name);
    if (name === 'b1') throw new Error('broken');
  };
  const ended = await Promise.allSettled([
    ...['b1', 'b2', 'b3', 'b4'].map((name) => other(step(name))),
    ...['a1', 'a2'].map((name) => one(step(name))),
  ]);
  expect(seen).toEqual(['b1', 'a1', 'b2', 'a2', 'b3', 'b4']);
  expect(ended.map(({ status }) => status === 'rejected')).toEqual([true, false, false, false, false, false]);
  await one(step('a3'));
  expect(seen.at(-1)).toBe('a3');
});
