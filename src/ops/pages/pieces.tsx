import { type Child, createContext, type PropsWithChildren, useContext } from 'hono/jsx';
import type { Kind } from '../../compliance/kinds.ts';
import type { ChangeReport } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import { NAME_SHOWN_CHARACTERS, shortened, shownText } from '../body-text.ts';
import { age, figure, kindNoun } from '../words.ts';
import { deliveryHref, recordHref } from './query.ts';

/** What every piece of a page may need. */
export interface Visit {
  /** Null: nobody has signed in. */
  identity: Identity | null;
  /** Wall-clock milliseconds. */
  now: number;
  /** What a form just did; null: none was sent. */
  notice: string | null;
  /** How many open problems need a person. */
  waiting: number;
}

export const VisitContext = createContext<Visit>({ identity: null, now: 0, notice: null, waiting: 0 });

export const useVisit = () => useContext(VisitContext);

/** `otherwise`: shown if there is no instant. */
type At = { at: string | number | null; otherwise?: Child };

/**
 * In UTC, as in the tables, the API and the log. Without the day if that is today; in full on hover. `precise`: with
 * milliseconds. `ago`: "12 minutes ago" instead.
 */
export function Instant({ at, otherwise, precise, ago }: At & { precise?: boolean; ago?: boolean }) {
  const { now } = useVisit();
  if (at === null) return <>{otherwise}</>;
  const iso = new Date(at).toISOString();
  const day = iso.slice(0, 10);
  const time = iso.slice(11, precise ? 23 : 19);
  const isToday = new Date(now).toISOString().startsWith(day);
  return (
    <time datetime={iso} title={`${day} ${iso.slice(11, 23)} UTC`}>
      {ago ? `${age(now - Date.parse(iso))} ago` : isToday ? time : `${day} ${time}`}
    </time>
  );
}

export const Ago = (when: At) => <Instant {...when} ago />;

/** What is not known, or not there. */
export const quiet = (words: Child) => <span class="quiet">{words}</span>;

export const NO_NAME = quiet('no name');

/** A record's name; `otherwise` where none can be seen. */
export const nameOr = <Otherwise,>({ name }: { name: string | null }, otherwise: Otherwise) =>
  name?.trim() ? shortened(name, NAME_SHOWN_CHARACTERS) : otherwise;

/** Longer than every event type of the specification. */
const WHOLE_CHARACTERS = 16;

/** A status or a type: in one line if it is short. A longer one may break anywhere. */
export function Word({ text }: { text: string | null }) {
  const shown = shortened(text ?? '', NAME_SHOWN_CHARACTERS);
  return <span class={shown.length <= WHOLE_CHARACTERS ? 'whole' : undefined}>{shown}</span>;
}

/** A text from outside, up to a limit. JSON is indented. */
export function Text({ text, label }: { text: string; label: string }) {
  const shown = shownText(text);
  return (
    <>
      <section class="pre" aria-label={shown.isIndented ? `${label}, indented` : label} tabindex={0}>
        <pre>{shown.text}</pre>
      </section>
      {shown.left === 0 ? null : (
        <p class="note">{figure(shown.left)} more characters are left out here; the API has them.</p>
      )}
    </>
  );
}

type TileOf = PropsWithChildren<{ part: string; title: unknown; width?: 'third'; aside?: unknown }>;

