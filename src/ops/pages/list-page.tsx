import type { Child } from 'hono/jsx';
import type { z } from 'zod';
import type { Paging } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { nextKey } from '../api/answers.ts';
import { numberCursor } from '../api/query.ts';
import { count } from '../words.ts';
import type { Content, PageName } from './layout.tsx';
import { type Column, Empty, Pager, Table } from './pieces.tsx';
import { hereWith, linksOf, PAGE_ROWS, pageQuery } from './query.ts';

/** Rows of a list, as the store reads them. */
interface Rows<Row> {
  items: readonly Row[];
  next: string | null;
  /** The newest row: an open page counts the rows above it. */
  newest?: string;
  /** How far a search came before the page was full; null: it was full, or the search came to the end. */
  reached?: Child;
}

/** `above`: only the rows newer than this. */
export type ListPaging = Paging & { above?: string | undefined };

/** A list of rows, the newest first. */
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
  /** What an open page shows anew: how many rows are new, or the rows themselves. Default: nothing. */
  live?: 'count' | 'rows';
  /** What stands before the rows. */
  head?: (filter: z.output<Filters>, rows: readonly Row[]) => Child | Promise<Child>;
  columns: readonly Column<Row>[];
  /** Many columns: rows become cards at tablet width already. */
  dense?: boolean;
  /** Instead of rows, where there are none and no search is under way. */
  empty(isFiltered: boolean, filter: z.output<Filters>): string;
}

/** The rows of a list that is ordered by their numbers. */
export const numbered = <Row extends { id: number }>(items: readonly Row[]): Rows<Row> => ({
  items,
  next: nextKey(items, PAGE_ROWS, ({ id }) => id),
});

/** The page of a list: what it is, its filters, its rows or why there are none, and the way to older rows. */
export function listPage<Filters extends z.ZodObject, Row>(list: List<Filters, Row>) {
  const { name, title = name, note, noun, cursor = numberCursor, columns, live } = list;
  const query = list.filters.extend({ after: cursor.optional(), above: cursor.optional() });
  return async (c: OpsHandlerContext): Promise<Content> => {
    const { after, above, ...given } = pageQuery(c, query) as { after?: string; above?: string };
    const filter = given as z.output<Filters>;
    const { items, reached = null, ...rows } = await list.read(filter, { limit: PAGE_ROWS, after, above });
    const page = { title, current: name, note };
    if (above !== undefined) {
      const found = count(items.length, `new ${noun[0]}`, `new ${noun[1]}`);
      const words = items.length === 0 ? null : `${found}${rows.next === null ? '' : ' and more'}`;
      return { ...page, body: <NewRows words={words} href={hereWith(c, { above: undefined })} /> };
    }
    const isFiltered = Object.values(filter).some((value) => value !== undefined);
    const body = (
      <>
        {(await list.head?.(filter, items)) ?? null}
        {live === 'count' ? <NewRows words={null} href="" /> : null}
        <div data-part="rows">
          {items.length === 0 ? (
            <Empty>
              {reached === null ? list.empty(isFiltered, filter) : `No matching ${noun[0]} among these.`}
            </Empty>
          ) : (
            <Table label={title} dense={list.dense} rows={items} columns={columns} />
          )}
        </div>
        {reached === null ? null : (
          <p class="note" role="status">
            This page looked back to {reached}. There are more {noun[1]}.
          </p>
        )}
        <Pager {...linksOf(c, rows.next)} words={reached === null ? `More ${noun[1]}` : 'Look further'} />
      </>
    );
    const again = live === undefined || after !== undefined ? null : hereWith(c, { above: rows.newest });
    return { ...page, again, body };
  };
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
