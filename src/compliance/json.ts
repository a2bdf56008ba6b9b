import { hash } from 'node:crypto';

/** Is in each text with a number that a double may round. Other texts that match are only read twice. */
const MAY_BE_LARGE = /(?:^|[\s,:[])-?\d{16}/;

/** A longer number stays a double: the time to read it would grow with the square of its length. */
const LARGE = /^-?\d{16,254}$/;

/**
 * JSON.parse for everything that holds records: a whole number that a double may round, such as a 64-bit id, becomes a bigint.
 * JSON.stringify writes it as a number again, with every digit. Throws SyntaxError. Only a text with such a number gets a reviver, which
 * takes six times as long as JSON.parse.
 */
export function parseJson(text: string): unknown {
  const rounded: unknown = JSON.parse(text);
  if (!MAY_BE_LARGE.test(text)) return rounded;
  try {
    return JSON.parse(text, exactly);
  } catch {
    // A reviver recurses. What is nested so deep is refused by whoever asked for it.
    return rounded;
  }
}

function exactly(_name: string, value: unknown, { source = '' }: { source?: string } = {}): unknown {
  const isRounded = typeof value === 'number' && !Number.isSafeInteger(value) && LARGE.test(source);
  return isRounded ? BigInt(source) : value;
}

/** The decimal text of a whole number that `parseJson` has kept exactly; null for any other value. */
export function wholeNumber(value: unknown): string | null {
  return typeof value === 'bigint' || Number.isSafeInteger(value) ? String(value) : null;
}

// Not yet in TypeScript's library.
const { rawJSON } = JSON as unknown as { rawJSON(text: string): object };

Object.defineProperty(BigInt.prototype, 'toJSON', {
  value(this: bigint) {
    return rawJSON(String(this));
  },
  configurable: true,
  writable: true,
});

/**
 * SHA-256 (hex) of the canonical `{type, created, data}` of a delivery's body, or of its text if it is no JSON object. Tells a
 * redelivery from another event with the same id. Computed only for an id seen before: for every delivery it was a twentieth of
 * the cost of accepting.
 */
export function contentHashOf(body: string): string {
  return hash('sha256', comparable(body), 'hex');
}

function comparable(body: string): string {
  try {
    const { created, data, type } = parseJson(body) as Record<string, unknown>;
    return canonicalJson({ created: created ?? null, data: data ?? null, type: type ?? null });
  } catch {
    return body;
  }
}

/**
 * JSON without spaces, and with each object's fields sorted by their UTF-16 code units, so that documents with the same value get
 * the same text. `value` comes from parseJson. Recurses, so its depth must be limited.
 */
export function canonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) {
    let text = '[';
    for (let i = 0; i < value.length; i++) text += (i === 0 ? '' : ',') + canonicalJson(value[i]);
    return `${text}]`;
  }
  const object = value as Record<string, unknown>;
  let text = '';
  // Own fields only, `__proto__` among them where the document had one.
  for (const name of Object.keys(object).sort()) {
    text += `${text === '' ? '{' : ','}${JSON.stringify(name)}:${canonicalJson(object[name])}`;
  }
  return text === '' ? '{}' : `${text}}`;
}
