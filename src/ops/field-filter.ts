/**
 * `owner.team=Legal`: the names that lead to a field of a record, and its value. What SQLite would take for more than a name is
 * left out.
 */
export const FIELD_FILTER = /^[^"$[\]=.]+(?:\.[^"$[\]=.]+)*=/;

export interface FieldFilter {
  path: string[];
  value: string;
}

export function readFieldFilter(text: string): FieldFilter {
  const sign = text.indexOf('=');
  return { path: text.slice(0, sign).split('.'), value: text.slice(sign + 1) };
}
