/** Bodies as people read them. */

import { parseJson } from '../compliance/json.ts';
import { isDeeper } from '../compliance/pointers.ts';

/** Characters of one text on a page: nobody reads more, and a browser stalls on it. As markup each may take five or six bytes. */
export const TEXT_SHOWN_CHARACTERS = 64 * 1024;
/** Of one value in the table of a change; the API has all of it. */
const VALUE_SHOWN_CHARACTERS = 4096;
/** Of a name, a status or a version in a heading or a row. */
export const NAME_SHOWN_CHARACTERS = 160;
/** Of one change; the API has all of them. */
export const FIELDS_SHOWN = 200;
/** Deeper JSON is shown as it came. */
const INDENTED_DEPTH = 24;

/**
 * A text as pages show it: JSON is indented where that makes it less than twice the bound, anything else is as it was. `left`: characters
 * left out at the end.
 */
export function shownText(text: string) {
  const indented = text.length > TEXT_SHOWN_CHARACTERS ? null : indentedJson(text);
  const isIndented = indented !== null && indented.length < 2 * TEXT_SHOWN_CHARACTERS;
  if (isIndented) return { text: indented, isIndented, left: 0 };
  const shown = text.slice(0, TEXT_SHOWN_CHARACTERS);
  return { text: shown, isIndented, left: text.length - shown.length };
}

/** The beginning of a value, with `…` where there is more. */
export function shortened(text: string, most = VALUE_SHOWN_CHARACTERS): string {
  return text.length <= most ? text : `${text.slice(0, most)}…`;
}

/** JSON as it is understood here, for reading: a key that is repeated counts once. Null: it is none, or too deep. */
export function indentedJson(text: string): string | null {
  try {
    const value = parseJson(text);
    // An indent for every level would grow with the square of the depth.
    return isDeeper(value, INDENTED_DEPTH) ? null : JSON.stringify(value, null, 2);
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
