import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createLogLimit } from '../src/platform/log-limit.ts';
import { createLogger } from '../src/platform/logger.ts';
import { HeldClock, settled } from './compliance/held-clock.ts';

const LIMIT = 20;

function limited() {
  const clock = new HeldClock();
  const lines: { msg: string; reason: string; count?: number; level: string }[] = [];
  const log = createLogger({
    level: 'info',
    destination: { write: (line) => void lines.push(JSON.parse(line)) },
  });
  const limit = createLogLimit(clock);
  const say = (reason: string) => limit.write(log, 'warn', { outcome: 'rejected', reason }, 'delivery');
  const of = (reason: string) => lines.filter((line) => line.reason === reason);
  return { clock, limit, lines, say, of };
}

it('the first lines of each sort are written at once, and a flood of one takes nothing from another', () => {
  const { say, of } = limited();
  for (let n = 0; n < 20_000; n += 1) say('bad_signature');
  say('no_header');
  expect(of('bad_signature')).toHaveLength(LIMIT);
  expect(of('no_header')).toHaveLength(1);
});

it('how many were left out is said at the end of the minute, also when nothing more comes', async () => {
  const { clock, say, of } = limited();
  for (let n = 0; n < LIMIT + 1234; n += 1) say('bad_signature');
  await clock.advance(59_999);
  expect(of('bad_signature')).toHaveLength(LIMIT);
  await clock.advance(1);
  await settled();
  expect(of('bad_signature').at(-1)).toMatchObject({
    level: 'warn',
    count: 1234,
    msg: 'delivery: … 1234 more like this in 60 s',
  });
  say('bad_signature');
  expect(of('bad_signature')).toHaveLength(LIMIT + 2);
});

it('says it at a stop too, and nothing where nothing was left out', async () => {
  const { clock, limit, lines, say, of } = limited();
  limit.flush();
  for (let n = 0; n < LIMIT; n += 1) say('quiet');
  for (let n = 0; n < LIMIT + 1; n += 1) say('loud');
  await clock.advance(5_000);
  limit.flush();
  limit.flush();
  expect(of('quiet')).toHaveLength(LIMIT);
  expect(of('loud').at(-1)?.msg).toBe('delivery: … 1 more like this in 5 s');
  expect(lines).toHaveLength(2 * LIMIT + 1);
});

it('what is written and what is counted add up to what there was, and each minute is bounded', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          reason: fc.constantFrom('a', 'b', 'c'),
          times: fc.nat({ max: 60 }),
          pause: fc.nat({ max: 40_000 }),
        }),
        { maxLength: 12 },
      ),
      async (bursts) => {
        const { clock, limit, lines, say } = limited();
        const total = { a: 0, b: 0, c: 0 } as Record<string, number>;
        for (const { reason, times, pause } of bursts) {
          for (let n = 0; n < times; n += 1) say(reason);
          total[reason]! += times;
          await clock.advance(pause);
          await settled();
        }
        limit.flush();
        for (const [reason, times] of Object.entries(total)) {
          const told = lines.filter((line) => line.reason === reason);
          expect(told.reduce((sum, line) => sum + (line.count ?? 1), 0)).toBe(times);
        }
        const minutes = 1 + bursts.reduce((sum, { pause }) => sum + pause, 0) / 60_000;
        expect(lines.length).toBeLessThanOrEqual(3 * (LIMIT + 1) * (minutes + 1));
      },
    ),
    { numRuns: 200 },
  );
});
