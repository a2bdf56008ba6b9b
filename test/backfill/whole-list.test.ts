import { expect, it } from 'vitest';
import { type ListScan, lackOf, readWhole } from '../../src/backfill/whole-list.ts';

interface End {
  living: number;
  gone?: number;
  total?: number;
  isRefused?: true;
  missing?: string[];
}

it.each<[string, End, RegExp | null, string?]>([
  ['as many records as its total says', { living: 3, total: 3 }, null],
  ['no total', { living: 3 }, null],
  ['nothing at all', { living: 0, total: 0 }, null],
  ['fewer than its total says', { living: 3, total: 5 }, /shows 3 records where its total says 5/, '2'],
  ['more than its total says', { living: 5, total: 3 }, /shows 5 records where its total says 3/, '-2'],
  ['deleted ones that its total counts', { living: 3, gone: 2, total: 5 }, null],
  ['deleted ones that its total does not count', { living: 3, gone: 2, total: 3 }, null],
  ['a single record, which is deleted', { living: 0, gone: 1 }, null],
  ['only deleted ones', { living: 0, gone: 2 }, /each of the 2 records .* DELETED_MARKERS/, '2 deleted'],
  ['one more of these', { living: 0, gone: 3, total: 3 }, /each of the 3 records/, '3 deleted'],
  [
    'no total, and exactly 1,000 records',
    { living: 1_000 },
    /after 1000 records the list ends/,
    '1000 shown',
  ],
  [
    'no total, and 10,000 with deleted ones',
    { living: 9_999, gone: 1 },
    /after 10000 records/,
    '10000 shown',
  ],
  ['no total, and 1,001 records', { living: 1_001 }, null],
  ['a total of 5,000, and as many', { living: 5_000, total: 5_000 }, null],
  [
    'a total of 5,000, as many, and an error behind them',
    { living: 5_000, total: 5_000, isRefused: true },
    /after 5000 records the list is refused/,
    '5000 shown',
  ],
  ['a total, as many, and an error behind them', { living: 20, total: 20, isRefused: true }, null],
  [
    'an error before what an event has announced',
    { living: 1_000, total: 1_000, isRefused: true, missing: ['x'] },
    /after 1000 records the list is refused, and x of its events are not in it/,
    'x',
  ],
])(
  'a list that has shown %s',
  (_, { living, gone = 0, total = null, isRefused = false, missing = [] }, error, stays) => {
    const ids = (count: number, of: string) => new Set(Array.from({ length: count }, (_, n) => `${of} ${n}`));
    const lack = lackOf({ ids: ids(living, 'living'), gone: ids(gone, 'gone'), total, isRefused, missing });
    if (error === null) expect(lack).toBe(null);
    else expect(lack?.error).toMatch(error);
    // What a person accepts is this, and another number opens the problem again.
    expect(lack?.stays).toBe(stays);
  },
);

const WHOLE: ListScan = {
  ids: new Set(),
  twice: new Set(),
  gone: new Set(),
  beganAt: 0,
  agedMs: 0,
  total: 9,
  lack: null,
  steady: true,
  again: 'no',
  number: 0,
  endedAt: 0,
};

it.each<[string, Partial<ListScan>, boolean]>([
  ['that moved, or out of which a record was deleted', { again: 'once' }, false],
  ['that may have skipped the record of an event', {}, true],
])(
  'a list %s is read once more after the read delay, since earlier its pages could be as old',
  async (_, found, hasUnnamed) => {
    const did: string[] = [];
    const readOnce = async () => {
      did.push('read');
      return { ...WHOLE, ...found };
    };
    const settledAfter = async () => void did.push('waited');
    await readWhole(readOnce, { hasUnnamed, settledAfter });
    expect(did).toEqual(['read', 'waited', 'read']);
  },
);

it('a list that may lack records however often it is read is given up, and proves nothing', async () => {
  let times = 0;
  const whole = await readWhole(
    async (seenBefore) => {
      times += 1;
      expect(seenBefore.size).toBe(times - 1);
      const ids = new Set([`ven_${times}`]);
      return { ...WHOLE, ids, again: 'more' };
    },
    { hasUnnamed: false, settledAfter: async () => {} },
  );
  expect(whole.lack).toEqual({ error: 'the list changes too fast to show all that it holds' });
  expect(times).toBeLessThan(20);
});

it('a list without a total that shows records on two pages each time is given up, and a person can accept as many', async () => {
  const shown = async (...scans: string[][]) => {
    let last: string[] = [];
    return await readWhole(
      async () => {
        last = scans.shift() ?? last;
        return { ...WHOLE, total: null, twice: new Set(last), again: last.length > 0 ? 'more' : 'no' };
      },
      { hasUnnamed: false, settledAfter: async () => {} },
    );
  };
  expect((await shown(['b', 'a'])).lack).toEqual({
    error:
      'after 5 scans records still stand on two pages, and others may stand on none: a, b; has the list no order of its own?',
    stays: '2 on two pages',
  });
  expect((await shown(['a'], ['a'], ['a'], ['a'], [])).lack).toBe(null);
});
