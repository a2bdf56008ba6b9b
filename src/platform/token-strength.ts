/** Below this, a token could be found by someone who has a copy of its hash; over the network no token is found at 96 bits. */
export const TOKEN_MIN_BITS = 96;

/** A part of this length does not come twice in a random token: one that does is a pattern. Characters. */
const PATTERN_CHARACTERS = 6;

/**
 * The entropy of a token in bits, as its characters let one guess it, from above: words and dates look better than they
 * are, and a token of `openssl rand` looks as good as it is.
 *
 *     bits = counted characters × log2(alphabet) × min(1, (distinct − 1) ÷ half of what chance would give)
 *
 * - alphabet: 10 for digits, 16 for hex of one case (both with or without `-`, `_`, `.` and `:` between), 64 for small and large
 *   letters together, as in base64; else 26 for letters and 10 for digits; and 32 more for other characters
 * - counted: a run (`aaaa`, `1234`, `dcba`) of six or more counts as one character, and so does a part of six or more that came
 *   before
 * - distinct: one character again and again is nothing, however long; chance gives alphabet × (1 − (1 − 1 ÷ alphabet)^length)
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

/** Longer tokens are judged by their beginning: it is enough, and comparing stretches costs the square of the length. */
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

/** How many characters from `at` on go up, down or nowhere by the same step. */
function runAt(text: string, at: number): number {
  const step = text.charCodeAt(at + 1) - text.charCodeAt(at);
  if (Number.isNaN(step) || Math.abs(step) > 1) return 1;
  let end = at + 2;
  while (end < text.length && text.charCodeAt(end) - text.charCodeAt(end - 1) === step) end += 1;
  return end - at;
}

/** How many characters from `at` on came somewhere before. */
function repeatAt(text: string, at: number): number {
  let longest = 0;
  for (let from = 0; from < at; from += 1) {
    let length = 0;
    while (at + length < text.length && text[from + length] === text[at + length]) length += 1;
    longest = Math.max(longest, length);
  }
  return longest;
}
