import { expect, test } from 'vitest';
import {
  clockSkewMs,
  MAX_RETRY_AFTER_MS,
  parseHttpDate,
  parseRetryAfter,
} from '../../src/compliance/gate.ts';

const now = Date.UTC(2026, 0, 5, 12, 0, 0);

test.each<[string | null, number | null]>([
  ['0', 0],
  ['7', 7_000],
  [' 7 ', 7_000],
  ['007', 7_000],
  ['86400', MAX_RETRY_AFTER_MS],
  ['9'.repeat(400), MAX_RETRY_AFTER_MS],
  ['Mon, 05 Jan 2026 12:00:30 GMT', 30_000],
  ['Mon, 05 Jan 2026 11:00:00 GMT', 0],
  ['Tue, 06 Jan 2026 12:00:00 GMT', MAX_RETRY_AFTER_MS],
  ['Fri, 30 Feb 2026 12:00:00 GMT', null],
  ['2026-01-05T12:00:30Z', null],
  ['Monday, 05-Jan-26 12:00:30 GMT', null],
  ['-7', null],
  ['7.5', null],
  ['7s', null],
  ['soon', null],
  ['', null],
  [null, null],
])('Retry-After %j asks to wait %j ms', (header, expected) => {
  expect(parseRetryAfter(header, now)).toBe(expected);
});

test('an HTTP date is read to the millisecond', () => {
  expect(parseHttpDate('Sun, 06 Nov 1994 08:49:37 GMT')).toBe(784_111_777_000);
});

test.each<[string, Record<string, string>, number, number | null]>([
  ['the same second', { date: 'Mon, 05 Jan 2026 12:00:00 GMT' }, now + 400, 0],
  ['their clock ahead', { date: 'Mon, 05 Jan 2026 12:00:10 GMT' }, now, 10_000],
  ['their clock behind', { date: 'Mon, 05 Jan 2026 12:00:00 GMT' }, now + 10_999, -10_000],
  ['no date', {}, now, null],
  ['an answer from a cache', { date: 'Mon, 05 Jan 2026 12:00:00 GMT', age: '30' }, now, null],
])('the skew with %s', (_case, headers, wallMs, expected) => {
  expect(clockSkewMs(new Headers(headers), wallMs)).toBe(expected);
});
