import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decodeSigningSecret,
  encodeSecret,
  fittingEncodings,
  isSecretEncoding,
  MIN_SIGNING_KEY_BYTES,
  type SecretEncoding,
} from '../../src/platform/signing-secret.ts';

const FULL = '00112233445566778899aabbccddeeff';
const flawOf = (text: string, encoding: SecretEncoding) => decodeSigningSecret(text, encoding).flaw;

describe('a signing secret makes a key', () => {
  it.each<[string, SecretEncoding, string, string]>([
    ['16 bytes in hex', 'hex', FULL, FULL],
    ['hex of either case', 'hex', FULL.toUpperCase(), FULL],
    ['padded base64', 'base64', 'ABEiM0RVZneImaq7zN3u/w==', FULL],
    ['base64 without its padding', 'base64', 'ABEiM0RVZneImaq7zN3u/w', FULL],
    ['base64 for URLs', 'base64', 'ABEiM0RVZneImaq7zN3u_w==', FULL],
    ['base64 behind a prefix', 'whsec_base64', 'whsec_ABEiM0RVZneImaq7zN3u/w==', FULL],
    ['hex behind a prefix of two words', 'wh_live_hex', `wh_live_${FULL}`, FULL],
    [
      'text behind a prefix',
      'whsec_utf8',
      'whsec_0123456789abcdef',
      Buffer.from('0123456789abcdef').toString('hex'),
    ],
    ['text', 'utf8', '0123456789abcdef', Buffer.from('0123456789abcdef').toString('hex')],
    ['text of fewer characters than bytes', 'utf8', 'ééééúúúú', Buffer.from('ééééúúúú').toString('hex')],
  ])('of %s', (_, encoding, text, hex) => {
    expect(Buffer.from(decodeSigningSecret(text, encoding).key ?? []).toString('hex')).toBe(hex);
  });

  it('of whatever bytes were written down, and of exactly these', () => {
    const bytes = fc.uint8Array({ minLength: MIN_SIGNING_KEY_BYTES, maxLength: 80 });
    fc.assert(
      fc.property(bytes, fc.constantFrom('hex', 'base64', 'base64url'), (key, form) => {
        const encoding = form === 'hex' ? 'hex' : 'base64';
        const decoded = decodeSigningSecret(Buffer.from(key).toString(form), encoding);
        expect(decoded).toEqual({ key: Buffer.from(key), flaw: null });
      }),
    );
  });
});

describe('a signing secret makes no key', () => {
  it.each<[string, SecretEncoding, string]>([
    ['text that is no hex', 'hex', 'whsec_c2VjcmV0LW9mLXRoZS1zYW5kYm94'],
    ['hex with half a byte too many', 'hex', `${FULL}0`],
    ['hex with a blank in it', 'hex', `${FULL} ${FULL}`],
    ['base64 of both alphabets', 'base64', 'ABEiM0RVZneImaq7zN3u/-'],
    ['base64 with half its padding', 'base64', 'ABEiM0RVZneImaq7zN3u/w='],
    ['base64 with bits left over', 'base64', 'ABEiM0RVZneImaq7zN3u/x=='],
    ['base64 with more behind its padding', 'base64', 'ABEiM0RVZneImaq7zN3u/w==AAAA'],
    ['base64 that lacks its prefix', 'whsec_base64', 'ABEiM0RVZneImaq7zN3u/w=='],
    ['base64 behind another prefix', 'whsec_base64', 'whsek_ABEiM0RVZneImaq7zN3u/w=='],
    ['half a character', 'utf8', `${'x'.repeat(20)}\ud800`],
    ['text in which bytes were lost when it was read', 'utf8', '\ufffd'.repeat(20)],
  ])('of %s', (_, encoding, text) => {
    expect(flawOf(text, encoding)).toBe('not_in_encoding');
  });

  it('where it decodes to fewer than 16 bytes, whatever its length as text', () => {
    for (let bytes = 0; bytes < MIN_SIGNING_KEY_BYTES; bytes++) {
      const key = randomBytes(bytes);
      expect(flawOf(key.toString('hex'), 'hex')).toBe('too_short');
      expect(flawOf(key.toString('base64'), 'base64')).toBe('too_short');
      expect(flawOf('x'.repeat(bytes), 'utf8')).toBe('too_short');
    }
  });

  it('that is shorter than its text says, whatever the text', () => {
    const texts = fc.oneof(
      fc.array(fc.integer({ min: 0, max: 0xffff })).map((codes) => String.fromCharCode(...codes)),
      fc.string({ unit: fc.constantFrom(...'0123456789abcdefABCDEF g=+/-_\n') }),
    );
    fc.assert(
      fc.property(texts, (text) => {
        const decoded = (encoding: SecretEncoding) => decodeSigningSecret(text, encoding).key;
        const hex = decoded('hex');
        if (hex !== null) expect(hex.length * 2).toBe(text.length);
        const base64 = decoded('base64');
        if (base64 !== null) expect(base64.length).toBe(Math.floor((text.replace(/=*$/, '').length * 3) / 4));
        const utf8 = decoded('utf8');
        if (utf8 !== null) expect(Buffer.from(utf8).toString('utf8')).toBe(text);
        for (const key of [hex, base64, utf8]) {
          if (key !== null) expect(key.length).toBeGreaterThanOrEqual(MIN_SIGNING_KEY_BYTES);
        }
      }),
      { numRuns: 2000 },
    );
  });
});

it('is said to fit the encodings under which it makes a key', () => {
  expect(fittingEncodings(FULL)).toEqual(['utf8', 'hex', 'base64']);
  expect(fittingEncodings('whsec_0123456789:abcdef')).toEqual(['utf8', 'whsec_utf8']);
  expect(fittingEncodings('whsec_ABEiM0RVZneImaq7zN3u/w==')).toEqual(['utf8', 'whsec_utf8', 'whsec_base64']);
  expect(fittingEncodings('ABEiM0RVZneImaq7zN3u/w==')).toEqual(['utf8', 'base64']);
  expect(fittingEncodings('short')).toEqual([]);
});

it.each<SecretEncoding>(['utf8', 'hex', 'base64', 'whsec_base64', 'wh_live_utf8'])(
  'is written as %s and read again',
  (encoding) => {
    const key = Buffer.from('0123456789abcdef');
    expect(decodeSigningSecret(encodeSecret(key, encoding), encoding).key).toEqual(key);
  },
);

it.each(['whsec_base64', 'v1_live_hex'])('%s is an encoding', (text) => {
  expect(isSecretEncoding(text)).toBe(true);
});

it.each(['', '_hex', 'whsec_', 'whsecbase64', 'wh sec_hex', 'a_b_c_hex', 'base64url', 'HEX'])(
  '"%s" is no encoding',
  (text) => {
    expect(isSecretEncoding(text)).toBe(false);
  },
);
