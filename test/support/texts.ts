import fc from 'fast-check';

/** What parsers, terminals and databases take for something else than a character of a text. */
const HARD = [
  ...'\0\t\n\r\u001b"\'\\`$%&;,./<=>{}[]\u007f\u0085\u00a0\u00ad\u0301',
  ...'\u200b\u200d\u202e\u2028\u2029\u2066\ufe0f\ufeff\ufffd\uffff\u{1f4a5}\u{e0001}\u{10ffff}',
];

/** Between them lie the halves of pairs, which are no characters. */
const [PAIRS_BEGIN, PAIRS_END] = [0xd800, 0xe000];
const anyCharacter = fc
  .oneof(fc.integer({ min: 0, max: PAIRS_BEGIN - 1 }), fc.integer({ min: PAIRS_END, max: 0x10ffff }))
  .map((point) => String.fromCodePoint(point));

const character = fc.oneof(fc.string({ minLength: 1, maxLength: 1 }), fc.constantFrom(...HARD), anyCharacter);

/** Any well-formed text, the hard ones more often. fast-check's own unit `binary` has the same reach, and takes seconds to be made. */
export const anyText = (lengths: { minLength?: number; maxLength?: number } = {}) =>
  fc.string({ unit: character, ...lengths });
