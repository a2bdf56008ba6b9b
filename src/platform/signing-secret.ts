const FORMS = ['utf8', 'hex', 'base64'] as const;
type SecretForm = (typeof FORMS)[number];
/** How a secret's text becomes a key. `whsec_base64`: base64 after `whsec_`, with which every text begins and which is no part of the key. */
export type SecretEncoding = SecretForm | `${string}_${SecretForm}`;

/** Each of letters and digits, as senders mark what a text is for. */
const PREFIX = /^(?:[A-Za-z][A-Za-z0-9]*_){1,2}/;
const ENCODING = /^(?:[A-Za-z][A-Za-z0-9]*_){0,2}(?:utf8|hex|base64)$/;

/** 128 bits: a shorter key can be guessed from one recorded delivery, away from us and without limit. */
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

/** What a secret's text begins with and its key may lack, the shortest first: of `a_b_c` that is `a_` and `a_b_`. */
export function prefixesOf(text: string): string[] {
  const [all] = PREFIX.exec(text) ?? [];
  if (all === undefined) return [];
  const first = all.slice(0, all.indexOf('_') + 1);
  return first === all ? [all] : [first, all];
}

/** The text of these bytes. */
export function encodeSecret(bytes: Uint8Array, encoding: SecretEncoding): string {
  const { prefix, form } = partsOfEncoding(encoding);
  return `${prefix}${Buffer.from(bytes).toString(form)}`;
}

/**
 * The bytes that a secret's text means, or null where any part of it means nothing. `Buffer.from` alone stops at
 * the first character that it does not know, and would make a key of what it had got until then, or of nothing.
 * hex: pairs of digits, of either case. base64: the standard alphabet or the one for URLs, not both; padded fully or
 * not at all; no bits left over. utf8: any text but one in which bytes or halves of a character were lost already.
 */
export function decodeWhole(text: string, encoding: SecretEncoding): Uint8Array | null {
  const { prefix, form } = partsOfEncoding(encoding);
  return text.startsWith(prefix) ? decodeForm(text.slice(prefix.length), form) : null;
}

function decodeForm(text: string, form: SecretForm): Uint8Array | null {
  if (form === 'hex') return HEX.test(text) && text.length % 2 === 0 ? Buffer.from(text, 'hex') : null;
  // U+FFFD is what a reader of UTF-8 puts in the place of bytes that are none.
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

/** The one way from a signing secret's text to its key, wherever the text comes from. */
export function decodeSigningSecret(text: string, encoding: SecretEncoding): DecodedSecret {
  const key = decodeWhole(text, encoding);
  if (key === null) return { key: null, flaw: 'not_in_encoding' };
  return key.length < MIN_SIGNING_KEY_BYTES ? { key: null, flaw: 'too_short' } : { key, flaw: null };
}

/** Settings of WEBHOOK_SECRET_ENCODING under which the text makes a key. */
export function fittingEncodings(text: string): SecretEncoding[] {
  const all = ['', ...prefixesOf(text)].flatMap((prefix) =>
    FORMS.map((form) => `${prefix}${form}` as SecretEncoding),
  );
  return all.filter((encoding) => decodeSigningSecret(text, encoding).flaw === null);
}

/** For people, behind "it"; names neither the text nor its length. */
export function flawText(flaw: SecretFlaw, encoding: SecretEncoding): string {
  if (flaw === 'too_short') return `is shorter than ${MIN_SIGNING_KEY_BYTES} bytes once decoded`;
  const { prefix, form } = partsOfEncoding(encoding);
  const what = form === 'utf8' ? 'is not whole text (UTF-8)' : `is not wholly ${form}`;
  return prefix === '' ? what : `${what} behind "${prefix}"`;
}
