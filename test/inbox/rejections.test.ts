import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRejectionSampler } from '../../src/inbox/rejections.ts';
import { senderOf } from '../../src/platform/addresses.ts';
import type { CountedRejection, Rejection } from '../../src/store/store.ts';

const rejection = (reason: string, address: string | null, bytes: number): Rejection => ({
  reason,
  address,
  bytes,
  t: null,
  bodySha256: null,
  header: null,
  body: null,
  wall: 0,
});

describe('a sender is', () => {
  it.each([
    [null, ''],
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::6', '2001:db8:1:2::/64'],
    ['2001:db8::', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    ['1:2:3:4:5:6:192.0.2.1', '1:2:3:4::/64'],
  ])('%j: %s', (address, network) => {
    expect(senderOf(address)).toBe(network);
  });
});

type Step = { reason: string; sender: number; pause: number };
const steps = fc.array(
  fc.record<Step>({
    reason: fc.constantFrom('bad_signature', 'no_header'),
    sender: fc.oneof(
      { weight: 1, arbitrary: fc.constant(0) },
      { weight: 3, arbitrary: fc.nat({ max: 200 }) },
    ),
    // Rare, or no minute would hold more than may be written of it.
    pause: fc.oneof(
      { weight: 200, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.nat({ max: 70_000 }) },
    ),
  }),
  { maxLength: 600 },
);

/** The minute of each step, and what was written of it. `bytes` is the number of the step. */
function sampled(all: readonly Step[]) {
  const sampler = createRejectionSampler();
  const written: CountedRejection[] = [];
  const minutes: number[] = [];
  let now = 0;
  for (const [n, { reason, sender, pause }] of all.entries()) {
    now += pause;
    minutes.push(Math.floor(now / 60_000));
    written.push(...sampler.note(rejection(reason, `10.0.0.${sender}`, n), now));
  }
  written.push(...sampler.close());
  return { written, minutes };
}

describe('what is written of a flood', () => {
  it('counts for everything that there was, each row once', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const { written } = sampled(all);
        expect(written.reduce((sum, { times }) => sum + times, 0)).toBe(all.length);
        expect(new Set(written.map(({ bytes }) => bytes)).size).toBe(written.length);
      }),
    );
  });

  it('is at most 99 rows a minute and reason', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const { written, minutes } = sampled(all);
        const groups = Map.groupBy(written, (row) => `${row.reason} ${minutes[row.bytes]}`);
        for (const rows of groups.values()) expect(rows.length).toBeLessThanOrEqual(99);
      }),
    );
  });

  it('is 99 rows where forty senders send five each', () => {
    const all = Array.from({ length: 200 }, (_, n) => ({ reason: 'x', sender: n % 40, pause: 0 }));
    expect(sampled(all).written).toHaveLength(99);
  });

  it('holds the first two and the newest of each of the first 32 senders of a minute, whatever the others send', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const { written, minutes } = sampled(all);
        const rows = new Set(written.map(({ bytes }) => bytes));
        const numbered = all.map((step, n) => ({ ...step, n }));
        for (const group of Map.groupBy(numbered, (step) => `${step.reason} ${minutes[step.n]}`).values()) {
          for (const own of [...Map.groupBy(group, ({ sender }) => sender).values()].slice(0, 32)) {
            for (const step of [...own.slice(0, 2), own.at(-1)!]) expect(rows.has(step.n)).toBe(true);
          }
        }
      }),
    );
  });

  it('of one reason does not depend on what comes of another', () => {
    fc.assert(
      fc.property(steps, (all) => {
        // The pauses of what is left out stay.
        let passed = 0;
        const alone = all.flatMap((step) => {
          passed += step.pause;
          if (step.reason !== 'no_header') return [];
          const pause = passed;
          passed = 0;
          return { ...step, pause };
        });
        const row = ({ address, times }: CountedRejection) => `${address} ${times}`;
        const among = sampled(all).written.filter(({ reason }) => reason === 'no_header');
        expect(among.map(row)).toEqual(sampled(alone).written.map(row));
      }),
    );
  });
});