/** A part that the script replaces as a whole. `part`: unique on its page. `aside`: stands beside the title. */
export function Tile({ part, title, width, aside, children }: TileOf) {
  return (
    <section class={`tile ${width ?? ''}`} data-part={part} aria-labelledby={`${part}-title`}>
      <div class="head">
        <h2 id={`${part}-title`}>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

type Tab = { href: string; words: unknown; isShown: boolean };

/** Links to several views of one thing, of which one is shown. */
export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  return (
    <nav class="tabs" aria-label={label}>
      <ul>
        {tabs.map(({ href, words, isShown }) => (
          <li>
            <a href={href} aria-current={isShown ? 'true' : undefined}>
              {words}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** Stands where rows are missing, and says what to expect here. */
export function Empty({ children }: PropsWithChildren) {
  return <p class="empty">{children}</p>;
}

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

/** The class of a cell. `n`: figures. `full error`: left out at phone width if it is null. */
type CellClass = 'n' | 'wide' | 'wide quiet' | 'full' | 'full error' | 'half' | 'whole';

/** A column: its head, the content of its cell for a row, and the cell's class. */
export type Column<Row> = readonly [head: unknown, cell: (row: Row) => unknown, className?: CellClass];

interface TableOf<Row> {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  /** Many columns: rows become cards at tablet width already. */
  dense?: boolean | undefined;
}

/** At phone width each row becomes a card, with its columns as labelled lines. The first column names the row. */
export function Table<Row>({ label, rows, columns, dense }: TableOf<Row>) {
  return (
    <section class={dense ? 'scroll dense' : 'scroll'} aria-label={label} tabindex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(([head, _, className]) => (
              <th scope="col" class={className === 'n' ? 'n' : undefined}>
                {head}
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

function cellOf<Row>([head, cell, className]: Column<Row>, row: Row, isFirst: boolean) {
  const content = cell(row);
  if (isFirst) return <th scope="row">{content}</th>;
  if (className === 'full error' && content === null) return <td class="gone"></td>;
  return (
    <td class={className} data-label={String(head)}>
      {content}
    </td>
  );
}

export type Fact = readonly [name: unknown, value: unknown, how?: { isWarning?: boolean }];

/** Null or false: the line is left out. */
export type Facts = readonly (Fact | null | false)[];
type FactsClass = 'facts' | 'pairs';

/** Facts about one thing, a line each. `pairs`: values at the right. */
export function Facts({ facts, className = 'facts' }: { facts: Facts; className?: FactsClass }) {
  return (
    <dl class={className}>
      {facts
        .filter((fact) => fact !== null && fact !== false)
        .map(([name, value, { isWarning = false } = {}]) => (
          <>
            <dt>{name}</dt>
            <dd class={isWarning ? 'warn' : undefined}>{value}</dd>
          </>
        ))}
    </dl>
  );
}

/** A UUID after a prefix. The first column of a table breaks only longer ids, which would take all its width. */
const ID_WHOLE_CHARACTERS = 40;

const Id = ({ id }: { id: string }) => (
  <code class={id.length > ID_WHOLE_CHARACTERS ? 'long' : undefined}>{id}</code>
);

export function RecordId({ kind, id }: { kind: Kind; id: string }) {
  return (
    <a href={recordHref(kind, id)}>
      <Id id={id} />
    </a>
  );
}

export function RecordLink({ kind, id }: { kind: Kind; id: string }) {
  return (
    <a href={recordHref(kind, id)}>
      {kindNoun(kind, 1)} <Id id={id} />
    </a>
  );
}

export function State({ state, words = state }: { state: string; words?: Child }) {
  return <span class={`state ${state}`}>{words}</span>;
}

type AboutOf = { kind: Kind | null; record_id: string | null; otherwise: string };

/** The record of a delivery or event; `otherwise`: words where it is not known. */
export function About({ kind, record_id, otherwise }: AboutOf) {
  if (kind === null || record_id === null) return quiet(otherwise);
  return <RecordLink kind={kind} id={record_id} />;
}

/** The sender's address. An IPv4 address stays in one line; a longer one may break anywhere. */
export function From({ address }: { address: string | null }) {
  if (address === null) return quiet('not known');
  return <code class={address.includes(':') ? undefined : 'whole'}>{address}</code>;
}

export function EventLink({ id }: { id: string }) {
  return (
    <a href={deliveryHref(id)}>
      <Id id={id} />
    </a>
  );
}

/** What wrote a row: the event or the full sync, as a link. */
export function Cause({ cause, cause_id: id }: Pick<ChangeReport, 'cause' | 'cause_id'>) {
  const words = cause === 'refetch' ? 'a refetch through the API' : cause;
  if (id === null) return <span>{words}</span>;
  return (
    <a href={cause === 'sync' ? `/syncs/${id}` : deliveryHref(id)}>
      {cause === 'refetch' ? `${words}, due by event` : words} <code>{id}</code>
    </a>
  );
}
