import { candidatesText } from '../compliance/candidates.ts';
import type { Kind } from '../compliance/kinds.ts';
import {
  assessmentsNamedIn,
  COLUMNS,
  columnIn,
  DEFAULT_ID_POINTERS,
  type IdPointers,
  idFieldsOf,
  ignoredFields,
  isObject,
  type JsonObject,
  recordContentIn,
  recordIdIn,
} from '../compliance/pointers.ts';

/** The columns of a row that follow the upstream. Instants are ISO 8601 UTC text. */
export interface RowContent {
  name: string | null;
  version: string | null;
  status: string | null;
  data: JsonObject;
  deletedAt: string | null;
}

export type ChangeOperation = 'insert' | 'update' | 'delete' | 'restore';

export interface RowChange {
  operation: ChangeOperation;
  /** The changed columns, and of `data` the changed fields. A field that is absent did not exist. */
  before: JsonObject;
  after: JsonObject;
}

/** A row's content. A field gets its column only if its value is text or a whole number. */
export function contentOf(
  kind: Kind,
  data: JsonObject,
  deletedAt: string | null,
  pointers: IdPointers = DEFAULT_ID_POINTERS,
): RowContent {
  return {
    name: columnIn(data, kind, 'name', pointers),
    version: kind === 'policy' ? columnIn(data, kind, 'version', pointers) : null,
    status: columnIn(data, kind, 'status', pointers),
    data,
    deletedAt,
  };
}

/** The same documents but for fields that are no difference: the answer's, with these of the row. */
export function withoutIgnored(
  kind: Kind,
  before: JsonObject,
  after: JsonObject,
  pointers: IdPointers,
): JsonObject {
  return ignoredFields(pointers)[kind].reduce(
    (data, path) => withValueOf(before, data, path) as JsonObject,
    after,
  );
}

/** `to` with the value that `from` has at the path, as far as both have objects there, or lists of as many. */
function withValueOf(from: unknown, to: unknown, path: readonly string[]): unknown {
  const [field, ...deeper] = path;
  if (field === undefined) return from;
  if (Array.isArray(from) && Array.isArray(to) && from.length === to.length)
    return to.map((is, index) => withValueOf(from[index], is, path));
  if (!isObject(from) || !isObject(to) || !Object.hasOwn(from, field) || !Object.hasOwn(to, field)) return to;
  const copy = { ...to };
  assign(copy, field, withValueOf(from[field], to[field], deeper));
  return copy;
}

/** The parts of an event's payload that the mirror uses. */
export type Reading = {
  /** Other assessments that it names. No list shows assessments, so they become known by being named. */
  assessments: string[];
} & (
  | {
      usable: true;
      /** The record's own part of the payload. */
      content: JsonObject;
      /** It shows more of the record than its id. */
      shows: boolean;
    }
  | { usable: false; error: string }
);

/** `kind` is the kind of the event's type, and `data` its payload. */
export function readPayload(kind: Kind, data: JsonObject, pointers: IdPointers): Reading {
  const assessments = assessmentsNamedIn(data, kind, pointers);
  if (recordIdIn(data, kind, pointers) === null) {
    return { usable: false, error: noRecordIn(kind, data, pointers), assessments };
  }
  const content = recordContentIn(data, kind, pointers);
  const idFields = idFieldsOf(pointers);
  const shows = Object.keys(content).some((field) => !idFields.has(field));
  return { usable: true, content, shows, assessments };
}

/** The error of an event whose payload names no record. */
export const noRecordIn = (kind: Kind, data: JsonObject, pointers: IdPointers): string =>
  `the payload holds no id of a ${kind} at any of ${pointers[kind].join(', ')}; ${candidatesText(data, kind)}`;

/**
 * The row's data with the payload's fields, because a payload never shows all fields of a record. A field that only carries an id
 * is not added to a record without it: each event would add it, and the next read would remove it.
 */
export function mergePayload(
  present: JsonObject | null,
  payload: JsonObject,
  idFields: ReadonlySet<string>,
): JsonObject {
  if (present === null) return payload;
  const merged = { ...present };
  for (const field of Object.keys(payload)) {
    if (Object.hasOwn(present, field) || !idFields.has(field)) assign(merged, field, payload[field]);
  }
  return merged;
}

/**
 * The mirror's data of a record with the fields of a list's row. Fields that the row leaves out, at any depth, are kept, because
 * the record's own address may still show them. Kept too are objects for which the row has a plain value, such as an id.
 * `lacks`: the row leaves out something. If the mirror's data `isVerified`, a value that the row only writes in another way is kept
 * too. Otherwise each list, and each answer of the record's own address, would change it.
 */
