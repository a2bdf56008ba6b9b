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
  | { ok: true; event: IncomingEvent }
  | { ok: false; code: 'invalid_json'; reason: NotJson; unusable: UnusableDelivery }
  | { ok: false; code: 'invalid_event'; reason: NoEvent; unusable: UnusableDelivery };

/** Stable codes. They are stored with the quarantined delivery. */
type NotJson = 'empty_body' | 'invalid_utf8' | 'byte_order_mark' | 'not_json' | 'not_an_object';
type NoEvent =
  | 'nested_too_deep'
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
 * The event of a verified delivery, or why there is none. An unusable delivery also gets the record or the kind that it seems to
 * be about, so that the API can be asked and nothing is lost. `t`: the signature header's timestamp, as sent. `address`: the
 * client's, if known. Pure.
 */
export function parseEnvelope(
  bytes: Uint8Array,
  { pointers, t, address = null }: { pointers: IdPointers; t: string; address?: string | null },
): ParsedEnvelope {
  const notJson = (reason: NotJson): ParsedEnvelope => {
    const unusable = { reason, t, body: bytes, kind: sniffKind(bytes), recordId: null, address };
    return { ok: false, code: 'invalid_json', reason, unusable };
  };
  const body = decode(bytes);
  if (typeof body !== 'string') return notJson(body.reason);
  const root = jsonIn(body);
  if (root === undefined) return notJson('not_json');
  if (!isObject(root)) return notJson('not_an_object');

  const { id, type, created, data } = root as unknown as Envelope;
  const kind = typeof type === 'string' ? kindOfType(type) : null;
  const recordId = kind !== null && isObject(data) ? recordIdIn(data, kind, pointers) : null;
  const createdMs = typeof created === 'string' ? parseInstant(created) : null;
  const reason = isTooDeep(root, body) ? 'nested_too_deep' : faultOf(root, createdMs);
  if (reason !== null) {
    const unusable = { reason, t, body: bytes, kind, recordId, address };
    return { ok: false, code: 'invalid_event', reason, unusable };
  }
  const known = isKnownType(type);
  const event = { id, type, created, createdMs: createdMs!, kind, recordId, known, body, data, t, address };
  return { ok: true, event };
}

/** The types of the fields once `faultOf` has found nothing wrong. */
interface Envelope {
  id: string;
  type: string;
  created: string;
  data: JsonObject;
}

/** Why the object is no event; null: it is one. */
function faultOf({ id, type, created, data }: JsonObject, createdMs: number | null): NoEvent | null {
  if (id === undefined) return 'missing_id';
  if (!isUsableId(id)) return 'invalid_id';
  if (type === undefined) return 'missing_type';
  // A type appears in logs and tables, so it has the limits of an id.
  if (!isUsableId(type)) return 'invalid_type';
  if (created === undefined) return 'missing_created';
  if (createdMs === null) return 'invalid_created';
  if (data === undefined) return 'missing_data';
  return isObject(data) ? null : 'invalid_data';
}

/** Counts brackets first, because that is cheap and shows for nearly every delivery that it is not too deep. */
function isTooDeep(root: JsonObject, text: string): boolean {
  const openings = occurrences(text, '{') + occurrences(text, '[');
  return openings > MAX_DEPTH && isDeeper(root, MAX_DEPTH);
}

/** Stops counting above MAX_DEPTH. */
function occurrences(text: string, bracket: string): number {
  let count = 0;
  let at = text.indexOf(bracket);
  while (at !== -1 && count <= MAX_DEPTH) {
    count++;
    at = text.indexOf(bracket, at + 1);
  }
  return count;
}

function decode(body: Uint8Array): string | { reason: NotJson } {
  if (body.length === 0) return { reason: 'empty_body' };
  if (!isUtf8(body)) return { reason: 'invalid_utf8' };
  if (body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf) return { reason: 'byte_order_mark' };
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8');
}

function jsonIn(text: string): unknown {
  try {
    // `__proto__` becomes an ordinary field, and nothing here assigns or merges the result.
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** The kind of a body that cannot be parsed: a body that was cut off or wrapped usually still shows its type. */
function sniffKind(body: Uint8Array): Kind | null {
  const start = Buffer.from(body.buffer, body.byteOffset, Math.min(body.byteLength, SNIFFED_BYTES));
  const type = /"type"\s*:\s*"([a-z_]+\.)/.exec(start.toString('latin1'))?.[1];
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
