import { UnaddressableError } from './errors.ts';
import type { Kind } from './kinds.ts';
import { isAddressable, isUsableId } from './pointers.ts';

/** The path that a kind's collection has below the base URL. Source: section 4 of the specification. */
export const COLLECTIONS = {
  policy: '/policies',
  risk_assessment: '/risk-assessments',
  vendor: '/vendors',
} as const satisfies Record<Kind, string>;

/** The kinds whose records can be listed, and those of which one can be fetched. */
export type ListedKind = 'policy' | 'vendor';
export type FetchedKind = 'risk_assessment' | 'vendor';

/** @throws UnaddressableError for an id that no path can carry. */
export function recordPath(kind: FetchedKind, id: string): string {
  if (!isUsableId(id) || !isAddressable(id)) {
    throw new UnaddressableError(`the ${kind} id ${JSON.stringify(id)} cannot be put into a request's path`);
  }
  return `${COLLECTIONS[kind]}/${encodeURIComponent(id)}`;
}

/**
 * The absolute URL of `path`, which starts with a slash, is percent-encoded already and may carry a query.
 * @throws UnaddressableError when URL parsing would turn the path into another one.
 */
export function urlFor(baseUrl: URL, path: string): URL {
  const mark = path.indexOf('?');
  const pathname = mark === -1 ? path : path.slice(0, mark);
  const url = new URL(baseUrl);
  const intended = baseUrl.pathname.replace(/^(.*[^/])?\/*$/s, '$1') + pathname;
  url.pathname = intended;
  url.search = mark === -1 ? '' : path.slice(mark);
  url.hash = '';
  if (!pathname.startsWith('/') || url.pathname !== intended) {
    throw new UnaddressableError(`the path ${JSON.stringify(pathname)} would be sent as ${url.pathname}`);
  }
  return url;
}

/** The path with its id left out, from a short fixed list, so that metrics have few labels. */
export function routeOf(path: string): string {
  const [, collection, id, ...rest] = path.split('?')[0]!.split('/');
  const route = `/${collection ?? ''}`;
  if (id === undefined) {
    return route === '/webhooks' || (Object.values(COLLECTIONS) as string[]).includes(route)
      ? route
      : 'other';
  }
  const isRecord = rest.length === 0 && id !== '';
  return isRecord && (route === COLLECTIONS.vendor || route === COLLECTIONS.risk_assessment)
    ? `${route}/{id}`
    : 'other';
}
