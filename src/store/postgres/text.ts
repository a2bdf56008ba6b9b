import { parseJson } from '../../compliance/json.ts';

/**
 * PostgreSQL takes neither U+0000 nor half a surrogate pair, in text or in jsonb. Both are escaped on the way in and
 * come back as they were, behind U+0001: `01 01` is U+0000, `01 02` is U+0001, `01 03 d800` is that half of a pair.
 * U+0001 because escaped texts then sort among the others as the texts themselves would. A reader with SQL sees the
 * escapes; of real payloads hardly any holds one.
 */

const HOSTILE = /[\u0000\u0001]/;
const HOSTILE_ALL = /[\u0000\u0001]|\p{Surrogate}/gu;
const HOSTILE_IN_JSON = /\\u(?:000[01]|d[89a-f])/;
/** Escape by escape, so that the `u0000` behind an escaped backslash is left alone. */
const JSON_ESCAPES = /\\(?:u(?:([0-9a-f]{4}))|.)/g;
const KEPT = /\u0001(?:([\u0001\u0002])|\u0003([0-9a-f]{4}))/g;
const KEPT_IN_JSON = /\\u0001(?:\\u000([12])|\\u0003([0-9a-f]{4}))|\\./g;

/** A text as PostgreSQL can hold it. */
export function keepText(text: string): string {
  if (text.isWellFormed() && !HOSTILE.test(text)) return text;
  return text.replace(HOSTILE_ALL, (unit) => {
    if (unit === '\u0000') return '\u0001\u0001';
    return unit === '\u0001' ? '\u0001\u0002' : `\u0001\u0003${unit.charCodeAt(0).toString(16)}`;
  });
}

export function readText(kept: string): string {
  if (!kept.includes('\u0001')) return kept;
  return kept.replace(KEPT, (_all, which: string | undefined, unit: string | undefined) =>
    unit === undefined
      ? which === '\u0001'
        ? '\u0000'
        : '\u0001'
      : String.fromCharCode(Number.parseInt(unit, 16)),
  );
}

/** A value as JSON text that jsonb takes, and that gives the same value back. */
export function keepJson(value: unknown): string {
  const json = JSON.stringify(value);
  if (!HOSTILE_IN_JSON.test(json)) return json;
  return json.replace(JSON_ESCAPES, (written, unit: string | undefined) => {
    if (unit === '0000') return '\\u0001\\u0001';
    if (unit === '0001') return '\\u0001\\u0002';
    // JSON.stringify writes a surrogate as an escape only where its other half is missing.
    return unit?.startsWith('d') ? `\\u0001\\u0003${unit}` : written;
  });
}

/**
 * Many rows as one parameter, for json_to_recordset: a batch costs a round trip whatever its size. Instants are text,
 * and what goes into a jsonb column is text as well, made by `keepJson`.
 */
export const rowsOf = (rows: readonly object[]): string => keepJson(rows);

/** As jsonb writes itself out: U+0001 and U+0003 come as escapes there too. */
export function readJson(kept: string): unknown {
  if (!kept.includes('\\u0001')) return parseJson(kept);
  return parseJson(
    kept.replace(KEPT_IN_JSON, (written, which: string | undefined, unit: string | undefined) => {
      if (unit !== undefined) return `\\u${unit}`;
      return which === undefined ? written : `\\u000${which === '1' ? '0' : '1'}`;
    }),
  );
}
