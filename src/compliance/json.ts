import { hash, randomBytes } from 'node:crypto';

/** A text without such a run of digits has no large number. Tested first, because looking for one takes longer. */
const MAY_BE_LARGE = /\d{16}/;

/** A longer number stays a double: the time to read it would grow with the square of its length. */
const LARGE = /(?<=[\s,:[]|^)-?[1-9]\d{15,253}(?![\d.eE])/g;

/** Begins the string that stands for a number. Random, so that nobody can send such a string. */
const MARK = randomBytes(9).toString('base64url');

/**
 * JSON.parse for everything that holds records: a whole number that a double may round, such as a 64-bit id, becomes a bigint.
 * JSON.stringify writes it as a number again, with every digit. Throws SyntaxError. A reviver, which can see each number's text, would
 * take up to sixty times as long as JSON.parse.
 */
export function parseJson(text: string): unknown {
  const rounded: unknown = JSON.parse(text);
  if (!MAY_BE_LARGE.test(text)) return rounded;
  const marked = withMarks(text);
  return marked === text ? rounded : withoutMarks(JSON.parse(marked));
}

function withMarks(json: string): string {
  let start = json.indexOf('"');
  let end = 0;
  return json.replace(LARGE, (digits: string, at: number) => {
    while (start !== -1 && start < at) {
      end = endOfString(json, start);
      start = json.indexOf('"', end);
    }
    const isInString = at < end;
    return isInString || Number.isSafeInteger(Number(digits)) ? digits : `"${MARK}${digits}"`;
  });
}

/** Where the string that begins at `from` ends. `json` must be JSON. */
function endOfString(json: string, from: number): number {
  let at = from + 1;
  while (json[at] !== '"') at += json[at] === '\\' ? 2 : 1;
  return at + 1;
}

/** Does not recurse, because its value can be of any depth. */
function withoutMarks(value: unknown): unknown {
  const whole = { value };
  const open: Record<number | string, unknown>[] = [whole];
  for (let container = open.pop(); container !== undefined; container = open.pop()) {
    for (const key of Array.isArray(container) ? container.keys() : Object.keys(container)) {
      const each = container[key];
      if (typeof each === 'object' && each !== null) open.push(each as Record<string, unknown>);
      else if (typeof each === 'string' && each.startsWith(MARK))
        container[key] = BigInt(each.slice(MARK.length));
    }
  }
  return whole.value;
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
