import type { Kind } from '../../compliance/kinds.ts';

/** Ids come from outside. `.` and `..` are taken off a path even when they are encoded, so they stand in the query. */
function withId(path: string, id: string): string {
  return /^\.{1,2}$/.test(id)
    ? `${path}?${new URLSearchParams({ id })}`
    : `${path}/${encodeURIComponent(id)}`;
}

export function eventHref(id: string): string {
  return withId('/events', id);
}

export function recordHref(kind: Kind, id: string): string {
  return withId(`/records/${kind}`, id);
}

/** What wrote a change, as a page of ours; null where there is none. */
export function causeHref(cause: string): string | null {
  if (cause.startsWith('event:')) return eventHref(cause.slice('event:'.length));
  const fullSync = /^sync:(\d{1,15})$/.exec(cause)?.[1];
  return fullSync === undefined ? null : `/sync-runs/${fullSync}`;
}
