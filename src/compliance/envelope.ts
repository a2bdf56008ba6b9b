import { z } from 'zod';
import type { Kind } from './kinds.ts';
import {
  hasRecordId,
  type IdPointers,
  isDeeper,
  isObject,
  type JsonObject,
  MAX_DEPTH,
  recordIdIn,
} from './pointers.ts';

/**
 * Finds the records in an answer. The specification says that they are in `data`, but not how, so the form is detected. An answer
 * that leaves a doubt is malformed: if it were taken for an empty list, it would prove that records are gone.
 */

/** The answer is JSON, but not what was asked for. */
export class MalformedAnswer extends Error {}

/** The address of one record answered with another: the cause of its `malformed` error. */
export class OtherRecordAnswered extends MalformedAnswer {}

const TOO_DEEP = `nested more than ${MAX_DEPTH} deep`;

/** The field that a single record may be wrapped in, per kind. */
export const WRAPPERS: Readonly<Record<Kind, readonly string[]>> = {
  policy: ['policy'],
  risk_assessment: ['riskAssessment', 'risk_assessment', 'assessment', 'risk'],
  vendor: ['vendor'],
};

/** Section 2, envelope: pagination, present on lists. */
export const metaSchema = z
  .looseObject({
    page: z.int().optional(),
    perPage: z.int().optional(),
    total: z.int().nonnegative().optional(),
  })
  .meta({ id: 'Meta', description: 'Where a page stands in its list.' });
export type Meta = z.infer<typeof metaSchema>;

type IdOf = (object: JsonObject) => string | null;

export interface List {
  /** A row each. */
  objects: JsonObject[];
  /** Rows that cannot be records, counted from 0, and why. In `objects` each is an empty object; never all of them are. */
  unusable: ReadonlyMap<number, string>;
  meta: Meta;
  /** The field that says how the list goes on without page numbers; null: there is none. */
  next: string | null;
}

/**
 * The rows of a list's page: the body itself, its `data`, or the one array inside an object `data`. A row may be wrapped in a
 * field of one of these names, as in `objectIn`.
 * @throws MalformedAnswer
 */
export function listIn(body: unknown, wrappers: readonly string[], idOf: IdOf): List {
  const unusable = new Map<number, string>();
  const rows = Array.isArray(body) ? body : rowsOf(body, idOf);
  const objects = rows.map((row, index) => {
    const isRow = isObject(row) && !isDeeper(row, MAX_DEPTH);
    if (isRow) return unwrap(row, wrappers, idOf);
    unusable.set(index, isObject(row) ? `is ${TOO_DEEP}` : 'is not an object');
    return {};
  });
  const first = unusable.get(0);
  if (first !== undefined && unusable.size === rows.length)
    throw new MalformedAnswer(`the first row of the list ${first}`);
  return { objects, unusable, meta: isObject(body) ? metaOf(body) : {}, next: nextIn(body) };
}

/** Fields beside an answer's content that are not part of it. */
const BESIDE_DATA = ['meta', 'links', '_links', 'pagination', 'paging'];
/** Fields by which services say that a list goes on; without case and underscores. */
const NEXT_NAMES = ['next', 'nextcursor', 'nextpagetoken', 'nexttoken', 'cursor', 'hasmore'];

function nextIn(body: unknown): string | null {
  if (!isObject(body)) return null;
  const places: [string, unknown][] = [
    ['', body],
    ...BESIDE_DATA.map((place): [string, unknown] => [`${place}.`, body[place]]),
  ];
  for (const [prefix, place] of places) {
    if (!isObject(place)) continue;
    const says = (field: string) =>
      NEXT_NAMES.includes(field.toLowerCase().replaceAll('_', '')) && Boolean(place[field]);
    const field = Object.keys(place).find(says);
    if (field !== undefined) return prefix + field;
  }
  return null;
}

/**
 * The single object of an answer: `data`, the body itself, or what either of them wraps in a field of one of these names. In
 * place of an object, an array of one is taken as well. The first with an id is taken; if none has one, the outermost `data`.
 * @throws MalformedAnswer
 */
export function objectIn(body: unknown, wrappers: readonly string[], idOf: IdOf): JsonObject {
  if (body === undefined) throw new MalformedAnswer('the answer is empty');
  const whole = onlyOne(body);
  if (!isObject(whole)) throw new MalformedAnswer('the answer is not an object');
  const own = unwrap(whole, wrappers, idOf);
  if (!Object.hasOwn(whole, 'data')) return checkDepth(own);
  const data = onlyOne(whole['data']);
  const candidates = isObject(data) ? [unwrap(data, wrappers, idOf), own] : [own];
  const found = candidates.find((candidate) => idOf(candidate) !== null);
  if (found === undefined && !isObject(data)) throw new MalformedAnswer('`data` holds no object');
  return checkDepth(found ?? candidates[0]!);
}

/** Fields of an answer without an id that is an error and no record. */
const ERROR_FIELDS = ['error', 'errors', 'message'];

/**
 * The record with which its own address answered. Its id may be at any of the pointers, or be left out.
 * @throws MalformedAnswer, OtherRecordAnswered
 */
