import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { openSecret, sealSecret } from '../../src/compliance/secrets.ts';
import { MirrorError, UsageError } from '../../src/errors.ts';

const key = randomBytes(32);

test('what was sealed opens with the same key and purpose, and twice sealed is never twice the same', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (secret, purpose) => {
      const sealed = sealSecret(key, secret, purpose);
      expect(sealed).toMatch(/^v1:[\w-]{16}:[\w-]{22,}$/);
      expect(openSecret(key, sealed, purpose)).toBe(secret);
      expect(sealSecret(key, secret, purpose)).not.toBe(sealed);
    }),
  );
});

const sealed = sealSecret(key, 'whsec_1234567890', 'registration');
const [version, nonce, body] = sealed.split(':') as [string, string, string];
const flipped = Buffer.from(body, 'base64url');
flipped[0]! ^= 1;

test.each<[string, Uint8Array, string, string, RegExp]>([
  ['another key', randomBytes(32), sealed, 'registration', /does not open with this CREDENTIALS_KEY/],
  ['another purpose', key, sealed, 'token', /does not open/],
  [
    'one bit changed',
    key,
    `${version}:${nonce}:${flipped.toString('base64url')}`,
    'registration',
    /does not open/,
  ],
  ['a later version', key, `v2:${nonce}:${body}`, 'registration', /form v1/],
  ['a part missing', key, `v1:${nonce}`, 'registration', /form v1/],
  ['a part too many', key, `${sealed}:x`, 'registration', /form v1/],
  ['a short tag', key, `v1:${nonce}:AAAA`, 'registration', /cut short/],
  ['a short nonce', key, `v1:AAAA:${body}`, 'registration', /cut short/],
])('with %s it does not open, and the error shows no secret', (_case, withKey, text, purpose, message) => {
  const error = caught(() => openSecret(withKey, text, purpose));
  expect(error).toBeInstanceOf(MirrorError);
  expect(error).toMatchObject({ code: 'secret_unreadable', message: expect.stringMatching(message) });
  expect(String((error as MirrorError).message)).not.toContain('whsec');
});

test('a key that is not 32 bytes long is named as the setting it comes from', () => {
  for (const bytes of [0, 16, 31, 33]) {
    expect(caught(() => sealSecret(randomBytes(bytes), 'x', 'token'))).toBeInstanceOf(UsageError);
    expect(caught(() => openSecret(randomBytes(bytes), sealed, 'token'))).toMatchObject({
      message: expect.stringContaining('CREDENTIALS_KEY'),
    });
  }
});

function caught(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
