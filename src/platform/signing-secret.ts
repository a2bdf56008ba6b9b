const FORMS = ['utf8', 'hex', 'base64'] as const;
type SecretForm = (typeof FORMS)[number];
/** How a secret's text becomes a key. `whsec_base64`: every text is `whsec_` and then the key in base64. */
export type SecretEncoding = SecretForm | `${string}_${SecretForm}`;

/** One or two words of letters and digits, by which senders mark a secret. */
const PREFIX = /^(?:[A-Za-z][A-Za-z0-9]*_){1,2}/;
const ENCODING = /^(?:[A-Za-z][A-Za-z0-9]*_){0,2}(?:utf8|hex|base64)$/;

/** 128 bits. A shorter key can be guessed offline from one recorded delivery. */
export const MIN_SIGNING_KEY_BYTES = 16;

const HEX = /^[0-9A-Fa-f]*$/;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const BASE64URL = /^[A-Za-z0-9_-]*={0,2}$/;
const BASE64_GROUP_CHARACTERS = 4;

export const isSecretEncoding = (text: string): text is SecretEncoding => ENCODING.test(text);

export function partsOfEncoding(encoding: SecretEncoding): { prefix: string; form: SecretForm } {
  const form = FORMS.find((each) => encoding.endsWith(each))!;
  return { prefix: encoding.slice(0, -form.length), form };
}

/** The prefixes of a secret's text that may be no part of the key, the shortest first: of `a_b_c` they are `a_` and `a_b_`. */
function prefixesOf(text: string): string[] {
  const [all] = PREFIX.exec(text) ?? [];
  if (all === undefined) return [];
  const first = all.slice(0, all.indexOf('_') + 1);
  return first === all ? [all] : [first, all];
}

export function encodeSecret(bytes: Uint8Array, encoding: SecretEncoding): string {
  const { prefix, form } = partsOfEncoding(encoding);
  return `${prefix}${Buffer.from(bytes).toString(form)}`;
}

/**
 * The bytes of a secret's text; null if any part of it is not in the encoding. `Buffer.from` alone would stop at the first unknown
 * character and make a key of the part before it.
 * hex: pairs of digits, of either case. base64: the standard alphabet or the one for URLs, not both; padded fully or not at all; no
 * bits left over. utf8: any text in which no bytes or halves of a character were lost.
 */
export function decodeWhole(text: string, encoding: SecretEncoding): Uint8Array | null {
  const { prefix, form } = partsOfEncoding(encoding);
  return text.startsWith(prefix) ? decodeForm(text.slice(prefix.length), form) : null;
}

function decodeForm(text: string, form: SecretForm): Uint8Array | null {
  if (form === 'hex') return HEX.test(text) && text.length % 2 === 0 ? Buffer.from(text, 'hex') : null;
  // U+FFFD stands for bytes that were no UTF-8.
  if (form === 'utf8') return text.isWellFormed() && !text.includes('\ufffd') ? Buffer.from(text) : null;
  if (!BASE64.test(text) && !BASE64URL.test(text)) return null;
  if (text.endsWith('=') && text.length % BASE64_GROUP_CHARACTERS !== 0) return null;
  const bytes = Buffer.from(text, 'base64');
  const digits = text
    .replace(/={1,2}$/, '')
    .replaceAll('+', '-')
    .replaceAll('/', '_');
  return bytes.toString('base64url') === digits ? bytes : null;
}

export type SecretFlaw = 'not_in_encoding' | 'too_short';
type DecodedSecret = { key: Uint8Array; flaw: null } | { key: null; flaw: SecretFlaw };

/** The key of a signing secret's text, wherever the text comes from. */
export function decodeSigningSecret(text: string, encoding: SecretEncoding): DecodedSecret {
  const key = decodeWhole(text, encoding);
  if (key === null) return { key: null, flaw: 'not_in_encoding' };
  return key.length < MIN_SIGNING_KEY_BYTES ? { key: null, flaw: 'too_short' } : { key, flaw: null };
}

/** The values of WEBHOOK_SECRET_ENCODING with which the text makes a key. */
export function fittingEncodings(text: string): SecretEncoding[] {
  const all = ['', ...prefixesOf(text)].flatMap((prefix) =>
    FORMS.map((form) => `${prefix}${form}` as SecretEncoding),
  );
  return all.filter((encoding) => decodeSigningSecret(text, encoding).flaw === null);
}

/** For people, to follow "it". Shows neither the text nor its length. */
export function flawText(flaw: SecretFlaw, encoding: SecretEncoding): string {
  if (flaw === 'too_short') return `is shorter than ${MIN_SIGNING_KEY_BYTES} bytes once decoded`;
  const { prefix, form } = partsOfEncoding(encoding);
  const what = form === 'utf8' ? 'is not whole text (UTF-8)' : `is not wholly ${form}`;
  return prefix === '' ? what : `${what} behind "${prefix}"`;
}
