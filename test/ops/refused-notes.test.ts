import { expect, test } from 'vitest';
import { createRefusedNotes, SUMMARY_MS } from '../../src/ops/refused-notes.ts';

/** Notes taken with time held in the hand. */
function notes() {
  const taken: string[] = [];
  let over = () => {};
  const stopping = new AbortController();
  const slept: number[] = [];
  const refused = createRefusedNotes(
    {
      note: async (actor, action, outcome, target) => {
        taken.push(`${actor} ${action} ${outcome}: ${target}`);
      },
    },
    {
      clock: {
        wall: () => 0,
        steady: () => 0,
        sleep: (ms, signal) => {
          slept.push(ms);
          return new Promise((resolve) => {
            over = resolve;
            signal?.addEventListener('abort', () => resolve());
          });
        },
      },
      signal: stopping.signal,
    },
  );
  const minuteOver = async () => {
    over();
    await new Promise(setImmediate);
  };
  return { taken, slept, refused, minuteOver, stopping };
}

test('the first refused token is noted at once, and the rest of its minute as one entry', async () => {
  const { taken, slept, refused, minuteOver } = notes();
  for (let n = 0; n < 4_000; n += 1) await refused('bearer', `10.0.0.${n % 2}`);
  expect(taken).toEqual(['unknown bearer refused: 10.0.0.0']);
  expect(slept).toEqual([SUMMARY_MS]);
  await minuteOver();
  expect(taken.slice(1)).toEqual(['unknown bearer refused: 3999 more within a minute']);
  await refused('bearer', '10.0.0.9');
  expect(taken).toHaveLength(3);
  await minuteOver();
  expect(taken).toHaveLength(3);
});

test('nobody’s tries are summed up under the name of another', async () => {
  const { taken, refused, minuteOver } = notes();
  const by = (actor: string) => ({ actor, outcome: 'forbidden', target: `/${actor}` });
  await refused('change', '10.0.0.1', by('rita'));
  await refused('change', '10.0.0.1', by('rolf'));
  await refused('change', '10.0.0.1', by('rolf'));
  await minuteOver();
  expect(taken).toEqual([
    'rita change forbidden: /rita',
    'rolf change forbidden: /rolf',
    'rolf change forbidden: 1 more within a minute',
  ]);
});

test('a stop loses no count', async () => {
  const { taken, refused, stopping } = notes();
  for (let n = 0; n < 3; n += 1) await refused('bearer', '10.0.0.1');
  stopping.abort();
  await new Promise(setImmediate);
  expect(taken.slice(1)).toEqual(['unknown bearer refused: 2 more within a minute']);
});
