import { z } from 'zod';
import type { Kind } from './kinds.ts';
import {
  hasRecordId,
  type IdPointers,
  isDeeper,
  isObject,
  type JsonObject,
  MAX_DEPTH,
  plainName,
  recordIdIn,
  USUAL_FIELDS,
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
  /** The field or header with a cursor or link to the next page; null: there is none. */
  next: string | null;
  /** It is no link, but says so by `true` (or that this is not the last one, by `false`). */
  saysMore?: true;
  /** How many pages there are, as the service says. */
  pages?: number;
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
  { rowsMax = Number.POSITIVE_INFINITY, headers = new Headers() } = {},
): List {
  const unusable = new Map<number, string>();
  const rows = Array.isArray(body) ? body : rowsOf(body, idOf);
  if (rows.length > rowsMax) {
    const text = `the page has ${rows.length} rows, and no more than ${rowsMax} are taken; if the service has no pages, set COMPLIANCE_PAGE_SIZE to more`;
    throw new MalformedAnswer(text);
  }
  const objects = rows.map((row, index) => {
    const why = wrongWithRow(row);
    if (why === null) return unwrap(row as JsonObject, wrappers, idOf);
    unusable.set(index, why);
    return {};
  });
  const first = unusable.get(0);
  if (first !== undefined && unusable.size === rows.length)
    throw new MalformedAnswer(`the first row of the list ${first}`);
  const own = isObject(body) ? body : {};
  return { objects, unusable, meta: metaOf(own, headers), ...nextIn(own, headers), ...pagesIn(own) };
}

function wrongWithRow(row: unknown): string | null {
  if (!isObject(row)) return 'is not an object';
  if (isDeeper(row, MAX_DEPTH)) return `is ${TOO_DEEP}`;
  return isErrorObject(row) ? 'is an error' : null;
}

/** Fields of an answer that are not part of its content. */
const BESIDE_DATA = ['meta', 'links', '_links', 'pagination', 'paging', 'page', 'pageInfo'];
/** Fields that say that a list goes on, by a cursor or link, or by `true`. */
const NEXT = /^(next(cursor|page|link|url|(page)?token)?|cursor|hasmore|hasnext(page)?|(is)?truncated)$/;
/** Fields that say so by `false`. */
const LAST = /^((is)?(last|lastpage|done|complete)|exhaustivenbhits)$/;

function nextIn(body: JsonObject, headers: Headers): Pick<List, 'next' | 'saysMore'> {
  for (const [prefix, place] of placesIn(body)) {
    const says = (field: string) =>
      flagIn(place[field]) === false
        ? LAST.test(plainName(field))
        : NEXT.test(plainName(field)) && Boolean(place[field]);
    const field = Object.keys(place).find(says);
    if (field === undefined) continue;
    return { next: prefix + field, ...(flagIn(place[field]) === null ? {} : { saysMore: true }) };
  }
  const isLinked = /;\s*rel="?next"?\s*(?:[;,]|$)/i.test(headers.get('link') ?? '');
  return { next: isLinked ? 'Link' : null };
}

/** Names of the number of a list's pages, which is also that of its last one. */
const PAGES = /^(total|last|num(berof)?)?pages?(count|total)?$/;

function pagesIn(body: JsonObject): Pick<List, 'pages'> {
  const said = placesIn(body).flatMap(([, fields]) =>
    Object.keys(fields).flatMap((name) =>
      name === 'page' || !PAGES.test(plainName(name)) ? [] : countIn(fields[name]),
    ),
  );
  const pages = said.find((count) => count !== null);
  return pages === undefined ? {} : { pages: pages as number };
}

/** Some services write it as text. Null: neither true nor false. */
function flagIn(value: unknown): boolean | null {
  const said = typeof value === 'string' ? value.toLowerCase() : value;
  if (said === true || said === 'true') return true;
  return said === false || said === 'false' ? false : null;
}

