import type { Meta } from '../src/compliance/envelope.ts';
import type { Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import { EVENT_ID_FIELDS, ID_FIELDS, ID_PREFIXES } from './records.ts';
import { type Shapes, withAt } from './shapes.ts';

/**
 * From the sandbox's own form of records to the form that its readers see, and back for ids. The rest of the sandbox does
 * not know of other shapes.
 */

/** Ids that are made from a place in a seed have as many digits, or more. */
const ID_DIGITS = 4;

/** The number of an id such as `vendor-0001`; null: it has none of which the id could be made again. */
function numberOf(kind: Kind, id: string): number | null {
  const prefix = ID_PREFIXES[kind];
  const number = id.startsWith(prefix) ? Number(id.slice(prefix.length)) : Number.NaN;
  return Number.isSafeInteger(number) && number > 0 && idOfNumber(kind, number) === id ? number : null;
}

export function idOfNumber(kind: Kind, number: number): string {
  return ID_PREFIXES[kind] + String(number).padStart(ID_DIGITS, '0');
}

/** A record's id as the API and events write it. */
export function shownId(kind: Kind, id: string, { ids }: Shapes): string | number {
  return ids[kind].numbers ? (numberOf(kind, id) ?? id) : id;
}

/** The id that the sandbox keeps a record under, of the text of one that it has made a number. */
export function keptId(kind: Kind, text: string, { ids }: Shapes): string {
  return ids[kind].numbers && /^[1-9]\d{0,15}$/.test(text) ? idOfNumber(kind, Number(text)) : text;
}

/** With ids as they are shown, as text, and still in the sandbox's own fields. */
export function withShownIds(kind: Kind, record: JsonObject, shapes: Shapes): JsonObject {
  const own = ID_FIELDS[kind];
  const named = EVENT_ID_FIELDS.risk_assessment;
  const reference = kind === 'risk_assessment' ? undefined : record[named];
  return {
    ...record,
    [own]: String(shownId(kind, String(record[own]), shapes)),
    ...(typeof reference === 'string'
      ? { [named]: String(shownId('risk_assessment', reference, shapes)) }
      : {}),
  };
}

/** As the rows of lists and the answers of creates hold it (`rows`), the answers of GET by id (`read`), or an event's data. */
export function shapedRecord(
  kind: Kind,
  record: JsonObject,
  where: 'rows' | 'read' | 'events',
  shapes: Shapes,
): JsonObject {
  const { [ID_FIELDS[kind]]: _, [EVENT_ID_FIELDS[kind]]: __, ...own } = record;
  const named = EVENT_ID_FIELDS.risk_assessment;
  const reference = own[named];
  const fields = {
    ...own,
    ...(typeof reference === 'string' ? { [named]: shownId('risk_assessment', reference, shapes) } : {}),
    ...(typeof own.status === 'string' ? { status: shownStatus(own.status, shapes.statuses) } : {}),
  };
  const shape = shapes.ids[kind];
  const place = shape[where];
  if (place === null) return fields;
  const id = shownId(kind, String(record[ID_FIELDS[kind]]), shapes);
  const above = place.includes('.') ? place.slice(0, place.lastIndexOf('.')) : null;
  // The id first, as services write it; and once more, over a field of the record that has its name.
  const document =
    shape.inside && above !== null ? withAt({}, above, fields) : { ...withAt({}, place, id), ...fields };
  return withAt(document, place, id);
}

/**
 * What an event says of its record. Policy events hold the four fields of the specification; risk and vendor events,
 * which the specification does not show, the id alone (thin) or the whole record. Its form is that of `shapes`.
 */
export function eventData(
  kind: Kind,
  record: JsonObject,
  { payloads, shapes, eventId }: { payloads: 'thin' | 'full'; shapes: Shapes; eventId: string },
): JsonObject {
  const { [ID_FIELDS[kind]]: id, name, version, status } = record;
  const thin = { [ID_FIELDS[kind]]: id };
  const told = kind === 'policy' ? { ...thin, name, version, status } : payloads === 'thin' ? thin : record;
  const shaped = shapedRecord(kind, told, 'events', shapes);
  const place = shapes.ids[kind].otherId;
  return place === null ? shaped : withAt(shaped, place, `about-${eventId}`);
}

function shownStatus(status: string, words: Shapes['statuses']): string {
  if (words === 'upper') return status.toUpperCase();
  if (words === 'title') return (status.charAt(0).toUpperCase() + status.slice(1)).replaceAll('_', ' ');
  return status;
}

/** The words for `{kind}` and `{kinds}` in an envelope's places. */
const WORDS = {
  policy: ['policy', 'policies'],
  risk_assessment: ['riskAssessment', 'riskAssessments'],
  vendor: ['vendor', 'vendors'],
} as const satisfies Record<Kind, readonly [string, string]>;

function enveloped(kind: Kind, content: unknown, pattern: string, meta: JsonObject, shapes: Shapes): unknown {
  const [one, several] = WORDS[kind];
  const place = pattern.replace('{kind}', one).replace('{kinds}', several);
  if (place === '') return content;
  const answer = withAt({}, place, content);
  return shapes.envelope.meta === null ? answer : withAt(answer, shapes.envelope.meta, meta);
}

export function listAnswer(kind: Kind, rows: readonly JsonObject[], meta: Meta, shapes: Shapes): unknown {
  return enveloped(kind, rows, shapes.envelope.list, meta, shapes);
}

/** One record is a page of one, as far as an envelope for all answers can say it. */
const SINGLE: Meta = { page: 1, perPage: 1, total: 1 };

export function recordAnswer(kind: Kind, record: JsonObject, shapes: Shapes): unknown {
  const { record: place, recordInArray } = shapes.envelope;
  return enveloped(kind, recordInArray ? [record] : record, place, SINGLE, shapes);
}
