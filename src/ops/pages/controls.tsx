import type { PropsWithChildren } from 'hono/jsx';
import { MAX_ID_LENGTH } from '../../compliance/pointers.ts';
import { useVisit } from './pieces.tsx';

export const mayOperate = () => useVisit().identity?.role === 'operate';

interface Form {
  /** A route of the API. Default: the routes of its buttons. */
  action?: string;
  className?: string;
  /** What a program would send there. */
  body?: object;
}

/** Every change is a form, so that it works without scripts. Shown only to readers who may change something. */
export function ActionForm({ action, className, body, children }: PropsWithChildren<Form>) {
  if (!mayOperate()) return null;
  return (
    <form method="post" action={action} class={className}>
      {body === undefined ? null : <input type="hidden" name="body" value={JSON.stringify(body)} />}
      {children}
    </form>
  );
}

interface Press {
  id?: string | undefined;
  /** It is the button that the page recommends. */
  first?: boolean | undefined;
  /** The route that it posts to, where a form has several buttons. */
  formaction?: string;
  /** The body that it sends. */
  name?: 'body';
  value?: string;
}

export function Button({ first, children, ...press }: PropsWithChildren<Press>) {
  return (
    <button class={first ? 'button first' : 'button'} type="submit" {...press}>
      {children}
    </button>
  );
}

export function ActionButton({ id, first, children, ...form }: PropsWithChildren<Form & Press>) {
  return (
    <ActionForm {...form}>
      <Button id={id} first={first}>
        {children}
      </Button>
    </ActionForm>
  );
}

type Choices = readonly (readonly [value: string, words: string])[];

/** The choices of a filter. The empty value: the filter is not set. */
export const anyOf = <Value extends string>(
  values: readonly Value[],
  words: (value: Value) => string = (value) => value,
): Choices => [['', 'any'], ...values.map((value) => [value, words(value)] as const)];

/** A field of a filter. `how`: the choices of a select, or more attributes of an input. */
type FilterField = readonly [
  name: string,
  label: string,
  value: string | undefined,
  how?: Choices | InputAttributes,
];

interface InputAttributes {
  type?: 'search' | 'datetime-local';
  step?: number;
  pattern?: string;
  title?: string;
}

interface FiltersOf {
  action: string;
  label: 'Filter' | 'Search';
  fields: readonly FilterField[];
}

/** The filters of a list, as the address has them. */
export function Filters({ action, label, fields }: FiltersOf) {
  return (
    <form class="filters" method="get" action={action} aria-label={label}>
      {fields.map(([name, words, value = '', how = {}]) =>
        'map' in how ? (
          <label>
            <span>{words}</span>
            <select name={name}>
              {how.map(([option, text]) => (
                <option value={option} selected={option === value}>
                  {text}
                </option>
              ))}
            </select>
          </label>
        ) : (
          <label>
            <span>{words}</span>
            <input
              name={name}
              value={value}
              autocomplete="off"
              spellcheck={false}
              maxlength={MAX_ID_LENGTH}
              {...how}
            />
          </label>
        ),
      )}
      <Button>{label === 'Search' ? 'Search' : 'Show'}</Button>
    </form>
  );
}
