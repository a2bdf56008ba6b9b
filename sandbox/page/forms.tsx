import type { PropsWithChildren } from 'hono/jsx';
import { z } from 'zod';
import { parseJson } from '../../src/compliance/json.ts';
import { KINDS } from '../../src/compliance/kinds.ts';
import { isObject, type JsonObject } from '../../src/compliance/pointers.ts';
import { valueIn, withAt } from '../places.ts';
import { unfit } from '../problems.ts';

const MAX_SEARCH_LENGTH = 200;

/** Which records the page shows. An invalid parameter gets its default. */
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
  /** Left out if the form's buttons name it. */
  action?: string;
  class?: string;
}>;

/** A form that calls a control and returns to the same view. */
export function PostForm({ view, action, class: name, children }: PostFormProps) {
  return (
    <form method="post" action={`/act${queryOf(view)}`} class={name}>
      {action !== undefined && <input type="hidden" name="action" value={action} />}
      {children}
    </form>
  );
}

/** A number, or one of several words, that the page shows and sets. */
interface SettingField {
  /** Its place in the request of the control. */
  name: string;
  label: string;
  /** A probability as percent, milliseconds as seconds, or a number that may be left empty; default: a number. */
  unit?: 'percent' | 'seconds' | 'or none';
  max?: number;
  words?: readonly string[];
}

const percent = (name: string, label: string): SettingField => ({ name, label, unit: 'percent', max: 100 });

export const FAULT_FIELDS = {
  Deliveries: [
    percent('drop', 'Dropped, %'),
    percent('duplicate', 'Sent twice, %'),
    percent('reorder', 'Overtaken, %'),
    percent('delay.probability', 'Delayed, %'),
    { name: 'delay.minMs', label: 'by at least, s', unit: 'seconds', max: 600 },
    { name: 'delay.maxMs', label: 'by at most, s', unit: 'seconds', max: 600 },
  ],
  API: [
    { name: 'staleMs', label: 'Stale by up to, s', unit: 'seconds', max: 60 },
    percent('errorRate', '5xx, %'),
    percent('hang', 'No answer, %'),
    percent('truncatedPages', 'Pages cut short, %'),
    { name: 'rateLimit', label: 'Requests a minute', unit: 'or none' },
    { name: 'payloads', label: 'Risk and vendor events', words: ['full', 'thin'] },
  ],
} as const satisfies Record<string, readonly SettingField[]>;

export const TIME_FIELDS = [{ name: 'scale', label: 'Retries come sooner by the factor' }];

/** The request of the control for the fields of a form. @throws Problem that names a wrong field. */
export function bodyOf(fields: readonly SettingField[], form: Readonly<Record<string, string>>): JsonObject {
  let body: JsonObject = {};
  for (const { name, label, unit, words } of fields) {
    const text = form[name];
    if (text === undefined) continue;
    const isNone = unit === 'or none' && text === '';
    const value = words !== undefined ? text : isNone ? null : numberIn(text || '0', label);
    body = withAt(body, name, typeof value === 'number' ? rounded(value * factorOf(unit)) : value);
  }
  return body;
}

const factorOf = (unit: SettingField['unit']) => (unit === 'percent' ? 0.01 : unit === 'seconds' ? 1000 : 1);

const rounded = (number: number) => Math.round(number * 1e6) / 1e6;

/** Takes neither `1e3` nor `0x10`. */
function numberIn(text: string, label: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  throw unfit(`${label}: a number such as 2 or 0.5.`);
}

/** The object in a JSON field; `{}` if it is empty. @throws Problem that names the field and gives the example. */
export function jsonIn(text: string | undefined, label: string, example: string): JsonObject {
  let value: unknown;
  try {
    value = parseJson(text || '{}');
  } catch {
    throw unfit(`${label}: not JSON, such as ${example}.`);
  }
  if (isObject(value)) return value;
  throw unfit(`${label}: a JSON object, such as ${example}.`);
}

/** `values`: the present values, in the form of the control's request. */
export function Field({ field, values }: { field: SettingField; values: object }) {
  const { name, label, unit, max, words } = field;
  const value = valueIn(values, name);
  if (words !== undefined) {
    return (
      <label>
        {label}
        <select name={name}>
          {words.map((word) => (
            <option value={word} selected={word === value}>
              {word}
            </option>
          ))}
        </select>
      </label>
    );
  }
  const text = value === null ? '' : String(rounded(Number(value) / factorOf(unit)));
  return (
    <label>
      {label}
      <input
        name={name}
        value={text}
        type="number"
        min="0"
        max={max}
        step="any"
        required={unit === undefined}
      />
    </label>
  );
}
