import { afterEach, beforeEach, expect, test } from 'vitest';
import { createTraffic } from '../../src/ops/traffic.ts';
import { type Harness, opsHarness } from './harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await opsHarness();
});
afterEach(() => h.close());

const at = Date.parse('2026-11-20T12:00:10Z');
const clock = { wall: () => at };
const MINUTE = '2026-11-20T12:00:00.000Z';

test('what is counted shows at once, and is counted once whether it is written yet or not', async () => {
  const traffic = createTraffic(h.store, clock);
  traffic.delivered('accepted');
  traffic.rejected('bad_signature');
  traffic.verified(300);
  const total = async () => {
    const times = new Map<string, number>();
    for (const row of await traffic.since(at - 60_000))
      times.set(row.what, (times.get(row.what) ?? 0) + row.times);
    return Object.fromEntries(times);
  };
  const once = { accepted: 1, 'rejected:bad_signature': 1, 'lag:verification': 1 };
  expect(await total()).toEqual(once);
  await traffic.flush();
  expect(await total()).toEqual(once);
  traffic.delivered('accepted');
  expect(await total()).toEqual({ ...once, accepted: 2 });
  await traffic.flush();
  expect(await h.store.listTraffic(0)).toContainEqual({
    minute: MINUTE,
    what: 'accepted',
    times: 2,
    total_ms: 0,
    max_ms: 0,
  });
});

test('what could not be written is written the next time', async () => {
  let full = true;
  const store = {
    listTraffic: h.store.listTraffic,
    addTraffic: (...args: Parameters<typeof h.store.addTraffic>) =>
      full ? Promise.reject(new Error('disk full')) : h.store.addTraffic(...args),
  };
  const traffic = createTraffic(store, clock);
  for (let n = 0; n < 3; n += 1) {
    traffic.delivered('accepted');
    await expect(traffic.flush()).rejects.toThrow('disk full');
  }
  full = false;
  await traffic.flush();
  expect((await h.store.listTraffic(0)).map(({ times }) => times)).toEqual([3]);
});
