import { expect, it } from 'vitest';
import { UpstreamError, unreadableText } from '../../src/compliance/errors.ts';

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
