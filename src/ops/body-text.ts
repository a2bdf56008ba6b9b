/** Bodies as people read them. */

import { endOfString } from '../compliance/json.ts';

/** Bytes that a page shows in hex; the API has all of them. */
export const HEX_SHOWN_BYTES = 4096;
const HEX_ROW_BYTES = 16;

/** Characters of one text on a page: nobody reads more, and a browser stalls on it. As markup each may take five or six bytes. */
export const TEXT_SHOWN_CHARACTERS = 64 * 1024;
/** Of one value in the table of a change; the API has all of it. */
const VALUE_SHOWN_CHARACTERS = 4096;
/** Of a name, a status or a version in a heading or a row. */
export const NAME_SHOWN_CHARACTERS = 160;
/** Of one change; the API has all of them. */
export const FIELDS_SHOWN = 200;
/** Deeper values are on one line: an indent for every level makes a page grow with the square of the depth. */
export const INDENTED_DEPTH = 24;
const INDENT = '  ';

/**
 * A text as pages show it: JSON is indented, anything else is as it was. At most about twice TEXT_SHOWN_CHARACTERS. `left`:
 * characters left out at the end.
 */
export function shownText(text: string) {
  if (text.length > TEXT_SHOWN_CHARACTERS || !isJson(text)) return rawText(text);
  return { text: indentedJson(text, TEXT_SHOWN_CHARACTERS), isIndented: true, left: 0 };
}

export function rawText(text: string) {
  const shown = text.slice(0, TEXT_SHOWN_CHARACTERS);
  return { text: shown, isIndented: false, left: text.length - shown.length };
}

/** The beginning of a value, with `…` where there is more. */
export function shortened(text: string, most = VALUE_SHOWN_CHARACTERS): string {
  return text.length <= most ? text : `${text.slice(0, most)}…`;
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * `json`, which must be JSON, indented. Only white space is changed: parsing and printing again would round large
 * numbers and drop repeated keys, and show something that nobody signed. Linear in time and space: what is deeper
 * than INDENTED_DEPTH is on one line, and after `most` characters the rest is as it was.
 */
export function indentedJson(json: string, most = Number.POSITIVE_INFINITY): string {
  const margins = Array.from({ length: INDENTED_DEPTH + 1 }, (_, depth) => `\n${INDENT.repeat(depth)}`);
  let out = '';
  let depth = 0;
  let at = 0;
  while (at < json.length && out.length < most) {
    const character = json[at]!;
    let end = at + 1;
    if (character === '"') {
      end = endOfString(json, at);
      out += json.slice(at, end);
    } else if (character === '{' || character === '[') {
      const inside = skipBlanks(json, end);
      const isEmpty = json[inside] === '}' || json[inside] === ']';
      end = isEmpty ? inside + 1 : inside;
      if (!isEmpty) depth += 1;
      out += isEmpty ? character + json[inside] : character + (margins[depth] ?? '');
    } else if (character === '}' || character === ']') {
      out += depth > INDENTED_DEPTH ? character : margins[depth - 1] + character;
      depth -= 1;
    } else if (character === ',') out += `,${margins[depth] ?? ''}`;
    else if (character === ':') out += ': ';
    else if (!isBlank(character)) out += character;
    at = end;
  }
  return out + json.slice(at);
}

const isBlank = (character: string | undefined) =>
  character === ' ' || character === '\n' || character === '\r' || character === '\t';

function skipBlanks(text: string, from: number): number {
  let at = from;
  while (isBlank(text[at])) at += 1;
  return at;
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

/**
 * The changed fields (`name`, or `data.owner` for a field of `data`) with their values as JSON; null: the field did not exist.
 * If a column repeats the field of `data` with its name, only the column is given.
 */
export function fieldChanges(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
) {
  const [old, fresh] = [fieldsOf(before), fieldsOf(after)];
  const names = new Set([...old.keys(), ...fresh.keys()]);
  const repeatsColumn = (field: string) => {
    const column = field.slice('data.'.length);
    if (!field.startsWith('data.') || !names.has(column)) return false;
    return old.get(field) === old.get(column) && fresh.get(field) === fresh.get(column);
  };
  return [...names]
    .filter((field) => !repeatsColumn(field))
    .map((field) => ({ field, before: old.get(field) ?? null, after: fresh.get(field) ?? null }));
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

/** With its quotes. Linux takes one argument of this length. */
const ARGUMENT_MAX_BYTES = 120_000;

/** A terminal takes these for keys, also between quotes: Ctrl-C ends the command, and what follows in the body would be run. */
const KEYS = /[^\P{Cc}\t\n\r]/u;

/**
 * A command that delivers this body again. An operator who has the secret puts the signature in, because no page shows the
 * secret. Null: no command line can hold the body, or it cannot be pasted safely. Pure.
 */
export function curlOf(
  body: string,
  { url, signatureHeader }: { url: string; signatureHeader: string },
): string | null {
  const quoted = quote(body);
  if (KEYS.test(body) || Buffer.byteLength(quoted) > ARGUMENT_MAX_BYTES) return null;
  return [
    `curl -X POST ${quote(url)}`,
    `-H ${quote('content-type: application/json')}`,
    `-H ${quote(`${signatureHeader}: t=TIMESTAMP, v1=SIGNATURE`)}`,
    `--data-raw ${quoted}`,
  ].join(' \\\n  ');
}

/** For a shell: between single quotes only the closing quote has a meaning. */
export const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
