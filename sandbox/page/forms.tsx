import type { PropsWithChildren } from 'hono/jsx';
import { z } from 'zod';
import { KINDS } from '../../src/compliance/kinds.ts';
import { isObject, type JsonObject } from '../../src/compliance/pointers.ts';
import { unfit } from '../problems.ts';
import { valueIn, withAt } from '../shapes.ts';

const MAX_SEARCH_LENGTH = 200;

/** Which records a browser is shown. A parameter that cannot be read gets its default. */
export const viewSchema = z.object({
  kind: z.enum(KINDS).catch('policy'),
  q: z.string().max(MAX_SEARCH_LENGTH).catch(''),
  page: z.coerce.number().int().min(1).catch(1),
});
export type View = z.infer<typeof viewSchema>;

export function queryOf(view: Partial<View>): string {
  const parameters = new URLSearchParams();
  if (view.kind !== undefined) parameters.set('kind', view.kind);
  if (view.q) parameters.set('q', view.q);
  if (view.page !== undefined && view.page > 1) parameters.set('page', String(view.page));
  return `?${parameters}`;
}

type PostFormProps = PropsWithChildren<{
  view: Partial<View>;
  /** Left out where the form's buttons say it. */
  action?: string;
  class?: string;
}>;

/** Asks for one of the controls, and leads back to the same view. */
export function PostForm({ view, action, class: name, children }: PostFormProps) {
  return (
    <form method="post" action={`/act${queryOf(view)}`} class={name}>
      {action !== undefined && <input type="hidden" name="action" value={action} />}
      {children}
    </form>
  );
}

/** A field of a form, where every value is a text, and how that becomes a part of a control's request. */
export interface FormField {
  /** Its place in the request. */
  name: string;
  label?: string;
  /** A list: one of these words. */
  type: keyof typeof READ | readonly string[];
}

export interface ShownField extends FormField {
  label: string;
  /** Offered, and not required. */
  choices?: readonly string[];
  max?: number;
}

export interface FieldGroup {
  title: string;
  fields: readonly ShownField[];
}

/** How the text of a field is read. With `?` an empty one is null, with `optional` it is left out. */
const READ = {
  text: (text: string) => text,
  'text?': (text: string) => text || null,
  optional: (text: string) => text || undefined,
  flag: (text: string) => text !== '',
  number: numberIn,
  'number?': (text: string, label: string) => (text === '' ? null : numberIn(text, label)),
  percent: (text: string, label: string) => numberIn(text || '0', label) / 100,
  seconds: (text: string, label: string) => numberIn(text || '0', label) * 1000,
  json: objectIn,
};

/** Neither `1e3` nor `0x10`. */
function numberIn(text: string, label: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  throw unfit(`${label}: a number such as 2 or 0.5.`);
}

function objectIn(text: string, label: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text || '{}');
  } catch {
    throw unfit(`${label}: not JSON, such as {"owner": "Legal"}.`);
  }
  if (isObject(value)) return value;
  throw unfit(`${label}: a JSON object, such as {"owner": "Legal"}.`);
}

/** Throws a Problem that names the field. */
export function bodyOf(fields: readonly FormField[], form: Readonly<Record<string, string>>): JsonObject {
  let body: JsonObject = {};
  for (const { name, label, type } of fields) {
    const read = typeof type === 'string' ? READ[type] : READ.optional;
    const value = read(form[name] ?? '', label ?? name);
    if (value !== undefined) body = withAt(body, name, value);
  }
  return body;
}

/** What the form shows for a value: a text, or whether the box is ticked. */
function shown(values: object, { name, type }: ShownField): string | boolean {
  const value = valueIn(values, name);
  if (typeof value === 'boolean') return value;
  if (type === 'percent') return String(Math.round(Number(value) * 10_000) / 100);
  return type === 'seconds' ? String(Number(value) / 1000) : String(value ?? '');
}

/** `values`: those of today, in the form of the control's request. */
export function Field({ field, values }: { field: ShownField; values: object }) {
  const { name, label, type, choices, max } = field;
  const value = shown(values, field);
  if (typeof value === 'boolean') {
    return (
      <label class="check">
        <input type="checkbox" name={name} checked={value} />
        {label}
      </label>
    );
  }
  if (typeof type === 'object') {
    return (
      <label>
        {label}
        <select name={name}>
          {type.map((word) => (
            <option value={word} selected={word === value}>
              {word}
            </option>
          ))}
        </select>
      </label>
    );
  }
  if (type !== 'text' && type !== 'text?') {
    return (
      <label>
        {label}
        <input
          name={name}
          value={value}
          type="number"
          min="0"
          max={max}
          step="any"
          required={type === 'number'}
        />
      </label>
    );
  }
  const listId = choices === undefined ? undefined : `choices-${name}`;
  return (
    <label>
      {label}
      <input name={name} value={value} list={listId} spellcheck={false} />
      {listId !== undefined && (
        <datalist id={listId}>
          {choices!
            .filter((choice) => choice !== '')
            .map((choice) => (
              <option value={choice} />
            ))}
        </datalist>
      )}
    </label>
  );
}

export function FieldGroups({ groups, values }: { groups: readonly FieldGroup[]; values: object }) {
  return (
    <>
      {groups.map(({ title, fields }) => (
        <fieldset>
          <legend>{title}</legend>
          <div class="fields">
            {fields.map((field) => (
              <Field field={field} values={values} />
            ))}
          </div>
        </fieldset>
      ))}
    </>
  );
}
