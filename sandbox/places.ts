import { z } from 'zod';
import { isObject, type JsonObject } from '../src/compliance/pointers.ts';

/** Places in JSON documents, and changes at them. `assessment.ref` is the field `ref` of the object in the field `assessment`. */

/** `document` with `value` at `place`. Objects on the way to it are kept or made. Anything else on the way is replaced. */
export function withAt(document: JsonObject, place: string, value: unknown): JsonObject {
  const [step = '', ...rest] = place.split('.');
  if (rest.length === 0) return { ...document, [step]: value };
  const inner = valueIn(document, step);
  return { ...document, [step]: withAt(isObject(inner) ? inner : {}, rest.join('.'), value) };
}

/** The value at `place`, or undefined. */
export function valueIn(document: unknown, place: string): unknown {
  let value = document;
  for (const step of place.split('.')) {
    if (!isObject(value) || !Object.hasOwn(value, step)) return undefined;
    value = value[step];
  }
  return value;
}

/** Whether one place equals another one or is inside it. Null and the empty text are no places. */
export function areNested(...places: (string | null)[]): boolean {
  const held = places.flatMap((place) => (place ? [`${place}.`] : []));
  return held.some((one, at) => held.some((other, index) => index !== at && other.startsWith(one)));
}

/** Some of the fields, at any depth. A list is replaced as a whole. */
export type Patch<Whole> = Whole extends readonly unknown[]
  ? Whole
  : Whole extends object
    ? { [Field in keyof Whole]?: Patch<Whole[Field]> | undefined }
    : Whole;

/** The schema of a patch. Rules about several fields are to be checked on the merged result. */
export function patchOf<Schema extends z.ZodObject>(schema: Schema): z.ZodType<Patch<z.infer<Schema>>> {
  const fields = Object.entries(schema.shape).map(([name, field]) => {
    const inner = field instanceof z.ZodObject ? patchOf(field) : (field as z.ZodType);
    return [name, inner.optional()] as const;
  });
  return z.strictObject(Object.fromEntries(fields)) as unknown as z.ZodType<Patch<z.infer<Schema>>>;
}

/** `whole` with the fields of the patch; what the patch leaves out stays. */
export function merged<Whole>(whole: Whole, patch: Patch<Whole>): Whole {
  if (!isObject(whole) || !isObject(patch)) return patch as Whole;
  const fields = Object.entries(patch).filter(([, value]) => value !== undefined);
  const changed = fields.map(([name, value]) => [name, merged(whole[name], value as never)]);
  return { ...whole, ...Object.fromEntries(changed) };
}
