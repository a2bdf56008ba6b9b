import { expect, it } from 'vitest';
import {
  isUnreadable,
  UpstreamError,
  type UpstreamErrorKind,
  unreadableText,
} from '../../src/compliance/errors.ts';

it.each<[UpstreamErrorKind, boolean]>([
  ['malformed', true],
  ['unexpected_status', true],
  ['unauthorized', false],
  ['forbidden', false],
  ['rate_limited', false],
  ['server', false],
  ['unreachable', false],
  ['no_credentials', false],
  ['not_taken', true],
])('an answer that is %s is unreadable: %s', (kind, expected) => {
  expect(isUnreadable(new UpstreamError(kind, 'GET /x: y'))).toBe(expected);
});

it('says how the answer began, on one line, bounded and without control characters', () => {
  const excerpt = `<html>\r\n  <title>\u0000\u001b[31mSign in\u202e</title>${'x'.repeat(1_000)}`;
  const text = unreadableText(new UpstreamError('malformed', 'GET /x: the answer is not JSON', { excerpt }));
  expect(text).toMatch(
    /^GET \/x: the answer is not JSON; it begins: <html> <title>\\u\{0\}\\u\{1b\}\[31mSign in/,
  );
  expect(text).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  expect(text.length).toBeLessThan(400);
  expect(unreadableText(new UpstreamError('malformed', 'GET /x: the answer is empty'))).toBe(
    'GET /x: the answer is empty',
  );
});
