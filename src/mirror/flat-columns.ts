import { wholeNumber } from '../compliance/json.ts';
import type { Kind } from '../compliance/kinds.ts';
import { isObject, type JsonObject } from '../compliance/pointers.ts';
import type { Field, FieldType, SeenField, SeenObject } from '../store/values.ts';

/** The typed columns of the views `…_flat` and `…_history`: one for each scalar field that confirmed records have, up to one level down. Pure. */

/**
 * Columns of one view, besides those that every record has. SQLite allows 2,000 and PostgreSQL 1,600. With names of the greatest
 * length, the view's text is still below the million bytes that SQLite allows.
 */
export const MAX_FIELDS = 500;

/** An object with up to so many keys has a column for each. Of one with more it is looked whether its records have the same keys. */
const FEW_KEYS = 8;
/** Keys of one object that are looked at. Behind that it is no record's form any more. */
const MAX_KEYS = 100;
/** A key of an object is in this part of its records, on average; otherwise the keys differ from record to record. */
const SHARED_PART = 0.5;

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
  ...'deleted_at deletion_pending_since last_event_id last_event_at cause cause_id'.split(' '),
  ...'valid_from valid_to operation seq true false'.split(' '),
];

/** Parts of patterns, for PostgreSQL's views too: a calendar day from the year 1 on, a time of day, an offset from UTC. */
const DAY =
  '(?!0000)(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)';
const TIME = '[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,30})?';
const OFFSET = '[+-](?:0[0-9]|1[0-4])(?::?[0-5][0-9])?';
export const DATE = `^${DAY}$`;
export const TIMESTAMP = `^${DAY}${TIME}$`;
/** In the first and the last year an offset could lead to the year 0 or 10,000. */
export const INSTANT = `^(?:${DAY}${TIME}Z|(?!0001|9999)${DAY}${TIME}${OFFSET})$`;
/** Some services write this for no day. */
export const NO_DAY = '^0000-00-00(?:[T ]00:00:00(?:[.]0+)?Z?)?$';

const [IS_DATE, IS_TIMESTAMP, IS_INSTANT, IS_NO_DAY] = [DATE, TIMESTAMP, INSTANT, NO_DAY].map(
  (pattern) => new RegExp(pattern),
) as [RegExp, RegExp, RegExp, RegExp];

/** The narrowest type for values of both types. A day among times is its midnight, of instants in UTC. */
export function widened(one: FieldType, other: FieldType): FieldType {
  if (one === other) return one;
  if (one === 'json' || other === 'json') return 'json';
  const [time] = [one, other].filter((type) => type !== 'date');
  return (time === 'instant' || time === 'timestamp') && (one === 'date' || other === 'date') ? time : 'text';
}

/** A kind's known fields, so that new ones are recognised quickly. */
interface KnownFields {
  types: ReadonlyMap<string, FieldType>;
  /** Objects whose fields have columns. */
  objects: ReadonlySet<string>;
  isFull: boolean;
}

/** `ignored`: paths of fields that get no columns. */
export function knownFields(
  fields: readonly Field[],
  ignored: readonly (readonly string[])[] = [],
): KnownFields {
  // A field whose type has changed has a second row further down.
  const withColumn = fields.filter(({ column }) => column !== null);
  const known = withColumn.map(({ keys, type }): [string, FieldType] => [nameOf(keys), type]);
  return {
    // One that holds everything never changes.
    types: new Map([...known, ...ignored.map((keys): [string, FieldType] => [nameOf(keys), 'json'])]),
    objects: new Set(withColumn.flatMap(({ keys }) => (keys.length === 1 ? [] : [keys[0]!]))),
    isFull: withColumn.length < fields.length,
  };
}

/** A field's keys as one text. Usable keys have no control characters. */
const nameOf = (keys: readonly string[]): string => keys.join('\u0000');

/** What a search of records has seen of fields: by kind and name, in the order in which they came. */
export interface Seen {
  fields: Map<string, SeenField>;
  objects: Map<string, SeenObject>;
}

export function seenOf({
  seen,
  objects,
}: {
  seen: readonly SeenField[];
  objects: readonly SeenObject[];
}): Seen {
  return {
    fields: new Map(seen.map((one) => [`${one.kind}\u0000${nameOf(one.keys)}`, one])),
    objects: new Map(objects.map((one) => [`${one.kind}\u0000${one.key}`, one])),
  };
}

