import { expect, test } from 'vitest';
import {
  ATTEMPTS_GLOBALLY,
  ATTEMPTS_PER_ADDRESS,
  ATTEMPTS_WINDOW_MS,
  createAttempts,
} from '../../src/ops/guess-limit.ts';

function attemptsAt(startMs = 0) {
  const clock = { now: startMs, steady: () => clock.now };
  return { clock, attempts: createAttempts(clock) };
}

test('an address that fails too often waits until its window is over', () => {
  const { clock, attempts } = attemptsAt();
  for (let n = 0; n < ATTEMPTS_PER_ADDRESS - 1; n += 1) attempts.failed('10.0.0.1');
  expect(attempts.waitMs('10.0.0.1')).toBe(0);
  attempts.failed('10.0.0.1');
  clock.now += 1000;
  expect(attempts.waitMs('10.0.0.1')).toBe(ATTEMPTS_WINDOW_MS - 1000);
  expect(attempts.waitMs('10.0.0.2')).toBe(0);
  clock.now += ATTEMPTS_WINDOW_MS;
  expect(attempts.waitMs('10.0.0.1')).toBe(0);
});

test('many addresses together wait, so that many of them gain little', () => {
  const { attempts } = attemptsAt();
  for (let n = 0; n < ATTEMPTS_GLOBALLY; n += 1) attempts.failed(`10.0.${n}.1`);
  expect(attempts.waitMs('198.51.100.1')).toBeGreaterThan(0);
});

test('a window that is over counts for nothing in the next', () => {
  const { clock, attempts } = attemptsAt();
  for (let n = 0; n < ATTEMPTS_GLOBALLY; n += 1) attempts.failed(`10.0.${n % 10}.1`);
  clock.now += ATTEMPTS_WINDOW_MS;
  attempts.failed('10.0.0.1');
  for (const address of ['10.0.0.1', '10.0.1.1', '198.51.100.1']) expect(attempts.waitMs(address)).toBe(0);
});

test('the addresses that one subscriber gets are one', () => {
  const { attempts } = attemptsAt();
  for (let n = 0; n < ATTEMPTS_PER_ADDRESS; n += 1) attempts.failed(`2001:db8::${n}`);
  expect(attempts.waitMs('2001:db8::ffff')).toBeGreaterThan(0);
  expect(attempts.waitMs('2001:db8:0:1::1')).toBe(0);
});
