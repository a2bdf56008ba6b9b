import type { Kind } from '../compliance/kinds.ts';
import { isObject, type JsonObject } from '../compliance/pointers.ts';

/** The part of a row that follows the upstream. Instants are ISO 8601 UTC text. */
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
  /** Changed columns only, and of `data` changed fields only. A field that is absent did not exist. */
  before: JsonObject;
  after: JsonObject;
}

/** The columns that are taken from a record's fields. A value that is not text stays in `data` only. */
export function contentOf(kind: Kind, data: JsonObject, deletedAt: string | null): RowContent {
  return {
    name: text(data, 'name'),
    version: kind === 'policy' ? text(data, 'version') : null,
    status: text(data, 'status'),
    data,
    deletedAt,
  };
}

/**
 * A payload shows some fields of a record and never all, so it is laid over the row's data. Fields that only carry an id are
 * not added to a record that has none of them: each event would add what the next read takes away.
 */
export function mergePayload(
  present: JsonObject | null,
  payload: JsonObject,
  idFields: ReadonlySet<string>,
): JsonObject {
  if (present === null) return payload;
  const merged = { ...present };
  for (const field of Object.keys(payload)) {
    if (Object.hasOwn(present, field) || !idFields.has(field)) put(merged, field, payload[field]);
  }
  return merged;
}

/**
 * A list's row of a record, laid over the data in the mirror. What the row leaves out, at any depth, is not removed: the
 * record's own address may still show it. So is an object, or a list of them, for which it has a plain value, such as an id.
 * `lacks`: it leaves out something. What it only writes otherwise stays as it is, if that `isRead`: else the row would change there and
 * back with each list and each answer of the record's own address.
 */
export function laidOver(
  present: JsonObject,
  listed: JsonObject,
  isRead: boolean,
): { data: JsonObject; lacks: boolean } {
  const data = { ...present };
  let lacks = Object.keys(present).some((field) => !Object.hasOwn(listed, field));
  for (const field of Object.keys(listed)) {
    const was = Object.hasOwn(present, field) ? present[field] : null;
    const is = isRead && meaningOf(was) === meaningOf(listed[field]) ? was : listed[field];
    const isShort = holdsObjects(was) && !holdsObjects(is);
    const short = isShort ? { data: was, lacks: true } : { data: is, lacks: false };
    const inner = isObject(was) && isObject(is) ? laidOver(was, is, isRead) : short;
    put(data, field, inner.data);
    lacks ||= inner.lacks;
  }
  return { data, lacks };
}

/** A day, or an instant with its zone, as exactly as `Date` has it. */
const MOMENT = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d{1,3})?(?:Z|[+-]\d\d:\d\d))?$/;

/** The same for a number or a truth and its text, and for a day and its midnight in UTC. Of all else, itself. */
function meaningOf(value: unknown): unknown {
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean')
    return String(value);
  const ms = typeof value === 'string' && MOMENT.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(ms) ? value : new Date(ms).toISOString();
}

const holdsObjects = (value: unknown): boolean =>
  isObject(value) || (Array.isArray(value) && value.some(isObject));

/** Assignment, except that a field called `__proto__` stays data. Building objects from entries cost an event 4 µs. */
function put(object: JsonObject, field: string, value: unknown): void {
  if (field !== '__proto__') object[field] = value;
  else Object.defineProperty(object, field, { value, enumerable: true, configurable: true, writable: true });
}

/** What changes when `after` replaces `before`; null when nothing does. */
export function diffContent(before: RowContent | null, after: RowContent): RowChange | null {
  const was: JsonObject = {};
  const is: JsonObject = {};
  for (const column of ['name', 'version', 'status'] as const) {
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

/** The names of what differs, `data.` before those inside `data`: for a person reading a differences report. */
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
    if (kept && same(before[field], after[field])) continue;
    differ = true;
    put(was, field, before[field]);
    if (kept) put(is, field, after[field]);
  }
  for (const field of Object.keys(after)) {
    if (Object.hasOwn(before, field)) continue;
    differ = true;
    put(is, field, after[field]);
  }
  return differ ? { before: was, after: is } : null;
}

/**
 * Equal once stored as JSON, which has neither -0 nor numbers too large for a double (`1e400` parses to Infinity and is stored
 * as null). A stricter comparison would find such a field different from its own row each time.
 */
function same(a: unknown, b: unknown): boolean {
  const one = asStored(a);
  const two = asStored(b);
  if (one === two) return true;
  if (typeof one !== 'object' || typeof two !== 'object' || one === null || two === null) return false;
  if (Array.isArray(one) || Array.isArray(two)) {
    if (!Array.isArray(one) || !Array.isArray(two) || one.length !== two.length) return false;
    return one.every((item, index) => same(item, two[index]));
  }
  const fields = Object.keys(one);
  return (
    fields.length === Object.keys(two).length &&
    fields.every(
      (field) => Object.hasOwn(two, field) && same((one as JsonObject)[field], (two as JsonObject)[field]),
    )
  );
}

function asStored(value: unknown): unknown {
  return typeof value === 'number' && !Number.isFinite(value) ? null : value;
}

function text(data: JsonObject, field: string): string | null {
  const value = Object.hasOwn(data, field) ? data[field] : null;
  // A column is UTF-8, which cannot hold half a surrogate pair: the row would differ from its record each time.
  return typeof value === 'string' ? value.toWellFormed() : null;
}