/**
 * Adds to `seen` the fields in `data` that are not in `known`, and those whose value needs a wider type. They are added in the
 * order of their names, because not every engine keeps the order of a record's fields.
 */
export function noteFields(
  seen: Seen,
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
    else if (known.types.get(key) !== 'json' || known.objects.has(key))
      for (const inner of noteObject(seen.objects, kind, key, value)) look([key, inner], value[inner]);
  }
  if (news.length === 0) return;

  const ofKind = [...seen.fields.values()].filter((each) => each.kind === kind);
  // An object is one column at the least: its keys must not take the room of other fields.
  let room = MAX_FIELDS + 1 - new Set(ofKind.map(({ keys }) => keys[0])).size;
  for (const [name, keys, type] of news.sort(([one], [other]) => (one < other ? -1 : 1))) {
    const before = seen.fields.get(`${kind}\u0000${name}`);
    if (before === undefined && !ofKind.some((each) => each.keys[0] === keys[0])) {
      if (room <= 0) continue;
      room -= 1;
    }
    const first = before ?? { kind, keys, type, firstSeenAt: at };
    const next = { ...first, type: widened(first.type, type) };
    seen.fields.set(`${kind}\u0000${name}`, next);
    ofKind.push(next);
  }
}

/** Counts the keys of an object in `data`, and returns those that are looked at. */
function noteObject(objects: Seen['objects'], kind: Kind, key: string, object: JsonObject): string[] {
  const name = `${kind}\u0000${key}`;
  const before = objects.get(name) ?? { kind, key, records: 0, keys: [], times: 0 };
  const keys = new Set(before.keys);
  const looked = Object.keys(object).filter((inner) => {
    if (keys.size < MAX_KEYS) keys.add(inner);
    return keys.has(inner);
  });
  const times = before.times + looked.length;
  objects.set(name, { ...before, records: before.records + 1, keys: [...keys], times });
  return looked;
}

/** Whether the keys of an object differ from record to record. `known`: those that have columns. */
function isMap({ records, keys, times }: SeenObject, known: ReadonlySet<string>): boolean {
  const all = new Set([...known, ...keys]).size;
  if (all <= FEW_KEYS) return false;
  // One record shows nothing of others: only what is known does.
  if (records === 1) return keys.filter((key) => known.has(key)).length < keys.length * SHARED_PART;
  return times < records * all * SHARED_PART;
}

/** The fields that get columns: an object whose keys differ from record to record is one of them. */
function* columnsOf(fields: readonly Field[], seen: Seen): Generator<SeenField> {
  const maps = new Set<string>();
  for (const one of seen.fields.values()) {
    const [key] = one.keys as [string];
    const name = `${one.kind}\u0000${key}`;
    const object = one.keys.length === 1 ? undefined : seen.objects.get(name);
    if (maps.has(name)) continue;
    const known = new Set(
      fields.flatMap(({ keys, column }) => (column !== null && keys[0] === key ? (keys[1] ?? []) : [])),
    );
    if (object === undefined || !isMap(object, known)) yield one;
    else {
      maps.add(name);
      yield { ...one, keys: [key], type: 'json' };
    }
  }
}

/**
 * The rows of `fields` that `seen` changes: new ones and renamed ones. A column keeps its place and its type. When a field's type
 * changes, the old column gets its type as a suffix, and a new column at the end takes the name.
 */
export function learnFields(fields: readonly Field[], seen: Seen): Field[] {
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

  for (const one of columnsOf(fields, seen)) {
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

/** Null: the value shows no type. So do an empty text and a day of zeros, which some services write for an absent date. */
function typeOf(value: unknown): FieldType | null {
  if (value === null || value === undefined || value === '') return null;
  if (typeof value === 'bigint') return 'number';
  if (typeof value === 'number' || typeof value === 'boolean') return typeof value as 'number' | 'boolean';
  if (typeof value !== 'string') return 'json';
  // Most texts are no times. Their first character says so at once.
  if (value.length < 10 || value[4] !== '-') return 'text';
  if (IS_NO_DAY.test(value)) return null;
  if (IS_DATE.test(value)) return 'date';
  if (IS_TIMESTAMP.test(value)) return 'timestamp';
  return IS_INSTANT.test(value) ? 'instant' : 'text';
}