/** The answer's own fields, and those of the objects in it that are about the list, one within the other. */
function placesIn(body: JsonObject, prefix = '', levels = 3): [prefix: string, fields: JsonObject][] {
  const inner = BESIDE_DATA.flatMap((name) => {
    const fields = body[name];
    return isObject(fields) && levels > 1 ? placesIn(fields, `${prefix}${name}.`, levels - 1) : [];
  });
  return [[prefix, body], ...inner];
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

/** Fields that hold an error, as `plainName` writes them. */
const ERROR_NAMES = /^(odata)?(err(or)?s?|exception|fault)(code|no|msg|messages?|string|description)?$/;
/** It marks an answer without an id as an error. */
const saysError = (field: string): boolean =>
  plainName(field) === 'message' || ERROR_NAMES.test(plainName(field));
/** Fields that say of the rest that it is not what was asked for. */
export const OUTCOMES = /^(is)?(ok|success|successful|succeeded)$/;
/** What stands beside an error. */
const BESIDE_ERROR =
  /^(messages?|msg|type|title|details?|description|instance|path|timestamp|object|schemas|fields?|file|line|(stack)?trace|\w*id)$/;
const ERROR_CODE = /^(http|api|response)?(status|code)(code)?$/;

/** Not so: `{}`, `[]`, null, an empty text, `false` and 0. */
export function hasContent(value: unknown): boolean {
  return typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : Boolean(value);
}

export const isErrorStatus = (value: unknown): boolean =>
  typeof value !== 'object' && /^[45]\d\d$/.test(String(value));

/** The object is an error, although it may have the id of a record: nothing in it is of anything else. Ends at the first field that is. */
export function isErrorObject(object: JsonObject): boolean {
  let [isError, hasCode, hasMessage] = [false, false, false];
  for (const [field, value] of Object.entries(object)) {
    if (value === null) continue;
    const name = plainName(field);
    const isOfError = ERROR_NAMES.test(name);
    const isDenied = OUTCOMES.test(name) && /^(false|0)$/i.test(String(value));
    const isCode = ERROR_CODE.test(name);
    if (!isOfError && !isDenied && !isCode && !BESIDE_ERROR.test(name)) return false;
    isError ||= isDenied || (isOfError ? hasContent(value) : isCode && isErrorStatus(value));
    hasCode ||= isCode && hasContent(value);
    hasMessage ||= /^(message|msg)$/.test(name) && hasContent(value);
  }
  return isError || (hasCode && hasMessage);
}

/**
 * The record in the answer of its own address. Its id may be at any of the pointers, or be left out.
 * @throws MalformedAnswer, OtherRecordAnswered
 */
export function recordIn(body: unknown, kind: Kind, id: string, pointers: IdPointers): JsonObject {
  const idOf = (object: JsonObject) => recordIdIn(object, kind, pointers);
  const object = objectIn(body, WRAPPERS[kind], idOf);
  if (isErrorObject(object)) throw new MalformedAnswer('the answer is an error');
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
  const said = fields.find(saysError);
  if (said !== undefined) throw new MalformedAnswer(`the answer has no id, and a field \`${said}\``);
  // Nor does a page of a list.
  const isBeside = (field: string) =>
    BESIDE_DATA.includes(field) || TOTAL.test(plainName(field)) || Array.isArray(object[field]);
  if (fields.every(isBeside)) throw new MalformedAnswer('the answer holds no record');
}

/** The element of an array of one; a value that is no array stays as it is. @throws MalformedAnswer for other arrays. */
function onlyOne(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  if (value.length === 1) return value[0];
  throw new MalformedAnswer(`the answer is an array of ${value.length} where one record was asked for`);
}

/** Whether the answer has nothing in the place of rows. Some services answer an empty list so, but it may also be a failure. */
export const holdsNothing = (body: unknown): boolean => holdsNoRows(body) && !isRefusal(body);

/** The same, or it says in words why it has no rows. */
export function holdsNoRows(body: unknown): boolean {
  if (!isObject(body)) return !Array.isArray(body);
  const data = body['data'] ?? {};
  return isObject(data) && Object.keys(data).length === 0;
}

/** Of an answer without rows: it is a text, or has one. */
const isRefusal = (body: unknown): boolean =>
  isObject(body) ? Object.keys(body).some(saysError) : body !== undefined && body !== null;

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

/** Names of a list's total, where it is not `meta.total`. */
const TOTAL = /^(total(count|items|records|elements|results|rows|hits)?|recordstotal|recordcount)$/;
const TOTAL_HEADER = /^(x-(wp-|pagination-)?)?total(-count)?$/;

/** Also `Content-Range: items 0-9/25`, and the JSON of `X-Pagination`. */
function totalsOf(headers: Headers): unknown[] {
  const range = /\/(\d+)\s*$/.exec(headers.get('content-range') ?? '');
  const pagination = /"total_?(?:count|items)?"\s*:\s*(\d+)/i.exec(headers.get('x-pagination') ?? '');
  const named = [...headers].flatMap(([name, value]) => (TOTAL_HEADER.test(name) ? value : []));
  return [...named, range?.[1], pagination?.[1]];
}

function metaOf(body: JsonObject, headers = new Headers()): Meta {
  const meta = isObject(body['meta']) ? body['meta'] : {};
  const counts = Object.keys(metaSchema.shape).flatMap((name) => {
    const count = countIn(meta[name]);
    return count === null ? [] : [[name, count]];
  });
  const totals = placesIn(body).flatMap(([, fields]) =>
    Object.keys(fields).flatMap((name) => (TOTAL.test(plainName(name)) ? fields[name] : [])),
  );
  const total = [...totals, ...totalsOf(headers)].map(countIn).find((count) => count !== null);
  return { ...(total === undefined ? {} : { total }), ...Object.fromEntries(counts) };
}

/** Some services write numbers as text, or an exact one as search engines do. Null: no whole number from 0 on. */
function countIn(value: unknown): number | null {
  if (isObject(value)) return value['relation'] === 'eq' ? countIn(value['value']) : null;
  const count = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(count) && (count as number) >= 0 ? (count as number) : null;
}

/** Unwraps twice at most, as `vendor` may hold `attributes`. */
function unwrap(object: JsonObject, wrappers: readonly string[], idOf: IdOf, levels = 2): JsonObject {
  const inner = unwrapOnce(object, wrappers, idOf);
  return inner === object || levels === 1 ? inner : unwrap(inner, wrappers, idOf, levels - 1);
}

function unwrapOnce(object: JsonObject, wrappers: readonly string[], idOf: IdOf): JsonObject {
  const { attributes, ...resource } = object;
  if (
    isObject(attributes) &&
    idOf(resource) !== null &&
    !USUAL_FIELDS.name.some((name) => Object.hasOwn(resource, name))
  ) {
    // As JSON:API has it: the id beside the fields. Of two with one name the resource's own counts only as its id.
    return { ...resource, ...attributes, ...(Object.hasOwn(resource, 'id') ? { id: resource['id'] } : {}) };
  }
  const named = wrappers.filter((name) => typeof object[name] === 'object' && Object.hasOwn(object, name));
  const others = Object.keys(object).filter((name) => !BESIDE_DATA.includes(name));
  // Under any name, an object that holds one object with an id and nothing else is a wrapper.
  const sole = others.filter(
    (name) => isObject(object[name]) && idOf(object[name]) !== null && !saysError(name),
  );
  const [wrapper, ...more] = named.length === 0 && others.length === 1 ? sole : named;
  if (wrapper === undefined || more.length > 0) return object;
  const { [wrapper]: wrapped, ...rest } = object;
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
