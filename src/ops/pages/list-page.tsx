import type { Child } from 'hono/jsx';
import type { z } from 'zod';
import type { Paging } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { nextKey } from '../api/answers.ts';
import { numberCursor } from '../api/query.ts';
import { count } from '../words.ts';
import { Frame, type PageName } from './layout.tsx';
import { Empty, Instant, Pager, Title } from './pieces.tsx';
import { type Links, linksOf, PAGE_ROWS, pageQuery, pathWith } from './query.ts';

/** Rows of a list, as the store reads them. */
interface Rows<Row> {
  items: readonly Row[];
  next: string | null;
  /** The newest row: the page's stream counts the rows above it. */
  newest: string;
  /** ISO 8601: a search ended there, before the page was full. Null: it did not. */
  looked_back_to?: string | null;
}

export type ListPaging = Paging & {
  /** Only the rows newer than this. */
  above?: string | undefined;
};

/** A list of rows, the newest first. The schemas of its page and of its stream follow from `filters`. */
export interface List<Filters extends z.ZodObject, Row> {
  name: PageName;
  title?: string;
  note: string;
  /** What a row is called, for one and for many. */
  noun: readonly [one: string, many: string];
  filters: Filters;
  /** The form of `after` and `above`; default: a number. */
  cursor?: z.ZodString;
  read(filter: z.output<Filters>, paging: ListPaging): Promise<Rows<Row>>;
  /** Whether new rows can match this filter. Default: always. */
  isWatched?: (filter: z.output<Filters>) => boolean;
  form?: (filter: z.output<Filters>, rows: readonly Row[]) => Child;
  /** `here`: the address of this page. */
  table(rows: readonly Row[], filter: z.output<Filters>, here: string): Child;
  empty(filter: z.output<Filters>, lookedBackTo: string | null): string;
}

/** The rows of a list that is ordered by a number. */
export function numbered<Row>(
  rows: readonly Row[],
  { limit, above }: ListPaging,
  number: (row: Row) => number,
) {
  const items = above === undefined ? rows : rows.filter((row) => number(row) > Number(above));
  return { items, next: nextKey(items, limit, number), newest: String(rows[0] ? number(rows[0]) : 0) };
}

/** The two handlers of a list: its page, and the stream that says how many rows are new since the page was made. */
export function listHandlers<Filters extends z.ZodObject, Row>(path: string, list: List<Filters, Row>) {
  type Filter = z.output<Filters>;
  const { name, title, note, noun, filters, cursor = numberCursor, isWatched = () => true } = list;
  return {
    async page(c: OpsHandlerContext): Promise<Child> {
      const query = pageQuery(c, filters.extend({ after: cursor.optional() }));
      const { after, ...rest } = query as { after?: string };
      const filter = rest as Filter;
      const rows = await list.read(filter, { limit: PAGE_ROWS, after });
      const lookedBackTo = rows.looked_back_to ?? null;
      const { pathname, search } = new URL(c.req.url);
      return (
        <ListPage
          name={name}
          title={title}
          note={note}
          {...linksOf(c, rows.next)}
          stream={
            after === undefined && isWatched(filter)
              ? pathWith(`/stream${path}`, { ...rest, above: rows.newest })
              : null
          }
          form={list.form?.(filter, rows.items)}
          empty={rows.items.length === 0 ? list.empty(filter, lookedBackTo) : null}
          foot={
            lookedBackTo === null ? null : (
              <p class="note" role="status">
                This page looked back to <Instant at={lookedBackTo} />. There are older {noun[1]}.
              </p>
            )
          }
          more={lookedBackTo === null ? `Older ${noun[1]}` : 'Look further back'}
        >
          {rows.items.length === 0 ? null : list.table(rows.items, filter, pathname + search)}
        </ListPage>
      );
    },

    stream(c: OpsHandlerContext): () => Promise<Child> {
      const query = pageQuery(c, filters.extend({ above: cursor }));
      const { above, ...rest } = query as { above: string };
      return async () => {
        const { items, next } = await list.read(rest as Filter, { limit: PAGE_ROWS, above });
        const found = count(items.length, `new ${noun[0]}`, `new ${noun[1]}`);
        const words = items.length === 0 ? null : `${found}${next === null ? '' : ' and more'}`;
        return <NewRows words={words} href={pathWith(path, rest)} />;
      };
    },
  };
}

interface ListPageOf extends Links {
  name: PageName;
  title?: string | undefined;
  note: string;
  /** Its stream, which counts new rows; null: this is not the newest page. */
  stream?: string | null;
  form?: Child;
  /** What to expect here; null: there are rows. */
  empty: string | null;
  children?: Child;
  foot: Child;
  more: string;
}

/** A page with a list: what it is, its filters, its rows or why there are none, and the way to older rows. */
export function ListPage({ name, title = name, stream = null, form, children, ...rest }: ListPageOf) {
  return (
    <Frame title={title} current={name} stream={stream}>
      <Title note={rest.note}>{title}</Title>
      {form}
      {stream === null ? null : <NewRows words={null} href="" />}
      {rest.empty === null ? children : <Empty>{rest.empty}</Empty>}
      {rest.foot}
      <Pager next={rest.next} first={rest.first} words={rest.more} />
    </Frame>
  );
}

/** New rows are only counted, because the rows that a person reads must not move. Null: there are none. */
function NewRows({ words, href }: { words: string | null; href: string }) {
  return (
    <div data-part="new-rows">
      {words === null ? null : (
        <p class="new-rows">
          <a href={href}>{words}: show them</a>
        </p>
      )}
    </div>
  );
}