export function laidOver(
  present: JsonObject,
  listed: JsonObject,
  isVerified: boolean,
): { data: JsonObject; lacks: boolean } {
  const data = { ...present };
  let lacks = Object.keys(present).some((field) => !Object.hasOwn(listed, field));
  for (const field of Object.keys(listed)) {
    const was = Object.hasOwn(present, field) ? present[field] : null;
    const is = isVerified && meaningOf(was) === meaningOf(listed[field]) ? was : listed[field];
    if (isObject(was) && isObject(is)) {
      const inner = laidOver(was, is, isVerified);
      assign(data, field, inner.data);
      lacks ||= inner.lacks;
    } else if (holdsObjects(was) && !holdsObjects(is)) lacks = true;
    else assign(data, field, is);
  }
  return { data, lacks };
}

/** A day, or an instant with its zone, in at most the milliseconds that `Date` keeps. */
const MOMENT = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d{1,3})?(?:Z|[+-]\d\d:\d\d))?$/;

/** Equal for a number or boolean and its text, and for a day and its midnight in UTC. Any other value stays as it is. */
function meaningOf(value: unknown): unknown {
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean')
    return String(value);
  const ms = typeof value === 'string' && MOMENT.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(ms) ? value : new Date(ms).toISOString();
}

const holdsObjects = (value: unknown): boolean =>
  isObject(value) || (Array.isArray(value) && value.some(isObject));

/** Assigns, but a field called `__proto__` stays data. Building objects from entries would cost an event 4 µs. */
export function assign(object: JsonObject, field: string, value: unknown): void {
  if (field !== '__proto__') object[field] = value;
  else Object.defineProperty(object, field, { value, enumerable: true });
}

/** The change from `before` to `after`; null: they are equal. */
export function diffContent(before: RowContent | null, after: RowContent): RowChange | null {
  const was: JsonObject = {};
  const is: JsonObject = {};
  for (const column of COLUMNS) {
    const old = before?.[column] ?? null;
    if (old === after[column]) continue;
    if (before !== null) was[column] = old;
    is[column] = after[column];
  }
  const data = diffFields(before?.data ?? {}, after.data);
  if (data !== null || before === null) {
    if (before !== null) was['data'] = data?.before ?? {};
    is['data'] = data?.after ?? {};
  }
  if ((before?.deletedAt ?? null) !== after.deletedAt) {
    if (before !== null) was['deleted_at'] = before.deletedAt;
    is['deleted_at'] = after.deletedAt;
  }
  if (before !== null && Object.keys(is).length === 0) return null;
  return { operation: operationOf(before, after), before: was, after: is };
}

/** For people: the names of the changed columns, and as `data.NAME` those of the changed fields. */
export function differingNames(change: RowChange): string[] {
  const names = new Set([...Object.keys(change.before), ...Object.keys(change.after)]);
  names.delete('data');
  for (const side of [change.before, change.after]) {
    for (const field of Object.keys((side['data'] as JsonObject | undefined) ?? {}))
      names.add(`data.${field}`);
  }
  return [...names].sort();
}

function operationOf(before: RowContent | null, after: RowContent): ChangeOperation {
  if (before === null) return 'insert';
  if (before.deletedAt === null && after.deletedAt !== null) return 'delete';
  if (before.deletedAt !== null && after.deletedAt === null) return 'restore';
  return 'update';
}

function diffFields(before: JsonObject, after: JsonObject): { before: JsonObject; after: JsonObject } | null {
  const was: JsonObject = {};
  const is: JsonObject = {};
  let differ = false;
  for (const field of Object.keys(before)) {
    const kept = Object.hasOwn(after, field);
    if (kept && isSame(before[field], after[field])) continue;
    differ = true;
    assign(was, field, before[field]);
    if (kept) assign(is, field, after[field]);
  }
  for (const field of Object.keys(after)) {
    if (Object.hasOwn(before, field)) continue;
    differ = true;
    assign(is, field, after[field]);
  }
  return differ ? { before: was, after: is } : null;
}

/**
 * Equal once stored as JSON, which has neither -0 nor numbers too large for a double (`1e400` parses to Infinity and is stored
 * as null). PostgreSQL writes `1e+21` as a whole number, which is read as a bigint. A stricter comparison would find such a field
 * different from its own row in each read.
 */
function isSame(a: unknown, b: unknown): boolean {
  const one = asStored(a);
  const two = asStored(b);
  if (one === two) return true;
  if (typeof one === 'bigint' && typeof two === 'number') return Number(one) === two;
  if (typeof one === 'number' && typeof two === 'bigint') return one === Number(two);
  if (typeof one !== 'object' || typeof two !== 'object' || one === null || two === null) return false;
  if (Array.isArray(one) || Array.isArray(two)) {
    if (!Array.isArray(one) || !Array.isArray(two) || one.length !== two.length) return false;
    return one.every((item, index) => isSame(item, two[index]));
  }
  const fields = Object.keys(one);
  return (
    fields.length === Object.keys(two).length &&
    fields.every(
      (field) => Object.hasOwn(two, field) && isSame((one as JsonObject)[field], (two as JsonObject)[field]),
    )
  );
}

function asStored(value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? null : value;
}
