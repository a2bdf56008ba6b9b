import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseSignatureHeader } from '../../src/receive/signature.ts';
import { anyText } from '../support/texts.ts';

const DIGEST_BYTES = 32;
const MOST_SIGNATURES = 8;
const LONGEST = 1024;
const isIn = (allowed: string) => (character: string) => allowed.includes(character);
const HEX = isIn('0123456789abcdefABCDEF');
const KEY = isIn('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-');

/** The same rules, said character by character: what each element is, or null for a header that is no such list. */
function elementsOf(value: string): [key: string, content: string][] | null {
  const elements: [string, string][] = [];
  for (const text of value.split(',')) {
    let at = 0;
    while (text[at] === ' ' || text[at] === '\t') at++;
    const equals = text.indexOf('=', at);
    const [key, content] = [text.slice(at, equals), text.slice(equals + 1)];
    if (equals <= at || ![...key].every(KEY)) return null;
    for (const character of content) if (character.trim() === '') return null;
    elements.push([key, content]);
  }
  return elements;
}

function expected(value: string): { t: string; signatures: string[] } | null {
  const elements = value === '' || value.length > LONGEST ? null : elementsOf(value);
  if (elements === null) return null;
  const times = new Set(elements.filter(([key]) => key === 't').map(([, content]) => content));
  const signatures = elements.filter(([key]) => key === 'v1').map(([, content]) => content);
  const [t] = times;
  if (t === undefined || times.size !== 1) return null;
  if (signatures.length < 1 || signatures.length > MOST_SIGNATURES) return null;
  return signatures.every((text) => text.length === DIGEST_BYTES * 2 && [...text].every(HEX))
    ? { t, signatures }
    : null;
}

describe('whatever stands in the header', () => {
  const digest = fc
    .uint8Array({ minLength: DIGEST_BYTES, maxLength: DIGEST_BYTES })
    .map((bytes) => Buffer.from(bytes).toString('hex'));
  const element = fc.oneof(
    { weight: 4, arbitrary: digest.map((text) => `v1=${text}`) },
    { weight: 3, arbitrary: fc.constantFrom('t=1767225600', 't=1', 't=') },
    fc.constantFrom(
      'v0=x',
      'kid=a=b',
      '',
      ' ',
      '=',
      't',
      'v1=',
      'V1=aa',
      'a\u00a0=1',
      'a=\u00a0',
      'a=\u2003',
    ),
    anyText({ maxLength: 12 }),
  );
  const list = fc
    .array(fc.tuple(fc.constantFrom('', ' ', '\t', '  ', '\u00a0'), element), { maxLength: 12 })
    .map((parts) => parts.map(([blank, text]) => blank + text).join(','));
  const bytes = fc.uint8Array({ maxLength: 1100 }).map((each) => Buffer.from(each).toString('latin1'));

  it('there is a verdict, and the one of the rules said character by character', () => {
    fc.assert(
      fc.property(fc.oneof({ weight: 4, arbitrary: list }, bytes), (value) => {
        const parsed = parseSignatureHeader(value, DIGEST_BYTES);
        const { t, signatures } = parsed.ok ? parsed : { t: null, signatures: null };
        expect(parsed.ok ? { t, signatures } : null).toEqual(expected(value));
        if (!parsed.ok) expect(parsed.reason).toMatch(/^[a-z_]+$/);
      }),
      { numRuns: 2_000 },
    );
  });

  it.each([',', '=', ' ', '\t', '\u00a0', 'a=', 'v1=', 't=1,', '0'])(
    'a million times %j is judged as quickly as it can be read',
    (piece) => {
      expect(parseSignatureHeader(piece.repeat(1_000_000), DIGEST_BYTES).ok).toBe(false);
      expect(parseSignatureHeader(piece.repeat(LONGEST / piece.length), DIGEST_BYTES).ok).toBe(false);
    },
  );
});
