/** Bodies as people read them. */

/** What stands on a page; the rest is in the API. */
export const HEX_SHOWN_BYTES = 4096;
const HEX_ROW_BYTES = 16;

/**
 * JSON, indented; null: it is none. Only white space is changed: parsing and printing again would round large
 * numbers and drop repeated keys, and show something that nobody signed.
 */
export function indentedJson(text: string): string | null {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let depth = 0;
  const line = () => `\n${'  '.repeat(depth)}`;
  return text.replaceAll(/"(?:[^"\\]|\\.)*"|\{\s*\}|\[\s*\]|[{}[\],:]|\s+|[^\s{}[\],:"]+/g, (token) => {
    if (/^[{[]\s*[}\]]$/.test(token)) return token.replaceAll(/\s+/g, '');
    if (token === '{' || token === '[') {
      depth += 1;
      return `${token}${line()}`;
    }
    if (token === '}' || token === ']') {
      depth -= 1;
      return `${line()}${token}`;
    }
    if (token === ',') return `,${line()}`;
    if (token === ':') return ': ';
    return /^\s+$/.test(token) ? '' : token;
  });
}

/** `0000  7b 22 69 64 …  {"id…`, a line for 16 bytes; the first `HEX_SHOWN_BYTES`. */
export function hexDump(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(bytes.length, HEX_SHOWN_BYTES); at += HEX_ROW_BYTES) {
    const row = [...bytes.subarray(at, Math.min(at + HEX_ROW_BYTES, bytes.length))];
    const hex = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '·')).join('');
    lines.push(`${at.toString(16).padStart(4, '0')}  ${hex.padEnd(HEX_ROW_BYTES * 3 - 1)}  ${text}`);
  }
  return lines.join('\n');
}

/** The text of bytes; null: they are not UTF-8. */
export function utf8Text(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

export interface FieldChange {
  /** `name`, or `data.owner.name` for what lies within the record. */
  field: string;
  /** JSON; null: the field did not exist. */
  before: string | null;
  after: string | null;
}

/** A change, field by field. Both sides hold changed fields only; one that is missing on a side did not exist there. */
export function fieldChanges(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): FieldChange[] {
  const sides = [fieldsOf(before), fieldsOf(after)] as const;
  const names = new Set(sides.flatMap((side) => [...side.keys()]));
  return [...names].map((field) => ({
    field,
    before: sides[0].get(field) ?? null,
    after: sides[1].get(field) ?? null,
  }));
}

function fieldsOf(side: Readonly<Record<string, unknown>>): Map<string, string> {
  const fields = new Map<string, string>();
  for (const [name, value] of Object.entries(side)) {
    if (name === 'data' && typeof value === 'object' && value !== null && !Array.isArray(value)) {
      for (const [inner, content] of Object.entries(value))
        fields.set(`data.${inner}`, JSON.stringify(content));
    } else {
      fields.set(name, JSON.stringify(value));
    }
  }
  return fields;
}
