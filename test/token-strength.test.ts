import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { estimatedBits, TOKEN_MIN_BITS } from '../src/platform/token-strength.ts';

const times = (text: string, count: number) => text.repeat(count);

test.each([
  // what is made by chance, by the bits that went in
  ['16 hex digits', '9f3ac1b07d5e2846', 64],
  ['24 hex digits', '9f3ac1b07d5e2846c03b91af', 96],
  ['24 hex digits, large', '9F3AC1B07D5E2846C03B91AF', 96],
  ['a UUID', '550e8400-e29b-41d4-a716-446655440000', 128],
  ['16 hex digits with dashes', '9f3a-c1b0-7d5e-2846', 64],
  ['28 digits', '4829105736281940573826194057', 76],
  ['16 characters of base64', 'q8Zt-3LxVb7Kp2Wm', 96],
  ['16 characters of base64 that have no sign by chance', 'q8Zt3LxVb7Kp2WmN', 96],
  ['15 letters', 'qzjkwvxhbtmrpld', 70],
  // what only looks long
  ['nothing', '', 0],
  ['dashes', times('-', 40), 0],
  ['one character again and again', times('a', 100), 0],
  ['two in turn', times('ab', 50), 2],
  ['an alphabet', 'abcdefghijklmnopqrstuvwxyz', 4],
  ['a word again and again', times('password', 8), 28],
  ['sixteen hex digits twice', times('9f3ac1b07d5e2846', 2), 68],
  ['digits in order', '012345678901234567890123456789', 6],
])('%s: %j is worth about %d bits', (_name, token, bits) => {
  expect(Math.abs(estimatedBits(token) - bits)).toBeLessThanOrEqual(6);
});

test('what openssl makes is taken, of 12 bytes and more, in each of its forms', () => {
  for (let n = 0; n < 500; n += 1) {
    for (const token of [randomBytes(16).toString('hex'), randomBytes(18).toString('base64url')]) {
      expect([token, estimatedBits(token) >= TOKEN_MIN_BITS]).toEqual([token, true]);
    }
  }
});

test('the length costs no more than the length', () => {
  expect(estimatedBits(randomBytes(500_000).toString('base64url'))).toBeGreaterThan(1_000);
});
