import type { z } from 'zod';
import type { Kind } from '../../compliance/kinds.ts';
import type { OpsHandlerContext } from '../access.ts';
import { refusal } from '../api/answers.ts';
import { idInPath } from '../api/ids.ts';

export const PAGE_ROWS = 50;

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

/** Addresses of a list's other rows; null: there are none, or this is the first page. */
export interface Links {
  next: string | null;
  first: string | null;
}

/** The same page with its filters, from the row `after` on, and from the first row on. */
export function linksOf(c: OpsHandlerContext, after: string | null): Links {
  return {
    next: after === null ? null : hereWith(c, { after }),
    first: c.req.query('after') ? hereWith(c, { after: undefined }) : null,
  };
}

type Query = Readonly<Record<string, string | undefined>>;

/** This page's address, with some of its query changed. If a name is given twice, its first value counts, as in pageQuery. */
export const hereWith = (c: OpsHandlerContext, changed: Query): string =>
  pathWith(c.req.path, { ...c.req.query(), ...changed });

export function pathWith(path: string, query: Query): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1]);
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** By the id that lists show: of its event, or `rejection:N`. */
export const deliveryHref = (id: string) => `/deliveries/${idInPath(id)}`;

export const recordHref = (kind: Kind, id: string) => `/records/${kind}/${idInPath(id)}`;

/** The page that lists the pending deletions of a kind, and has the buttons. */
export const pendingHref = (kind: Kind): string => `/records/${kind}?deletion_pending=true`;
