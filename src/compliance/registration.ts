import { z } from 'zod';
import { parseJson, wholeNumber } from './json.ts';
import { EVENT_TYPES, type EventType, FAMILIES } from './kinds.ts';
import { isObject, isUsableId, type JsonObject } from './pointers.ts';

/** The default: all twelve types, and the types that a family gains later. */
export const EVERY_FAMILY: readonly string[] = Object.keys(FAMILIES).map((family) => `${family}.*`);

/** An exact event type or a family's wildcard. Source: section 2, Webhook registration. */
const subscriptionPattern = z
  .string()
  .regex(/^[a-z_]+\.(\*|[a-z_]+)$/, 'an event type such as policy.created, or a family such as policy.*');

export const registrationRequestSchema = z.looseObject({
  url: z.url(),
  events: z.array(subscriptionPattern).min(1),
  description: z.string(),
});
export type RegistrationRequest = z.infer<typeof registrationRequestSchema>;

export interface Coverage {
  covered: EventType[];
  /** Known types that will not be delivered. */
  missing: EventType[];
  /** Patterns that match no known type: misspelt, or a type that this version does not know. */
  unmatched: string[];
}

/** `pattern` is an exact type or `family.*`. No other wildcard exists. */
export function patternSelects(pattern: string, type: string): boolean {
  if (pattern === type) return true;
  return pattern.endsWith('.*') && type.startsWith(pattern.slice(0, -1));
}

/** The event types that a registration's patterns select. */
export function coverageOf(patterns: readonly string[]): Coverage {
  const covered = EVENT_TYPES.filter((type) => patterns.some((pattern) => patternSelects(pattern, type)));
  return {
    covered,
    missing: EVENT_TYPES.filter((type) => !covered.includes(type)),
    unmatched: patterns.filter((pattern) => !EVENT_TYPES.some((type) => patternSelects(pattern, type))),
  };
}

/** Where our receiver takes deliveries. */
export const RECEIVER_PATH = '/webhooks';

/** Another path need not be wrong, because a proxy may rewrite it. */
export const isReceiverPath = (url: string): boolean => new URL(url).pathname.endsWith(RECEIVER_PATH);

/**
 * The answer to POST /webhooks. The specification does not show its form, and the service shows the secret only once. So the
 * caller stores the whole answer, and a person decides if the secret or the id is not recognised.
 */
export interface RegistrationAnswer {
  /** The whole answer, with the secret. */
  text: string;
  /** Null: none under a usual name. */
  id: string | null;
  /** Null: none under a usual name, or several that differ. */
  secret: string | null;
  url: string | null;
  events: string[] | null;
}

const SECRET_NAMES =
  'secret signingSecret signing_secret webhookSecret webhook_secret signingKey signing_key key'.split(' ');
const ID_NAMES = ['webhookId', 'webhook_id', 'id'];

/** Services mask a secret that they do not show again. A mask must not be taken for the secret. */
const MASKED = /\*\*\*|•|…|\.\.\./u;

/** Places that are shown to a person. */
const MAX_TEXTS = 30;
const MAX_TEXT_DEPTH = 8;

/** Reads any answer, JSON or not. Pure; never throws. */
export function registrationIn(text: string): RegistrationAnswer {
  const nothing = { text, id: null, secret: null, url: null, events: null };
  const body = parsed(text);
  const own = objectOf(body);
  if (own === null) return nothing;
  const data = objectOf(own['data']);
  const near = data === null ? [own] : [data, own];
  const places = [...new Set([...near, ...near.flatMap((place) => Object.values(place).flatMap(listOf))])];

  const holders = places.filter((place) => secretsAt(place).length > 0);
  const secrets = new Set(holders.flatMap(secretsAt));
  // An id beside `data` may be the request's, and a deeper one may be a key's. So the registration's own place comes first.
  const inOrder = [...(data === null ? [] : [data]), ...holders, ...places];
  return {
    ...nothing,
    id: firstOf(ID_NAMES, (name) => firstOf(inOrder, (place) => idAt(place, name))),
    secret: secrets.size === 1 ? [...secrets][0]! : null,
    url: firstOf(inOrder, (place) => textIn(place, 'url')),
    events: firstOf(inOrder, eventsAt),
  };
}

