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
 * Finds the records in an answer. The specification says that they are in `data`, but not how, so the form is detected. An
 * answer in doubt is malformed: taken for an empty list, it would prove that records are gone.
 */

/** The answer is JSON, but not in a form that was asked for. */
export class MalformedAnswer extends Error {}

/** The address of one record answered with another record. */
export class OtherRecordAnswered extends MalformedAnswer {}

const TOO_DEEP = `nested more than ${MAX_DEPTH} deep`;

/** For each kind the fields that a record may be wrapped in. */
export const WRAPPERS: Readonly<Record<Kind, readonly string[]>> = {
  policy: ['policy'],
  risk_assessment: ['riskAssessment', 'risk_assessment', 'assessment', 'risk'],
  vendor: ['vendor'],
};

/** The pagination of a list. Source: section 2, envelope. */
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
  /** One for each row. */
  objects: JsonObject[];
  /** By its index the reason why a row cannot be a record. In `objects` it is an empty object. Never all rows are unusable. */
  unusable: ReadonlyMap<number, string>;
  meta: Meta;
  /** The field with a cursor or link to the next page; null: there is none. */
  next: string | null;
  /** Behind the last page the service refuses the request. So the list may end here, or what is shown of it. */
  isRefusal?: true;
}

/**
 * The rows of a list's page: the body itself, its `data`, or the one array inside an object `data`. Each row may be wrapped as in
 * `objectIn`.
 * @throws MalformedAnswer
 */
export function listIn(
  body: unknown,
  wrappers: readonly string[],
  idOf: IdOf,
  rowsMax = Number.POSITIVE_INFINITY,
): List {
  const unusable = new Map<number, string>();
  const rows = Array.isArray(body) ? body : rowsOf(body, idOf);
  if (rows.length > rowsMax) {
    const text = `the page has ${rows.length} rows, and no more than ${rowsMax} are taken; if the service has no pages, set COMPLIANCE_PAGE_SIZE to more`;
    throw new MalformedAnswer(text);
  }
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

/** Fields of an answer that are not part of its content. */
const BESIDE_DATA = ['meta', 'links', '_links', 'pagination', 'paging'];
/** Fields that say that a list goes on. In lower case, without underscores. */
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
 * The single object of an answer: `data`, or the body itself, each either as it is or wrapped in a field named in `wrappers`. An
 * array of one object counts as that object. The first with an id is taken; if none has an id, `data`.
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

/** Fields that mark an answer without an id as an error. */
const ERROR_FIELDS = ['error', 'errors', 'message'];

/** The body itself is a record: it has an id and a name. */
export const looksLikeRecord = (body: JsonObject, idOf: IdOf): boolean =>
  idOf(body) !== null && NAMES.some((name) => typeof body[name] === 'string');

/** The fields of records that hold their name. */
const NAMES = ['name', 'Name', 'title', 'Title'];

/**
 * The record in the answer of its own address. Its id may be at any of the pointers, or be left out.
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

/** Throws MalformedAnswer if an object without an id, from the address of a record, does not look like a record. */
function checkIsRecord(object: JsonObject): void {
  const fields = Object.keys(object);
  const said = fields.find((field) => ERROR_FIELDS.includes(field));
  if (said !== undefined) throw new MalformedAnswer(`the answer has no id, and a field \`${said}\``);
  if (fields.every((field) => BESIDE_DATA.includes(field)))
    throw new MalformedAnswer('the answer holds no record');
}

/** The element of an array of one; a value that is no array stays as it is. @throws MalformedAnswer for other arrays. */
function onlyOne(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  if (value.length === 1) return value[0];
  throw new MalformedAnswer(`the answer is an array of ${value.length} where one record was asked for`);
}

/** Whether the answer has nothing in the place of rows. Some services answer an empty list so, but it may also be a failure. */
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
    throw new MalformedAnswer(
      `\`data\` holds ${arrays.length} arrays, so it is not clear which one is the list`,
    );
  }
  return arrays[0]!;
}

function metaOf(body: JsonObject): Meta {
  const meta = isObject(body['meta']) ? body['meta'] : {};
  const counts = Object.keys(metaSchema.shape).flatMap((name) => {
    // Some services write numbers as text.
    const count =
      typeof meta[name] === 'string' && /^\d+$/.test(meta[name]) ? Number(meta[name]) : meta[name];
    return Number.isSafeInteger(count) && (count as number) >= 0 ? [[name, count]] : [];
  });
  return Object.fromEntries(counts);
}

/** Unwraps twice if a wrapper holds only another wrapper, as `vendor` may hold `attributes`. */
function unwrap(object: JsonObject, wrappers: readonly string[], idOf: IdOf): JsonObject {
  const inner = unwrapOnce(object, wrappers, idOf);
  const [field, ...others] = Object.keys(inner);
  if (inner === object || field === undefined || others.length > 0) return inner;
  const deeper = inner[field];
  // A record may also hold one object and nothing else. It is a wrapper only if the id is in that object.
  const isWrapper = isObject(deeper) && (wrappers.includes(field) || idOf(deeper) !== null);
  return isWrapper ? deeper : inner;
}

function unwrapOnce(object: JsonObject, wrappers: readonly string[], idOf: IdOf): JsonObject {
  const { attributes, ...resource } = object;
  if (
    isObject(attributes) &&
    idOf(resource) !== null &&
    !NAMES.some((name) => Object.hasOwn(resource, name))
  ) {
    // As JSON:API has it: the id beside the fields. Of two with one name the resource's own counts only as its id.
    return { ...resource, ...attributes, ...(Object.hasOwn(resource, 'id') ? { id: resource['id'] } : {}) };
  }
  const named = wrappers.filter((name) => typeof object[name] === 'object' && Object.hasOwn(object, name));
  const others = Object.keys(object).filter((name) => !BESIDE_DATA.includes(name));
  // An object that holds one other object and nothing else is a wrapper, under any name.
  const isWrapped = others.length === 1 && isObject(object[others[0]!]) && !ERROR_FIELDS.includes(others[0]!);
  const present = named.length === 0 && isWrapped ? others : named;
  if (present.length !== 1) return object;
  const { [present[0]!]: wrapped, ...rest } = object;
  const inner = onlyOne(wrapped);
  // Only in the rest, because a pointer such as `vendor.id` also finds an id through the wrapper.
  if (!isObject(inner) || idOf(rest) !== null) return object;
  if (others.length === 1) return inner;
  // The inner object with an id is the record, or only names it while the record's fields are beside.
  return idOf(inner) !== null && holdsMore(inner, rest) ? inner : object;
}

/** Whether the record's fields are in the inner object: it has the `name`, or nothing beside it is a plain value. */
function holdsMore(inner: JsonObject, beside: JsonObject): boolean {
  const isInside = Object.hasOwn(inner, 'name');
  if (isInside !== Object.hasOwn(beside, 'name')) return isInside;
  return Object.values(beside).every((value) => typeof value === 'object');
}

function checkDepth(object: JsonObject): JsonObject {
  if (isDeeper(object, MAX_DEPTH)) throw new MalformedAnswer(TOO_DEEP);
  return object;
}
