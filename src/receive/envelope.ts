import { isUtf8 } from 'node:buffer';
import { parseJson } from '../compliance/json.ts';
import { isKnownType, type Kind, kindOfType } from '../compliance/kinds.ts';
import {
  type IdPointers,
  isDeeper,
  isObject,
  isUsableId,
  type JsonObject,
  MAX_DEPTH,
  recordIdIn,
} from '../compliance/pointers.ts';
import type { IncomingEvent, UnusableDelivery } from '../store/store.ts';

export type ParsedEnvelope =
  /** At least one. More than one: it was a batch. */
  | { ok: true; events: readonly IncomingEvent[] }
  | { ok: false; code: 'invalid_json'; reason: NotJson; unusable: UnusableDelivery }
  | { ok: false; code: 'invalid_event'; reason: NoEvent; unusable: UnusableDelivery };

/** Stable codes. They are stored with the quarantined delivery. */
type NotJson =
  | 'empty_body'
  | 'invalid_utf8'
  | 'byte_order_mark'
  | 'not_json'
  | 'not_an_object'
  | 'not_events';
type NoEvent =
  | 'nested_too_deep'
  | 'mixed_batch'
  | 'missing_id'
  | 'invalid_id'
  | 'missing_type'
  | 'invalid_type'
  | 'missing_created'
  | 'invalid_created'
  | 'missing_data'
  | 'invalid_data';

/** How far into an unparsable body its type is searched for. */
const SNIFFED_BYTES = 4096;

/**
 * The events of a verified delivery, or why there are none: one, or a batch, as an array or as the one array of events of an object.
 * An unusable delivery also gets the record or the kind that it seems to be about, so that the API can be asked and nothing is lost;
 * without a kind it may be about any. `t`: the signature header's timestamp, as sent. `address`: the client's, if known. Pure.
 */
export function parseEnvelope(
  bytes: Buffer,
  { pointers, t, address = null }: { pointers: IdPointers; t: string; address?: string | null },
): ParsedEnvelope {
  const body = bytes.toString();
  const unusable = { t, body: bytes, address };
  const root = rootOf(bytes, body);
  if (typeof root === 'string') {
    const about = { reason: root, kind: sniffKind(bytes), recordId: null };
    return { ok: false, code: 'invalid_json', reason: root, unusable: { ...unusable, ...about } };
  }
  const found = eventsIn(root.value, body);
  if (typeof found !== 'string') return { ok: true, events: found.map(eventOf) };
  // What names more than itself may be about any kind.
  const isOne = isObject(root.value) && !Object.values(root.value).some((inner) => namesEvent(inner));
  const about = isOne ? aboutOf(root.value as JsonObject) : { kind: null, recordId: null };
  const kept = { ...unusable, reason: found, ...about };
  if (found === 'not_an_object' || found === 'not_events')
    return { ok: false, code: 'invalid_json', reason: found, unusable: kept };
  return { ok: false, code: 'invalid_event', reason: found, unusable: kept };

  function aboutOf({ type, data }: JsonObject): { kind: Kind | null; recordId: string | null } {
    const kind = kindNamedBy(type);
    return { kind, recordId: kind !== null && isObject(data) ? recordIdIn(data, kind, pointers) : null };
  }

  function eventOf({ object, text }: Found): IncomingEvent {
    const { id, type, created } = object as unknown as Envelope;
    const createdMs = parseInstant(created)!;
    return {
      id,
      type,
      created,
      createdMs,
      ...aboutOf(object),
      known: isKnownType(type),
      body: text,
      t,
      address,
    };
  }
}

const kindNamedBy = (type: unknown): Kind | null => (typeof type === 'string' ? kindOfType(type) : null);

/** An object that is an event, and its own text. */
interface Found {
  object: JsonObject;
  text: string;
}

/** The value itself, if it is an event, or all of a batch. Or why there is none. */
function eventsIn(value: unknown, text: string): Found[] | NoEvent | 'not_an_object' | 'not_events' {
  if (Array.isArray(value)) return batchOf(value) ?? 'not_events';
  if (!isObject(value)) return 'not_an_object';
  if (!isOfTheTwelve(value)) {
    const naming = Object.values(value).filter((inner) => batchOf(inner) !== null || namesEvent(inner));
    if (naming.length > 0) return (naming.length === 1 && batchOf(naming[0])) || 'mixed_batch';
  }
  return faultOf(value) ?? [{ object: value, text: text.isWellFormed() ? text : JSON.stringify(value) }];
}

