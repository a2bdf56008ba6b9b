import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createTurns } from '../../src/receive/body.ts';

test('few tasks begin in a turn of the event loop, in the order of calls', async () => {
  const inTurn = createTurns(2);
  const begun: number[] = [];
  for (let n = 0; n < 5; n += 1) inTurn(() => begun.push(n));
  expect(begun).toEqual([]);
  await turn();
  expect(begun).toEqual([0, 1]);
  await turn();
  expect(begun).toEqual([0, 1, 2, 3]);
  await turn();
  inTurn(() => begun.push(5));
  await turn();
  expect(begun).toEqual([0, 1, 2, 3, 4, 5]);
});
