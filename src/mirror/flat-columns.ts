import { wholeNumber } from '../compliance/json.ts';
import type { Kind } from '../compliance/kinds.ts';
import { isObject, type JsonObject } from '../compliance/pointers.ts';
import type { Field, FieldType, SeenField } from '../store/values.ts';

/** The columns of the views `…_flat`: one for each scalar field that records have shown, up to one level down. Pure. */

/**
 * Columns of one view, besides those that every record has. SQLite allows 2,000 and PostgreSQL 1,600. With names of the greatest
 * length, the view's text is still below the million bytes that SQLite allows.
 */
export const MAX_FIELDS = 500;

/** A longer name gets no column, because it may be a sentence that is a key in one record only. Its value is in `data`. */
const MAX_KEY_BYTES = 100;

/** PostgreSQL cuts longer names. */
const MAX_COLUMN_BYTES = 63;

/**
 * The columns of every record. `deleted_at` is not in the views, since it is null there. SQLite renames a view's column called
 * `true` or `false`.
 */
const RESERVED = [
  ...'id name version status data first_seen_at synced_at verified_at unverified_since'.split(' '),
  ...'deleted_at last_event_id last_event_at cause true false'.split(' '),
];

/** A calendar day from the year 1 on, and an instant with its zone. PostgreSQL has the same two (drizzle/). */
const DATE =
  /^(?!0000)(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)$/;
const INSTANT =
  /^(?!0000)(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])$/;

function isInstant(text: string): boolean {
  // In the first and the last year an offset could lead to the year 0 or 10,000.
  const isInEndYear = text.startsWith('0001') || text.startsWith('9999');
  return INSTANT.test(text) && (text.endsWith('Z') || !isInEndYear);
}

/** The narrowest type for values of both types. */
export function widened(one: FieldType, other: FieldType): FieldType {
  if (one === other) return one;
  return one === 'json' || other === 'json' ? 'json' : 'text';
}

/** A kind's known fields, so that new ones are recognised quickly. */
interface KnownFields {
  types: ReadonlyMap<string, FieldType>;
  isFull: boolean;
}

export function knownFields(fields: readonly Field[]): KnownFields {
  // A field whose type has changed has a second row further down.
  const withColumn = fields.filter(({ column }) => column !== null);
  return {
    types: new Map(withColumn.map(({ keys, type }) => [nameOf(keys), type])),
    isFull: withColumn.length < fields.length,
  };
}

/** A field's keys as one text. Usable keys have no control characters. */
const nameOf = (keys: readonly string[]): string => keys.join('\u0000');

/** The seen fields by kind and name, in the same order. */
export function seenByName(seen: readonly SeenField[]): Map<string, SeenField> {
  return new Map(seen.map((one) => [`${one.kind}\u0000${nameOf(one.keys)}`, one]));
}

/**
 * Adds to `seen` the fields in `data` that are not in `known`, and those whose value needs a wider type. They are added in the
 * order of their names, because not every engine keeps the order of a record's fields.
 */
export function noteFields(
  seen: Map<string, SeenField>,
  known: KnownFields,
  { kind, id, data, at }: { kind: Kind; id: string; data: JsonObject; at: string },
): void {
  const news: [name: string, keys: string[], type: FieldType][] = [];
  const look = (keys: string[], value: unknown) => {
    const name = nameOf(keys);
    const had = known.types.get(name);
    // Nearly all fields end here. The recognition of dates below is the slow part.
    if (had === 'json' || (had === 'text' && typeof value === 'string')) return;
    const type = typeOf(value);
    if (type === null) return;
    const isNew = had === undefined ? !known.isFull : widened(had, type) !== had;
    if (isNew && keys.every(isUsable)) news.push([name, keys, type]);
  };
  for (const key of Object.keys(data)) {
    const value = data[key];
    if (isColumnOf(kind, id, key, value)) continue;
    if (!isObject(value)) look([key], value);
    else for (const inner of Object.keys(value)) look([key, inner], value[inner]);
  }
  if (news.length === 0) return;

  let room = MAX_FIELDS + 1 - [...seen.values()].filter((each) => each.kind === kind).length;
  for (const [name, keys, type] of news.sort(([one], [other]) => (one < other ? -1 : 1))) {
    const before = seen.get(`${kind}\u0000${name}`);
    if (before === undefined) {
      if (room <= 0) continue;
      room -= 1;
    }
    const first = before ?? { kind, keys, type, firstSeenAt: at };
    seen.set(`${kind}\u0000${name}`, { ...first, type: widened(first.type, type) });
  }
}

