/** A weaker token could be found by someone who has a copy of its hash. */
export const TOKEN_MIN_BITS = 96;

/** In a random token no part of this many characters comes twice. If one does, it is a pattern. */
const PATTERN_CHARACTERS = 6;

/**
 * An upper estimate of a token's entropy in bits, from its characters alone. It is right for a token of `openssl rand`, and too
 * high for words and dates.
 *
 *     bits = counted characters × log2(alphabet) × min(1, (distinct − 1) ÷ half of what chance would give)
 *
 * - alphabet: 10 for digits, 16 for hex of one case (both with or without `-`, `_`, `.` and `:` between), 64 for small and large
 *   letters together, as in base64; otherwise 26 for letters and 10 for digits; and 32 more for other characters
 * - counted: a run (`aaaa`, `1234`, `dcba`) of six or more counts as one character, and so does a part of six or more that came
 *   before
 * - distinct: a repeated single character counts nothing; chance gives alphabet × (1 − (1 − 1 ÷ alphabet)^length)
 */
export function estimatedBits(token: string): number {
  const bare = token.replaceAll(/[-_.:]/g, '');
  const isPlain = /^(\d+|[\da-f]+|[\dA-F]+)$/.test(bare);
  const text = isPlain ? bare : token;
  if (text === '') return 0;
  const alphabet = alphabetOf(text);
  const distinct = new Set(text).size;
  const byChance = alphabet * (1 - (1 - 1 / alphabet) ** text.length);
  const variety = Math.min(1, (distinct - 1) / Math.max(1, (byChance - 1) / 2));
  return counted(text) * Math.log2(alphabet) * variety;
}

function alphabetOf(text: string): number {
  if (/^\d+$/.test(text)) return 10;
  if (/^([\da-f]+|[\dA-F]+)$/.test(text)) return 16;
  const [small, large] = [/[a-z]/.test(text), /[A-Z]/.test(text)];
  if (small && large) return 64 + (/[^\w+/=-]/.test(text) ? 32 : 0);
  return (small || large ? 26 : 0) + (/\d/.test(text) ? 10 : 0) + (/[^a-zA-Z\d]/.test(text) ? 32 : 0);
}

/** Of a longer token only the beginning is judged, because the search for repeated parts costs the square of the length. */
const JUDGED_CHARACTERS = 256;

function counted(whole: string): number {
  const text = whole.slice(0, JUDGED_CHARACTERS);
  let count = 0;
  let at = 0;
  while (at < text.length) {
    const known = Math.max(runAt(text, at), repeatAt(text, at));
    at += known >= PATTERN_CHARACTERS ? known : 1;
    count += 1;
  }
  return count;
}

/** The length of the run that begins at `at`: each character is the next, the previous or the same one. */
function runAt(text: string, at: number): number {
  const step = text.charCodeAt(at + 1) - text.charCodeAt(at);
  if (Number.isNaN(step) || Math.abs(step) > 1) return 1;
  let end = at + 2;
  while (end < text.length && text.charCodeAt(end) - text.charCodeAt(end - 1) === step) end += 1;
  return end - at;
}

/** The length of the longest part from `at` on that came before. */
function repeatAt(text: string, at: number): number {
  let longest = 0;
  for (let from = 0; from < at; from += 1) {
    let length = 0;
    while (at + length < text.length && text[from + length] === text[at + length]) length += 1;
    longest = Math.max(longest, length);
  }
  return longest;
}
