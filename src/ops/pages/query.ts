import type { z } from 'zod';
import { isKind, type Kind } from '../../compliance/kinds.ts';
import type { NumberedTable } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { found, notFound, refusal } from '../api/answers.ts';
import { idInPath } from '../api/ids.ts';
import { queries, rowId } from '../api/query.ts';
import type { OpsStore } from '../context.ts';

export const PAGE_ROWS = 50;

/** The query of a page that has such a list and no filters. */
export const queryByNumber = queries.byNumber.pick({ after: true });

/**
 * The query of a page. Forms send empty fields too, so an empty one counts as absent. An unusable one is refused, because
 * without its filter the page would show everything.
 */
export function pageQuery<Query>(c: OpsHandlerContext, schema: z.ZodType<Query>): Query {
  const given = Object.entries(c.req.query()).filter(([, value]) => value !== '');
  const result = schema.safeParse(Object.fromEntries(given));
  if (result.success) return result.data;
  const issue = result.error.issues[0]!;
  const name = issue.code === 'unrecognized_keys' ? issue.keys[0]! : issue.path.join('.');
  const detail = `Look at “${name}” in the address, or begin again from the navigation.`;
  throw refusal(400, 'invalid_parameter', 'This address is not usable.', detail);
}

/** The row whose number is in the address. */
export async function rowAt<Name extends NumberedTable>(
  c: OpsHandlerContext,
  store: OpsStore,
  table: Name,
  orElse: string,
) {
  const { data: id } = rowId.safeParse(c.req.param('id'));
  return found(id === undefined ? null : await store.show(table, id), orElse);
}

/** The kind of records in the address. */
export function kindAt(c: OpsHandlerContext): Kind {
  const kind = c.req.param('kind') ?? '';
  if (!isKind(kind)) throw notFound('Kinds are policy, risk_assessment and vendor.');
  return kind;
}

/** Addresses of a list's other rows; null: there are none, or this is the first page. */
export interface Links {
  next: string | null;
  first: string | null;
}

/** The same page with its filters, from the row `after` on, and from the first row on. */
export function linksOf(c: OpsHandlerContext, after: string | null): Links {
  const { pathname } = new URL(c.req.url);
  // If a name is given twice, its first value counts, as in pageQuery.
  const query: Record<string, string | undefined> = c.req.query();
  return {
    next: after === null ? null : pathWith(pathname, { ...query, after }),
    first: query['after'] ? pathWith(pathname, { ...query, after: undefined }) : null,
  };
}

export function pathWith(path: string, query: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

export const eventHref = (id: string) => `/events/${idInPath(id)}`;

export const recordHref = (kind: Kind, id: string) => `/records/${kind}/${idInPath(id)}`;
