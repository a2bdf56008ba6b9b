import { createContext, type PropsWithChildren, useContext } from 'hono/jsx';
import type { Kind } from '../../compliance/kinds.ts';
import { CSRF_FIELD, type Identity } from '../access.ts';
import type { Waiting } from '../attention.ts';
import { age, kindNoun } from '../words.ts';
import type { Notice } from './form-outcome.ts';
import { causeHref, eventHref, recordHref } from './query.ts';

/** What every piece of a page may need. */
export interface Visit {
  /** Null: nobody has signed in. */
  identity: Identity | null;
  /** Wall-clock milliseconds. */
  now: number;
  /** What a form just did. */
  notice: Notice | null;
  /** For the counts in the navigation; null: not known. */
  waiting: Waiting | null;
}

export const VisitContext = createContext<Visit>({ identity: null, now: 0, notice: null, waiting: null });

export const useVisit = () => useContext(VisitContext);

export const mayOperate = () => useVisit().identity?.role === 'operate';

/** In UTC, as in the tables, the API and the log. Without the day if that is today; in full on hover. `precise`: with milliseconds. */
export function Instant({ at, precise = false }: { at: string | number; precise?: boolean }) {
  const { now } = useVisit();
  const iso = new Date(at).toISOString();
  const sameDay = iso.slice(0, 10) === new Date(now).toISOString().slice(0, 10);
  const time = iso.slice(11, precise ? 23 : 19);
  return (
    <time datetime={iso} title={inFull(iso)}>
      {sameDay ? time : `${iso.slice(0, 10)} ${time}`}
    </time>
  );
}

/** "12 minutes ago", with the instant on hover. */
export function Ago({ at }: { at: string | number }) {
  const { now } = useVisit();
  const iso = new Date(at).toISOString();
  return (
    <time datetime={iso} title={inFull(iso)}>
      {age(now - Date.parse(iso))} ago
    </time>
  );
}

const inFull = (iso: string) => `${iso.slice(0, 10)} ${iso.slice(11, 23)} UTC`;