/**
 * The rows of `fields` that `seen` changes: new ones and renamed ones. A column keeps its place and its type. When a field's type
 * changes, the old column gets its type as a suffix, and a new column at the end takes the name.
 */
export function learnFields(fields: readonly Field[], seen: readonly SeenField[]): Field[] {
  const rows = fields.map((field) => ({ ...field }));
  const changed = new Set<Field>();
  const taken = new Set([...RESERVED, ...rows.flatMap(({ column }) => column ?? [])]);
  let isFull = rows.some(({ column }) => column === null);

  const add = (column: string | null, { keys, firstSeenAt }: SeenField, type: FieldType) => {
    const field = { position: rows.length + 1, column, path: pathOf(keys), keys, type, firstSeenAt };
    rows.push(field);
    changed.add(field);
  };
  const take = (wanted: string): string => {
    const column = freeName(wanted, taken);
    taken.add(column);
    return column;
  };

  for (const one of seen) {
    const name = nameOf(one.keys);
    const present = rows.findLast(({ keys, column }) => column !== null && nameOf(keys) === name);
    const type = present === undefined ? one.type : widened(present.type, one.type);
    if (isFull || type === present?.type) continue;
    if (rows.length >= MAX_FIELDS) {
      add(null, one, type);
      isFull = true;
    } else if (present === undefined) {
      add(take(columnName(one.keys)), one, type);
    } else {
      const column = present.column!;
      present.column = take(`${column}_${present.type}`);
      changed.add(present);
      add(column, one, type);
    }
  }
  return [...changed];
}

/** Dotted, as in a setting. A name with a dot in it is quoted. */
export const pathOf = (keys: readonly string[]): string =>
  keys.map((key) => (/^[^."\\]+$/.test(key) ? key : JSON.stringify(key))).join('.');

/** `nextReviewAt` → `next_review_at`, `owner.name` → `owner_name`. Letters of any language and digits, no capitals. */
export function columnName(keys: readonly string[]): string {
  const words = keys
    .join('_')
    .normalize('NFKC')
    .replace(/([\p{Ll}\p{N}])(\p{Lu})/gu, '$1_$2')
    .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1_$2')
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}]+/gu, '_')
    .replace(/^_|_$/g, '');
  if (words === '') return 'field';
  return /^\p{L}/u.test(words) ? words : `_${words}`;
}

function freeName(wanted: string, taken: ReadonlySet<string>): string {
  const name = RESERVED.includes(wanted) ? `data_${wanted}` : wanted;
  for (let nth = 1; ; nth += 1) {
    const suffix = nth === 1 ? '' : `_${nth}`;
    const column = `${cut(name, MAX_COLUMN_BYTES - suffix.length)}${suffix}`;
    if (!taken.has(column)) return column;
  }
}

function cut(text: string, bytes: number): string {
  let kept = '';
  let length = 0;
  for (const character of text) {
    length += Buffer.byteLength(character);
    if (length > bytes) break;
    kept += character;
  }
  return kept;
}

/** A name with control characters or half a surrogate pair cannot stand in a statement on every engine. */
const isUsable = (key: string): boolean =>
  Buffer.byteLength(key) <= MAX_KEY_BYTES && key.isWellFormed() && !/\p{Cc}/u.test(key);

/** Whether every record has a column with this name and value. */
function isColumnOf(kind: Kind, id: string, key: string, value: unknown): boolean {
  if (key === 'id') return value === id || wholeNumber(value) === id;
  const isDrawn = key === 'name' || key === 'status' || (key === 'version' && kind === 'policy');
  return isDrawn && typeof value === 'string';
}

/** Null: the value shows no type. So does an empty text, which some services write for an absent date. */
function typeOf(value: unknown): FieldType | null {
  if (value === null || value === undefined || value === '') return null;
  if (typeof value === 'bigint') return 'number';
  if (typeof value === 'number' || typeof value === 'boolean') return typeof value as 'number' | 'boolean';
  if (typeof value !== 'string') return 'json';
  if (DATE.test(value)) return 'date';
  return isInstant(value) ? 'instant' : 'text';
}
