import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import { HTTPException } from 'hono/http-exception';
import { problem } from '../../platform/problem.ts';
import { csvLine } from '../csv.ts';

/** To be thrown by a handler that answers with a problem. Takes the arguments of `problem`. */
export function refusal(...about: Parameters<typeof problem>): HTTPException {
  const [status, , title, detail = title] = about;
  return new HTTPException(status as 400, { res: problem(...about), message: detail });
}

export const notFound = (detail?: string): HTTPException => refusal(404, 'not_found', 'Not found.', detail);

/** An instant before what is kept, or in the future. */
export const notKept = (detail: string): HTTPException => refusal(404, 'not_kept', 'Not known.', detail);

export function found<Report>(report: Report | null, orElse?: string): Report {
  if (report === null) throw notFound(orElse);
  return report;
}

export const asksForCsv = (c: Context): boolean =>
  accepts(c, {
    header: 'Accept',
    supports: ['application/json', 'text/csv'],
    default: 'application/json',
  }) === 'text/csv';

/**
 * A page of a list: JSON, or for whoever asks for it CSV as stored, where the header `Link` leads to the next page. No typed client asks
 * for CSV, so the type is the one of JSON.
 */
export function answerPage<Page extends { items: readonly object[]; next: string | null }>(
  c: Context,
  page: Page,
  columns: readonly string[],
) {
  if (!asksForCsv(c)) return c.json(page, 200);
  const cells = page.items.map((item) => columns.map((column) => (item as Record<string, unknown>)[column]));
  const text = [columns, ...cells].map((line) => csvLine(line)).join('');
  const url = new URL(c.req.url);
  if (page.next !== null) {
    url.searchParams.set('after', page.next);
    c.header('link', `<${url.pathname}${url.search}>; rel="next"`);
  }
  return c.body(text, 200, { 'content-type': 'text/csv; charset=utf-8' }) as never;
}