/** The places of all texts in the answer, as `secretAt` takes them, without the texts. Pure. */
export function placesOfTexts(text: string): string[] {
  const found: string[] = [];
  const look = (value: unknown, path: readonly string[]) => {
    if (found.length >= MAX_TEXTS || path.length > MAX_TEXT_DEPTH) return;
    if (typeof value === 'string' && value !== '') found.push(path.length === 0 ? WHOLE : path.join('.'));
    else if (typeof value === 'object' && value !== null) {
      for (const [name, inner] of Object.entries(value)) look(inner, [...path, name]);
    }
  };
  look(parsed(text) ?? text.trim(), []);
  return found;
}

/** The place of the text in an answer that is only a text. */
const WHOLE = '.';

/** The text at a dotted place such as `data.hook.token` or `data.0.token`; null: there is none. Pure. */
export function secretAt(text: string, place: string): string | null {
  let value: unknown = parsed(text) ?? text.trim();
  for (const step of place === WHOLE ? [] : place.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return null;
    value = (value as JsonObject)[step];
  }
  return typeof value === 'string' && value !== '' ? value : null;
}

/** Undefined: not JSON. */
function parsed(text: string): unknown {
  try {
    return parseJson(text.replace(/^\ufeff/, ''));
  } catch {
    return undefined;
  }
}

/** An object, or the only one of a list. */
function objectOf(value: unknown): JsonObject | null {
  const one: unknown = Array.isArray(value) && value.length === 1 ? value[0] : value;
  return isObject(one) ? one : null;
}

const listOf = (value: unknown): JsonObject[] => {
  const one = objectOf(value);
  return one === null ? [] : [one];
};

function firstOf<T, R>(list: readonly T[], find: (each: T) => R | null): R | null {
  for (const each of list) {
    const found = find(each);
    if (found !== null) return found;
  }
  return null;
}

function textIn(place: JsonObject, name: string): string | null {
  const value = place[name];
  return typeof value === 'string' && value !== '' ? value : null;
}

function secretsAt(place: JsonObject): string[] {
  return SECRET_NAMES.flatMap((name) => textIn(place, name) ?? []).filter((value) => !MASKED.test(value));
}

function idAt(place: JsonObject, name: string): string | null {
  const value = place[name];
  return isUsableId(value) ? value : wholeNumber(value);
}

function eventsAt(place: JsonObject): string[] | null {
  const value = place['events'];
  return Array.isArray(value) && value.every((each) => typeof each === 'string') ? value : null;
}

/** Fields of an error that hold text for people, the most telling first. */
const MESSAGE_FIELDS = [
  ...['detail', 'message', 'error_description', 'errorMessage', 'error', 'errors', 'title'],
  ...['msg', 'errmsg', 'faultstring', 'fault', 'reason'],
];

/** May be a secret: no signing secret is shorter, and few words are longer. */
const LONG_RUN = /[\w+/=-]{16,}/g;

const MAX_MESSAGE_LENGTH = 200;

/**
 * The one message that an error answer has for people, without what may be a secret in it. `asked`: our own request, whose words
 * are none. Null: the answer has no message, or is a web page. Pure.
 */
export function messageIn(answer: string, asked = ''): string | null {
  const document = parsed(answer) ?? (/^\s*[<{[]/.test(answer) ? null : answer);
  const message = messageOf(document)?.replace(/\s+/g, ' ').trim();
  if (!message) return null;
  const shown = message.replace(LONG_RUN, (run) => (asked.includes(run) ? run : '[hidden]'));
  return shown.slice(0, MAX_MESSAGE_LENGTH);
}

function messageOf(value: unknown): string | null {
  if (typeof value === 'string') return value === '' ? null : value;
  if (Array.isArray(value)) return firstOf(value, messageOf);
  return isObject(value) ? firstOf(MESSAGE_FIELDS, (name) => messageOf(value[name])) : null;
}