/** A part that the script replaces as a whole. `part` is unique on its page. */
export function Tile({
  part,
  title,
  width = '',
  aside = null,
  children,
}: PropsWithChildren<{
  part: string;
  title: unknown;
  width?: 'third' | '';
  /** Beside the title. */
  aside?: unknown;
}>) {
  return (
    <section class={`tile ${width}`} data-part={part} aria-labelledby={`${part}-title`}>
      <div class="head">
        <h2 id={`${part}-title`}>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

/** Every change is a form, so that it works without scripts. Shown only to readers who may change something. */
export function ActionForm(props: PropsWithChildren<{ action: string; className?: string }>) {
  return mayOperate() ? <PostForm {...props} /> : null;
}

/** Carries the CSRF token of the session. */
export function PostForm({
  action,
  className,
  children,
}: PropsWithChildren<{ action: string; className?: string }>) {
  return (
    <form method="post" action={action} {...(className === undefined ? {} : { class: className })}>
      <input type="hidden" name={CSRF_FIELD} value={useVisit().identity?.csrf ?? ''} />
      {children}
    </form>
  );
}

/** The head of every page except the status page, and the outcome of a form. */
export function Title({ children, note }: PropsWithChildren<{ note?: unknown }>) {
  const { notice } = useVisit();
  return (
    <>
      <header class="title">
        <h1>{children}</h1>
        {note === undefined || note === null ? null : <p class="lead">{note}</p>}
      </header>
      {notice === null ? null : (
        <p class={notice.isBad ? 'told action_required' : 'told'} role="status">
          {notice.text}
        </p>
      )}
    </>
  );
}

/** In place of missing rows; says what to expect here. */
export function Empty({ children }: PropsWithChildren) {
  return <p class="empty">{children}</p>;
}

/** Links to the next rows and back to the first. */
export function Pager({ next, first, words }: { next: string | null; first: string | null; words: string }) {
  if (next === null && first === null) return null;
  return (
    <nav class="pager" aria-label="More rows">
      {first === null ? null : <a href={first}>Back to the first</a>}
      {next === null ? null : (
        <a href={next} rel="next">
          {words}
        </a>
      )}
    </nav>
  );
}

/** Of a cell; `n` for figures. */
type CellClass = 'n' | 'wide' | 'wide quiet' | 'full' | 'half' | 'whole';

/** A column: its head, what its cell holds of a row, and the cell's class. Or the whole cell. */
type Column<Row> =
  | readonly [head: unknown, cell: (row: Row) => unknown, className?: CellClass]
  | { head: string; td: (row: Row) => unknown };

/** At phone width each row becomes a card, with its columns as labelled lines. The first column names the row. */
export function Table<Row>({
  label,
  rows,
  columns,
  dense = false,
}: {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  /** Many columns: rows become cards at tablet width already. */
  dense?: boolean;
}) {
  return (
    <section class={dense ? 'scroll dense' : 'scroll'} aria-label={label} tabindex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" {...('td' in column || column[2] !== 'n' ? {} : { class: 'n' })}>
                {'td' in column ? column.head : column[0]}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>{columns.map((column, place) => cellOf(column, row, place === 0))}</tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function cellOf<Row>(column: Column<Row>, row: Row, isFirst: boolean) {
  if ('td' in column) return column.td(row);
  const [head, cell, className] = column;
  if (isFirst) return <th scope="row">{cell(row)}</th>;
  return (
    <td {...(className === undefined ? {} : { class: className })} data-label={String(head)}>
      {cell(row)}
    </td>
  );
}

/** At phone width a line of its own, or hidden if there is no error. */
export function ErrorCell({ error, label }: { error: string | null; label: string }) {
  if (error === null) return <td class="gone"></td>;
  return (
    <td class="full error" data-label={label}>
      {error}
    </td>
  );
}

/** `id`: of the name, for an element that the name labels. */
type Fact = readonly [name: unknown, value: unknown, how?: { isWarning?: boolean; id?: string }];

type FactsClass = 'facts' | 'pairs';

/** Facts about one thing, a line each. `pairs`: values at the right. Null: the line is left out. */
export function Facts({
  facts,
  className = 'facts',
}: {
  facts: readonly (Fact | null)[];
  className?: FactsClass;
}) {
  return (
    <dl class={className}>
      {facts
        .filter((fact) => fact !== null)
        .map(([name, value, { isWarning = false, id } = {}]) => (
          <>
            <dt {...(id === undefined ? {} : { id })}>{name}</dt>
            <dd {...(isWarning ? { class: 'warn' } : {})}>{value}</dd>
          </>
        ))}
    </dl>
  );
}

export function RecordLink({ kind, id }: { kind: Kind; id: string }) {
  return (
    <a href={recordHref(kind, id)}>
      {kindNoun(kind, 1)} <code>{id}</code>
    </a>
  );
}

/** A state, in its colour of the style sheet. */
export function State({ state }: { state: string }) {
  return <span class={`state ${state}`}>{state}</span>;
}

/** The record of a delivery or event; `otherwise`: words where it is not known. */
export function About({
  kind,
  record_id,
  otherwise,
}: {
  kind: Kind | null;
  record_id: string | null;
  otherwise: string;
}) {
  if (kind === null || record_id === null) return <span class="quiet">{otherwise}</span>;
  return <RecordLink kind={kind} id={record_id} />;
}

/** The sender's address. An IPv4 address stays in one line; a longer one may break anywhere. */
export function From({ address }: { address: string | null }) {
  if (address === null) return <span class="quiet">not known</span>;
  return <code {...(address.includes(':') ? {} : { class: 'whole' })}>{address}</code>;
}

/** The `t` of a signature as sent: seconds since 1970, or any text. */
export function SignedAt({ t }: { t: string }) {
  return /^\d{9,11}$/.test(t) ? (
    <>
      <Instant at={Number(t) * 1000} /> <code class="quiet">t={t}</code>
    </>
  ) : (
    <code>t={t}</code>
  );
}

export function EventLink({ id }: { id: string }) {
  return (
    <a href={eventHref(id)}>
      <code>{id}</code>
    </a>
  );
}

/** What wrote a row: the event or the full sync, as a link. */
export function Cause({ cause }: { cause: string }) {
  const href = causeHref(cause);
  const [what = '', ...rest] = cause.split(':');
  const name = rest.join(':');
  if (href === null) return <span>{cause === 'refetch' ? 'a refetch through the API' : cause}</span>;
  return (
    <a href={href}>
      {what} <code>{name}</code>
    </a>
  );
}

/** A field of a filter. The empty value stands for "any". */
export function Choice({
  name,
  label,
  value,
  options,
}: {
  name: string;
  label: string;
  value: string | undefined;
  options: readonly (readonly [value: string, words: string])[];
}) {
  return (
    <label>
      <span>{label}</span>
      <select name={name}>
        {options.map(([option, words]) => (
          <option value={option} {...(option === (value ?? '') ? { selected: true } : {})}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Field({
  name,
  label,
  value,
  list,
  type,
  shortcut,
}: {
  name: string;
  label: string;
  value: string | undefined;
  list?: string;
  type?: 'datetime-local';
  /** Makes it a search box, which this key focuses. */
  shortcut?: string;
}) {
  return (
    <label>
      <span>{label}</span>
      <input
        name={name}
        value={value ?? ''}
        autocomplete="off"
        spellcheck={false}
        maxlength={255}
        {...(list === undefined ? {} : { list })}
        {...(type === undefined ? {} : { type, step: 1 })}
        {...(shortcut === undefined ? {} : { type: 'search', 'aria-keyshortcuts': shortcut })}
      />
    </label>
  );
}
