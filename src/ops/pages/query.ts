import { z } from 'zod';
import type { Kind } from '../../compliance/kinds.ts';
import { problem } from '../../platform/problem.ts';
import type { OpsHandlerContext } from '../access.ts';
import { queries } from '../api/query.ts';

/** Rows of one page: as many as a person looks over. */
export const PAGE_ROWS = 50;
/** An id has at most 255 characters. */
export const TEXT_MAX_LENGTH = 255;

const text = z.string().min(1).max(TEXT_MAX_LENGTH).optional();
const yesOrNo = z
  .enum(['yes', 'no'])
  .transform((answer) => answer === 'yes')
  .optional();

/** As a browser's field has it, without a zone, or as the API: both are UTC. */
const instant = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z?$/)
  .transform((given) => ({
    day: given.slice(0, 10),
    wall: Date.parse(given.endsWith('Z') ? given : `${given}Z`),
  }))
  // Date.parse takes 30 February for 2 March.
  .refine(({ day, wall }) => !Number.isNaN(wall) && new Date(wall).toISOString().startsWith(day))
  .transform(({ wall }) => new Date(wall).toISOString())
  .optional();
/** As the API takes them, but for instants. */
const deliveries = queries.deliveries
  .pick({ outcome: true, type: true, search: true })
  .extend({ since: instant, until: instant });
const events = queries.events.pick({ state: true, type: true, kind: true, record_id: true });
const { after: numberCursor } = queries.byNumber.shape;
const { after: deliveriesCursor } = queries.deliveries.shape;
/** The newest row as the page was made; 0: it had none. */
const above = z
  .string()
  .regex(/^\d{1,15}$/)
  .transform(Number);

export const pageQueries = {
  events: events.extend({
    after: numberCursor,
    /** Leads to the one event. */
    id: text,
  }),
  newEvents: events.extend({ above }),
  newRows: z.strictObject({ above }),
  deliveries: deliveries.extend({ after: deliveriesCursor }),
  newDeliveries: deliveries.extend({ above: deliveriesCursor.unwrap() }),
  records: queries.records.omit({ limit: true }).extend({
    unverified: yesOrNo,
    deleted: yesOrNo,
    /** Of a record whose id no path can carry. */
    id: text,
  }),
  gaps: z.strictObject({ after: numberCursor, show: z.enum(['open', 'resolved']).default('open') }),
  byNumber: z.strictObject({ after: numberCursor }),
  /** Of a sync run: a kind stands before the id. */
  deletions: z.strictObject({
    after: z
      .string()
      .max(TEXT_MAX_LENGTH + 100)
      .optional(),
  }),
};

/**
 * The query of a page. A form sends its empty fields too, so an empty one counts as not given; what is given and
 * not usable is a fault, because a filter that is ignored would show everything.
 */
export function pageQuery<Schema extends z.ZodType>(
  c: OpsHandlerContext,
  schema: Schema,
): { ok: true; value: z.output<Schema> } | { ok: false; response: Response } {
  const given = Object.entries(c.req.query()).filter(([, value]) => value !== '');
  const result = schema.safeParse(Object.fromEntries(given));
  if (result.success) return { ok: true, value: result.data };
  const issue = result.error.issues[0]!;
  const name = issue.code === 'unrecognized_keys' ? issue.keys[0]! : issue.path.join('.');
  const detail = `Look at “${name}” in the address, or begin again from the navigation.`;
  return { ok: false, response: problem(400, 'invalid_parameter', 'This address is not usable.', detail) };
}

/** The same page from another row on: filters stay. Null: there is no such page. */
export function nextPath(c: OpsHandlerContext, after: string | number | null): string | null {
  if (after === null) return null;
  const { pathname, searchParams } = new URL(c.req.url);
  searchParams.set('after', String(after));
  return `${pathname}?${searchParams}`;
}

/** The number of a row, as an address or a form names it; null: it is none. */
export function rowNumber(text: string | null | undefined): number | null {
  return text != null && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null;
}

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
