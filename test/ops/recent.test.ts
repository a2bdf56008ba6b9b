import { expect, test } from 'vitest';
import { createRecent } from '../../src/ops/recent.ts';

function ring(startMs = 1_700_000_000_000) {
  const clock = { now: startMs, steady: () => clock.now };
  return { clock, recent: createRecent(clock) };
}

test('deliveries of this minute count in the minute and in the hour', () => {
  const { recent } = ring();
  recent.count('accepted');
  recent.count('accepted');
  recent.count('duplicate');
  recent.count('quarantined');
  recent.countRejected('bad_signature');
  const report = recent.report();
  expect(report.lastMinute).toEqual({
    ...{ accepted: 2, duplicate: 1, quarantined: 1 },
    rejected: { bad_signature: 1 },
  });
  expect(report.lastHour).toEqual(report.lastMinute);
});

test('what is older than a minute leaves the minute, and what is older than an hour leaves both', () => {
  const { clock, recent } = ring();
  recent.count('accepted');
  clock.now += 70_000;
  expect(recent.report().lastMinute.accepted).toBe(0);
  expect(recent.report().lastHour.accepted).toBe(1);
  clock.now += 3_600_000;
  expect(recent.report().lastHour.accepted).toBe(0);
});

test('a place that comes round again starts from nothing', () => {
  const { clock, recent } = ring();
  recent.count('accepted');
  clock.now += 3_600_000;
  recent.count('accepted');
  expect(recent.report().lastHour.accepted).toBe(1);
});

test('reasons beyond the limit are counted together', () => {
  const { recent } = ring();
  for (let n = 0; n < 100; n += 1) recent.countRejected(`reason_${n}`);
  const { rejected } = recent.report().lastHour;
  expect(Object.keys(rejected)).toHaveLength(65);
  expect(rejected['other']).toBe(36);
  expect(Object.values(rejected).reduce((sum, times) => sum + times)).toBe(100);
});
