import type { Meta } from '../src/compliance/envelope.ts';
import type { Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import { withAt } from './places.ts';
import { unfit } from './problems.ts';
import { NAMES, recordId } from './records.ts';
import type { Registration } from './registrations.ts';
import type { Shapes } from './shapes.ts';

/** Turns records from the sandbox's own form into the form that readers see, and ids back. Only this file knows both forms. */

/** Ids that are made from a place in a seed have at least this many digits. */
const ID_DIGITS = 4;

/** The number of an id such as `vendor-0001`; null: the id is not of this form. */
function numberOf(kind: Kind, id: string): number | null {
  const prefix = NAMES[kind].idPrefix;
  const number = id.startsWith(prefix) ? Number(id.slice(prefix.length)) : Number.NaN;
  return Number.isSafeInteger(number) && number > 0 && idOfNumber(kind, number) === id ? number : null;
}

export function idOfNumber(kind: Kind, number: number): string {
  return NAMES[kind].idPrefix + String(number).padStart(ID_DIGITS, '0');
}

/** A record's id as the API and events write it. */
export function shownId(kind: Kind, id: string, { ids }: Shapes): string | number {
  return ids[kind].numbers ? (numberOf(kind, id) ?? id) : id;
}

/** The sandbox's own id of a record, from the text of an id that may be shown as a number. */
export function keptId(kind: Kind, text: string, { ids }: Shapes): string {
  return ids[kind].numbers && /^[1-9]\d{0,15}$/.test(text) ? idOfNumber(kind, Number(text)) : text;
}

/** The field in which records of other kinds name an assessment. */
const REFERENCE = NAMES.risk_assessment.eventIdField;

function withReference(record: JsonObject, shown: (id: string) => unknown): JsonObject {
  const { [REFERENCE]: id } = record;
  return typeof id === 'string' ? { ...record, [REFERENCE]: shown(id) } : record;
}

/** A record in the sandbox's own form, but with its ids as readers see them, as text. */
export function withShownIds(kind: Kind, record: JsonObject, shapes: Shapes): JsonObject {
  const { idField } = NAMES[kind];
  const shown = { ...record, [idField]: String(shownId(kind, recordId(kind, record), shapes)) };
  if (kind === 'risk_assessment') return shown;
  return withReference(shown, (id) => String(shownId('risk_assessment', id, shapes)));
}

/** A record as it is in lists and in the answers of creates (`rows`), in the answers of GET by id (`read`), or in an event's data. */
export function shapedRecord(
  kind: Kind,
  record: JsonObject,
  where: 'rows' | 'read' | 'events',
  shapes: Shapes,
): JsonObject {
  const { [NAMES[kind].idField]: _, [NAMES[kind].eventIdField]: __, ...own } = record;
  const fields = withReference(own, (id) => shownId('risk_assessment', id, shapes));
  if (typeof own.status === 'string') fields.status = shownStatus(own.status, shapes.statuses);
  const { inside, [where]: place } = shapes.ids[kind];
  if (place === null) return fields;
  const id = shownId(kind, recordId(kind, record), shapes);
  const above = place.includes('.') ? place.slice(0, place.lastIndexOf('.')) : null;
  // The id is set first, where services write it, and again at the end, because a field of the record may have the same name.
  const document =
    inside && above !== null ? withAt({}, above, fields) : { ...withAt({}, place, id), ...fields };
  return withAt(document, place, id);
}

/**
 * What an event says of its record, in the form of `shapes`. Policy events have the four fields of the specification. It does
 * not show risk and vendor events, so they have only the id (thin) or the whole record (full).
 */
export function eventData(
  kind: Kind,
  record: JsonObject,
  { payloads, shapes, eventId }: { payloads: 'thin' | 'full'; shapes: Shapes; eventId: string },
): JsonObject {
  const { [NAMES[kind].idField]: id, name, version, status } = record;
  const thin = { [NAMES[kind].idField]: id };
  const fields = kind === 'policy' ? { ...thin, name, version, status } : payloads === 'thin' ? thin : record;
  const shaped = shapedRecord(kind, fields, 'events', shapes);
  const place = shapes.ids[kind].otherId;
  return place === null ? shaped : withAt(shaped, place, `about-${eventId}`);
}

function shownStatus(status: string, words: Shapes['statuses']): string {
  if (words === 'upper') return status.toUpperCase();
  if (words === 'title') return (status.charAt(0).toUpperCase() + status.slice(1)).replaceAll('_', ' ');
  return status;
}

function enveloped(kind: Kind, content: unknown, pattern: string, meta: JsonObject, shapes: Shapes): unknown {
  const { one, section } = NAMES[kind];
  const place = pattern.replace('{kind}', one).replace('{kinds}', section);
  if (place === '') return content;
  const answer = withAt({}, place, content);
  return shapes.envelope.meta === null ? answer : withAt(answer, shapes.envelope.meta, meta);
}

export function listAnswer(kind: Kind, rows: readonly JsonObject[], meta: Meta, shapes: Shapes): unknown {
  return enveloped(kind, rows, shapes.envelope.list, meta, shapes);
}

/** The `meta` of an answer with one record. */
const SINGLE: Meta = { page: 1, perPage: 1, total: 1 };

export function recordAnswer(kind: Kind, record: JsonObject, shapes: Shapes): unknown {
  const { record: place, recordInArray } = shapes.envelope;
  return enveloped(kind, recordInArray ? [record] : record, place, SINGLE, shapes);
}

/** The answer of POST /webhooks. `number`: the registration's place among all, from 1. */
export function registrationAnswer(
  { id, secret, disabled: _, ...rest }: Registration,
  number: number,
  shape: Shapes['registration'],
): JsonObject {
  let answer: JsonObject = shape.rest === '' ? rest : withAt({}, shape.rest, rest);
  if (shape.id !== null) answer = withAt(answer, shape.id, shape.idNumber ? number : id);
  return shape.secret === null ? answer : withAt(answer, shape.secret, secret);
}

/** The rows and the `meta` of the page that is asked for. @throws Problem, 422, for a parameter that is no number in its range. */
export function pageOf<Row>(
  records: readonly Row[],
  query: Readonly<Record<string, string>>,
  paging: Shapes['paging'],
): { rows: Row[]; meta: Meta } {
  const { by, startName, firstPage } = paging;
  const total = records.length;
  if (by === 'nothing') return { rows: [...records], meta: { page: firstPage, perPage: total, total } };
  const size = Math.min(numberIn(query, paging.sizeName, 1) ?? paging.size, paging.maxSize);
  let start: number;
  if (by === 'cursor') start = startOf(query[startName]);
  else if (by === 'offset') start = numberIn(query, startName, 0) ?? 0;
  else start = ((numberIn(query, startName, firstPage) ?? firstPage) - firstPage) * size;
  const rows = records.slice(start, start + size);
  const meta = { page: Math.floor(start / size) + firstPage, perPage: size, total };
  const isLast = start + size >= total;
  return {
    rows,
    meta: by === 'cursor' ? { ...meta, nextCursor: isLast ? null : cursorOf(start + size) } : meta,
  };
}

/** Takes only digits: `1e3`, ` 5` and `0x10` are mistakes of the sender. */
function numberIn(query: Readonly<Record<string, string>>, name: string, least: number): number | null {
  const text = query[name];
  if (text === undefined) return null;
  const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least) return number;
  throw unfit(`${name}: a whole number from ${least} on.`);
}

const CURSOR_PREFIX = 'after:';

function cursorOf(start: number): string {
  return Buffer.from(`${CURSOR_PREFIX}${start}`).toString('base64url');
}

function startOf(cursor: string | undefined): number {
  if (cursor === undefined) return 0;
  const text = Buffer.from(cursor, 'base64url').toString();
  const start = text.startsWith(CURSOR_PREFIX) ? Number(text.slice(CURSOR_PREFIX.length)) : Number.NaN;
  if (Number.isSafeInteger(start) && start >= 0) return start;
  throw unfit('The cursor is none that this list has given.');
}
