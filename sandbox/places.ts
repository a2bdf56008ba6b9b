import { z } from 'zod';
import { isObject, type JsonObject } from '../src/compliance/pointers.ts';
import { parseOrRefuse } from './problems.ts';

/** Places in JSON documents (`assessment.ref` is the field `ref` of the object in the field `assessment`), and changes of parts of them. */

/** `document` with `value` at `place`. Objects on the way are kept or made; anything else on the way is replaced. */
export function withAt(document: JsonObject, place: string, value: unknown): JsonObject {
  const [step = '', ...rest] = place.split('.');
  if (rest.length === 0) return { ...document, [step]: value };
  const inner = valueIn(document, step);
  return { ...document, [step]: withAt(isObject(inner) ? inner : {}, rest.join('.'), value) };
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

/** Whether one of the places is another one, or inside it. Null and the empty text are no places. */
export function areNested(...places: (string | null)[]): boolean {
  const held = places.flatMap((place) => (place ? [`${place}.`] : []));
  return held.some((one, at) => held.some((other, index) => index !== at && other.startsWith(one)));
}

/** Any of the fields at any depth. A list is replaced as a whole. */
export type Patch<Whole> = Whole extends readonly unknown[]
  ? Whole
  : Whole extends object
    ? { [Field in keyof Whole]?: Patch<Whole[Field]> | undefined }
    : Whole;

/** The schema of a patch of such an object. Rules about several fields are checked on the result, see `patched`. */
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

/** The same, checked by the schema. Throws a Problem if the result contradicts itself. */
export function patched<Schema extends z.ZodObject>(
  schema: Schema,
  whole: z.infer<Schema>,
  patch: Patch<z.infer<Schema>>,
): z.infer<Schema> {
  return parseOrRefuse(schema, merged(whole, patch));
}