export function recordIn(body: unknown, kind: Kind, id: string, pointers: IdPointers): JsonObject {
  const idOf = (object: JsonObject) => recordIdIn(object, kind, pointers);
  const object = objectIn(body, WRAPPERS[kind], idOf);
  if (hasRecordId(object, kind, id, pointers)) return object;
  const other = idOf(object);
  if (other !== null)
    throw new OtherRecordAnswered(
      `the ${kind} answered has the id ${JSON.stringify(other)} instead of ${JSON.stringify(id)}`,
    );
  checkIsRecord(object);
  return object;
}

/**
 * An object without an id, from the address of one record: it is about that one, if it looks like a record at all.
 * @throws MalformedAnswer
 */
function checkIsRecord(object: JsonObject): void {
  const said = ERROR_FIELDS.find((field) => Object.hasOwn(object, field));
  if (said !== undefined) throw new MalformedAnswer(`the answer has no id, and a field \`${said}\``);
  if (Object.keys(object).length === 0) throw new MalformedAnswer('the answer holds an empty object');
}

/** An array of one is that one. @throws MalformedAnswer for one of more, or of none. */
function onlyOne(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  if (value.length === 1) return value[0];
  throw new MalformedAnswer(`the answer is an array of ${value.length} where one record was asked for`);
}

/**
 * Whether there is nothing where a page has its rows: no body, null, an empty object. Some services answer so for an empty list;
 * by itself it may as well be a failure.
 */
export function holdsNothing(body: unknown): boolean {
  if (body === undefined || body === null) return true;
  if (!isObject(body) || ERROR_FIELDS.some((field) => Object.hasOwn(body, field))) return false;
  const data = body['data'] ?? {};
  return isObject(data) && Object.keys(data).length === 0;
}

function rowsOf(body: unknown, idOf: IdOf): unknown[] {
  const data = isObject(body) ? body['data'] : undefined;
  if (Array.isArray(data)) return data;
  if (isObject(body) && holdsNothing(body) && metaOf(body).total === 0) return [];
  if (!isObject(data)) throw new MalformedAnswer('the answer holds no list: neither an array nor `data`');
  // A record with, say, `tags: []` would otherwise pass for an empty page.
  if (idOf(data) !== null) throw new MalformedAnswer('`data` is a single record where a list was asked for');
  const arrays = Object.values(data).filter((value) => Array.isArray(value));
  if (arrays.length !== 1) {
    throw new MalformedAnswer(`\`data\` holds ${arrays.length} arrays, so which one is the list is open`);
  }
  return arrays[0]!;
}

function metaOf(body: JsonObject): Meta {
  const meta = body['meta'] ?? {};
  if (!isObject(meta)) throw new MalformedAnswer('`meta` is not an object');
  const stated = Object.fromEntries(
    Object.entries(meta)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [name, Object.hasOwn(metaSchema.shape, name) ? countIn(value) : value]),
  );
  const parsed = metaSchema.safeParse(stated);
  // Dropping an unreadable total would drop one of the conditions for calling a list scan complete.
  if (!parsed.success) throw new MalformedAnswer('`meta` holds a page, perPage or total that is no count');
  return parsed.data;
}

/** Some services write numbers as text. */
function countIn(value: unknown): unknown {
  return typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value;
}

/** Twice if a wrapper holds only another one, as `vendor` may hold `attributes`. */
function unwrap(object: JsonObject, wrappers: readonly string[], idOf: IdOf): JsonObject {
  const inner = unwrapOnce(object, wrappers, idOf);
  const [field, ...others] = Object.keys(inner);
  if (inner === object || field === undefined || others.length > 0) return inner;
  const deeper = inner[field];
  // A record may hold one object and nothing else: it stays as it is, unless the id is in that object.
  const isWrapper = isObject(deeper) && (wrappers.includes(field) || idOf(deeper) !== null);
  return isWrapper ? deeper : inner;
}

function unwrapOnce(object: JsonObject, wrappers: readonly string[], idOf: IdOf): JsonObject {
  const named = wrappers.filter((name) => typeof object[name] === 'object' && Object.hasOwn(object, name));
  const others = Object.keys(object).filter((name) => !BESIDE_DATA.includes(name));
  // An object that holds one other object and nothing else is a wrapper, under any name.
  const isWrapped = others.length === 1 && isObject(object[others[0]!]) && !ERROR_FIELDS.includes(others[0]!);
  const present = named.length === 0 && isWrapped ? others : named;
  if (present.length !== 1) return object;
  const { [present[0]!]: wrapped, ...rest } = object;
  const inner = onlyOne(wrapped);
  // Looked for in the rest, since a pointer such as `vendor.id` finds an id through the wrapper too.
  if (!isObject(inner) || idOf(rest) !== null) return object;
  if (others.length === 1) return inner;
  // If it has an id, it may be the record, or hold only the id of the record whose fields are beside it.
  return idOf(inner) !== null && holdsMore(inner, rest) ? inner : object;
}

/** Whether the inner object holds the record's fields: it has the `name`, or nothing beside it has a plain value. */
function holdsMore(inner: JsonObject, beside: JsonObject): boolean {
  const isInside = Object.hasOwn(inner, 'name');
  if (isInside !== Object.hasOwn(beside, 'name')) return isInside;
  return Object.values(beside).every((value) => typeof value === 'object');
}

function checkDepth(object: JsonObject): JsonObject {
  if (isDeeper(object, MAX_DEPTH)) throw new MalformedAnswer(TOO_DEEP);
  return object;
}
