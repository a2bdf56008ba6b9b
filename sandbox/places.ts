import type { JsonObject } from '../src/compliance/pointers.ts';

/** Values at places of a document: dotted paths, `assessment.ref` for the field `ref` of the object in `assessment`. */

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** `document` with `value` at `place`: objects on the way there are kept or made, anything else in the way gives way. */
export function withAt(document: JsonObject, place: string, value: unknown): JsonObject {
  return within(document, place.split('.'), value);
}

function within(document: JsonObject, [step = '', ...rest]: readonly string[], value: unknown): JsonObject {
  if (rest.length === 0) return { ...document, [step]: value };
  const inner = Object.hasOwn(document, step) ? document[step] : undefined;
  return { ...document, [step]: within(isObject(inner) ? inner : {}, rest, value) };
}

/** Undefined where there is nothing. */
export function valueIn(document: unknown, place: string): unknown {
  let value = document;
  for (const step of place.split('.')) {
    if (!isObject(value) || !Object.hasOwn(value, step)) return undefined;
    value = value[step];
  }
  return value;
}

/** One is the other, or lies in it. */
export function areNested(one: string, other: string): boolean {
  return one === other || one.startsWith(`${other}.`) || other.startsWith(`${one}.`);
}
