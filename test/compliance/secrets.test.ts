import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { openSecret, type SealedPlace, sealSecret } from '../../src/compliance/secrets.ts';
import { MirrorError } from '../../src/platform/errors.ts';

const key = randomBytes(32);
const TABLE = fc.constantFrom('registrations' as const, 'registration_answers' as const, 'tokens' as const);

test('what was sealed opens with the same key in the same place, and twice sealed is never twice the same', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), TABLE, fc.string(), (secret, table, row) => {
      const place = { table, row };
      const sealed = sealSecret(key, secret, place);
      expect(sealed).toMatch(/^v1:[\w-]{16}:[\w-]{22,}$/);
      expect(openSecret(key, sealed, place)).toBe(secret);
      expect(sealSecret(key, secret, place)).not.toBe(sealed);
    }),
  );
});

const PLACE: SealedPlace = { table: 'registrations', row: 'wh_1' };
const sealed = sealSecret(key, 'whsec_1234567890', PLACE);
const [version, nonce, body] = sealed.split(':') as [string, string, string];
const flipped = Buffer.from(body, 'base64url');
flipped[0]! ^= 1;

test.each<[string, Uint8Array, string, SealedPlace, RegExp]>([
  ['another key', randomBytes(32), sealed, PLACE, /does not open with this CREDENTIALS_KEY/],
  ['another table', key, sealed, { table: 'tokens', row: 'wh_1' }, /does not open/],
  ['another row', key, sealed, { table: 'registrations', row: 'wh_2' }, /does not open/],
  [
    'what reads alike together',
    key,
    sealed,
    { table: 'registrations wh_1', row: '' } as never,
    /does not open/,
  ],
  ['one bit changed', key, `${version}:${nonce}:${flipped.toString('base64url')}`, PLACE, /does not open/],
  ['a later version', key, `v2:${nonce}:${body}`, PLACE, /form v1/],
  ['a part missing', key, `v1:${nonce}`, PLACE, /form v1/],
  ['a part too many', key, `${sealed}:x`, PLACE, /form v1/],
  ['a short tag', key, `v1:${nonce}:AAAA`, PLACE, /cut short/],
  ['a short nonce', key, `v1:AAAA:${body}`, PLACE, /cut short/],
])('with %s it does not open, and the error shows no secret', (_case, withKey, text, place, message) => {
  const error = caught(() => openSecret(withKey, text, place));
  expect(error).toBeInstanceOf(MirrorError);
  expect(error).toMatchObject({ code: 'secret_unreadable', message: expect.stringMatching(message) });
  expect(String((error as MirrorError).message)).not.toContain('whsec');
});

function caught(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
