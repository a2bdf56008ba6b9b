import type { Child } from 'hono/jsx';
import type { z } from 'zod';
import type { Paging } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { numberCursor } from '../api/query.ts';
import type { Content, PageName } from './layout.tsx';
import { type Column, Empty, Pager, Table } from './pieces.tsx';
import { hereWith, linksOf, PAGE_ROWS, pageQuery } from './query.ts';

/** Rows of a list, as the store reads them. */
interface Rows<Row> {
  items: readonly Row[];
  next: string | null;
  /** How far a search came before the page was full; null: it was full, or the search came to the end. */
  reached?: Child;
}

/** A list of rows, the newest first. */
export interface List<Filters extends z.ZodObject, Row> {
  name: PageName;
  title?: string;
  note: string;
  /** What a row is called, for one and for many. */
  noun: readonly [one: string, many: string];
  filters: Filters;
  /** The form of `after`; default: a number. */
  cursor?: z.ZodString;
  read(filter: z.output<Filters>, paging: Paging): Promise<Rows<Row>>;
  /** An open page shows its rows anew. Not where people read rows while others come: they would move. */
  live?: true;
  /** What stands before the rows. */
  head?: (filter: z.output<Filters>, rows: readonly Row[]) => Child | Promise<Child>;
  columns: readonly Column<Row>[];
  /** Many columns: rows become cards at tablet width already. */
  dense?: boolean;
  /** Instead of rows, where there are none and no search is under way. */
  empty(isFiltered: boolean, filter: z.output<Filters>): string;
}

/** The page of a list: what it is, its filters, its rows or why there are none, and the way to older rows. */
export function listPage<Filters extends z.ZodObject, Row>(list: List<Filters, Row>) {
  const { name, title = name, note, noun, cursor = numberCursor, columns, live } = list;
  const query = list.filters.extend({ after: cursor.optional() });
  return async (c: OpsHandlerContext): Promise<Content> => {
    const { after, ...given } = pageQuery(c, query) as { after?: string };
    const filter = given as z.output<Filters>;
    const { items, reached = null, ...rows } = await list.read(filter, { limit: PAGE_ROWS, after });
    const isFiltered = Object.values(filter).some((value) => value !== undefined);
    const body = (
      <>
        {(await list.head?.(filter, items)) ?? null}
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
    const again = live && after === undefined ? hereWith(c, {}) : null;
    return { title, current: name, note, again, body };
  };
}
