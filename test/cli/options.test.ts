import { InvalidArgumentError } from 'commander';
import { describe, expect, it } from 'vitest';
import { integerBetween, parseDuration, sinceOption } from '../../src/cli/options.ts';

describe('a length of time', () => {
  it.each([
    ['20s', 20_000],
    ['5', 5_000],
    ['1.5m', 90_000],
    ['500ms', 500],
    ['2h', 7_200_000],
    ['7d', 604_800_000],
  ])('%s is %i ms', (text, milliseconds) => {
    expect(parseDuration(text)).toBe(milliseconds);
  });

  it.each(['', '0s', 's', '-5s', '1y', '5 s', '1e3s', 'Infinity'])('%j is refused', (text) => {
    expect(() => parseDuration(text)).toThrow(InvalidArgumentError);
  });
});

it('who gives no time is told of all that --since takes', () => {
  expect(() => sinceOption().parseArg!('yesterday', undefined)).toThrow(/instant .*, a date, or a time ago/);
});

describe('a whole number', () => {
  const parse = integerBetween(1, 500);
  it.each([
    ['1', 1],
    ['500', 500],
    ['042', 42],
  ])('%s is taken', (text, number) => {
    expect(parse(text)).toBe(number);
  });

  it.each(['0', '501', '-1', '+1', '1.0', '0x10', '1e2', ' 1', '', '9'.repeat(400)])(
    '%j is refused',
    (text) => {
      expect(() => parse(text)).toThrow(InvalidArgumentError);
    },
  );
});