/** The events of an array; null: it is none, is empty, or has something that is no event or more than one. */
function batchOf(values: unknown): Found[] | null {
  const isEvent = (one: unknown): one is JsonObject =>
    isObject(one) && faultOf(one) === null && (isOfTheTwelve(one) || !namesEvent(one['data']));
  if (!Array.isArray(values) || values.length === 0 || !values.every(isEvent)) return null;
  return values.map((object) => ({ object, text: JSON.stringify(object) }));
}

/** It has the type of an event of a known kind, and more of one. */
const isEventLike = ({ type, created, data }: JsonObject): boolean =>
  kindNamedBy(type) !== null && (created !== undefined || data !== undefined);

/** Then what its data names is about its own record. An event of another type may wrap others, whatever its family. */
const isOfTheTwelve = (value: JsonObject): boolean =>
  isEventLike(value) && isKnownType(String(value['type']));

/** Whether there is something like an event in it, also in a text of JSON. */
function namesEvent(value: unknown, levels = MAX_DEPTH): boolean {
  const inner = typeof value === 'string' && /^\s*[{[]/.test(value) ? jsonIn(value) : value;
  if (typeof inner !== 'object' || inner === null) return false;
  if (isObject(inner) && isEventLike(inner)) return true;
  return levels > 0 && Object.values(inner).some((each) => namesEvent(each, levels - 1));
}

/** The types of the fields once `faultOf` has found nothing wrong. */
interface Envelope {
  id: string;
  type: string;
  created: string;
  data: JsonObject;
}

/** Why the object is no event; null: it is one. */
function faultOf(object: JsonObject): NoEvent | null {
  const { id, type, created, data } = object;
  if (isDeeper(object, MAX_DEPTH)) return 'nested_too_deep';
  if (id === undefined) return 'missing_id';
  if (!isUsableId(id)) return 'invalid_id';
  if (type === undefined) return 'missing_type';
  // A type appears in logs and tables, so it has the limits of an id.
  if (!isUsableId(type)) return 'invalid_type';
  if (created === undefined) return 'missing_created';
  if (typeof created !== 'string' || parseInstant(created) === null) return 'invalid_created';
  if (data === undefined) return 'missing_data';
  if (!isObject(data)) return 'invalid_data';
  // It would be taken, and these lost. What its data names is about its own record.
  const hasOthers = Object.entries(object).some(
    ([name, inner]) => name !== 'data' && batchOf(inner) !== null,
  );
  return hasOthers ? 'mixed_batch' : null;
}

function rootOf(bytes: Buffer, text: string): { value: unknown } | NotJson {
  if (bytes.length === 0) return 'empty_body';
  if (!isUtf8(bytes)) return 'invalid_utf8';
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return 'byte_order_mark';
  const value = jsonIn(text);
  return value === undefined ? 'not_json' : { value };
}

/** Undefined: it is no JSON. `__proto__` becomes an ordinary field, and nothing here assigns or merges the result. */
function jsonIn(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** The kind of a body that cannot be parsed: one event that was cut off usually still shows its type, before anything that is nested. */
function sniffKind(bytes: Buffer): Kind | null {
  // One after the other: each may be of another kind.
  if (bytes.toString('latin1').match(/"type"\s*:/g)?.length !== 1) return null;
  const start = bytes.toString('latin1', 0, SNIFFED_BYTES);
  const type = /^[^[{]{0,8}\{[^[{]*"type"\s*:\s*"([^"]{1,255})/.exec(start)?.[1];
  return type === undefined ? null : kindOfType(type);
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d(?::?\d\d)?)$/;
const DAY_SECONDS = 86_400;
// Not looked up for each delivery, so that a Node built without it does not start.
const { Instant } = Temporal;

/**
 * Milliseconds since 1970 of an ISO 8601 instant in its extended form; null: it is none. Date, time and zone are required and
 * checked against the calendar; Date.parse would accept 30 February, and local times. Fractions of a second are cut to
 * milliseconds. A leap second (`:60`) is valid only at the end of a UTC day and counts as the next second, because POSIX time
 * has none. `24:00` is invalid.
 */
export function parseInstant(text: string): number | null {
  if (!INSTANT.test(text)) return null;
  let ms: number;
  try {
    ms = Instant.from(text).epochMilliseconds;
  } catch {
    return null;
  }
  if (!text.startsWith(':60', 16)) return ms;
  // It was read as `:59`.
  const next = ms + 1000;
  return Math.floor(next / 1000) % DAY_SECONDS === 0 ? next : null;
}
