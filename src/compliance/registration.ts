import { z } from 'zod';
import { parseJson } from './json.ts';
import { EVENT_TYPES, type EventType, FAMILIES } from './kinds.ts';
import { idTextOf, isObject, type JsonObject, plainName } from './pointers.ts';

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

/** Names of fields, as `plainName` writes them. Of an id's, the first counts before the second, wherever they stand. */
const SECRET_NAMES = ['secret', 'signingsecret', 'webhooksecret', 'signingkey', 'key'];
const ID_NAMES = ['webhookid', 'hookid', 'subscriptionid', 'registrationid', 'endpointid', 'id'];

/** Services mask a secret that they do not show again. A mask must not be taken for the secret. */
const MASKED = /\*\*\*|•|…|\.\.\./u;

/** Reads any answer, JSON or not. Pure; never throws. */
export function registrationIn(text: string): RegistrationAnswer {
  const nothing = { text, id: null, secret: null, url: null, events: null };
  const own = objectIn(parsed(text));
  if (own === null) return nothing;
  const data = objectIn(own['data']);
  const near = data === null ? [own] : [data, own];
  const inner = near.flatMap((place) => Object.values(place).map(objectIn)).filter((each) => each !== null);
  const places = [...new Set([...near, ...inner])];

  const holders = places.filter((place) => secretsIn(place).length > 0);
  const secrets = new Set(holders.flatMap(secretsIn));
  // An id beside `data` may be the request's, and a deeper one may be a key's. So the registration's own place comes first.
  const inOrder = [...(data === null ? [] : [data]), ...holders, ...places];
  const ids = ID_NAMES.flatMap((name) => inOrder.flatMap((place) => valuesIn(place, name)));
  const [id = null] = ids.map(idTextOf).filter((each) => each !== null);
  const [url = null] = inOrder.flatMap((place) => valuesIn(place, 'url')).filter(isText);
  const [events = null] = inOrder.flatMap((place) => valuesIn(place, 'events')).filter(areTexts);
  return { ...nothing, id, secret: secrets.size === 1 ? [...secrets][0]! : null, url, events };
}

/** An object, or the only one of a list. */
function objectIn(value: unknown): JsonObject | null {
  const one: unknown = Array.isArray(value) && value.length === 1 ? value[0] : value;
  return isObject(one) ? one : null;
}

const valuesIn = (place: JsonObject, name: string): unknown[] =>
  Object.keys(place).flatMap((field) => (plainName(field) === name ? [place[field]] : []));

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';
const areTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);

const secretsIn = (place: JsonObject): string[] =>
  SECRET_NAMES.flatMap((name) => valuesIn(place, name))
    .filter(isText)
    .filter((text) => !MASKED.test(text));

/** No answer holds a secret deeper. */
const MAX_TEXT_DEPTH = 8;

/** All texts in an answer by their places, such as `data.0.token`; `.` is the place in an answer that is only a text. Pure. */
export function textsIn(answer: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const look = (value: unknown, path: readonly string[]) => {
    if (path.length > MAX_TEXT_DEPTH) return;
    if (isText(value)) found.set(path.join('.') || '.', value);
    else if (typeof value === 'object' && value !== null)
      for (const [name, inner] of Object.entries(value)) look(inner, [...path, name]);
  };
  look(parsed(answer) ?? answer.trim(), []);
  return found;
}

/** Undefined: not JSON. */
function parsed(text: string): unknown {
  try {
    return parseJson(text.replace(/^\ufeff/, ''));
  } catch {
    return undefined;
  }
}
