import { HTTPException } from 'hono/http-exception';
import { problem } from '../../platform/problem.ts';

/** Thrown by a handler: the problem is what it answers. Takes what `problem` does. */
export function refusal(...about: Parameters<typeof problem>): HTTPException {
  return new HTTPException(about[0] as 400, { res: problem(...about) });
}

export const notFound = (): HTTPException => refusal(404, 'not_found', 'There is no such thing here.');

export function found<Report>(report: Report | null): Report {
  if (report === null) throw notFound();
  return report;
}

/** `next` is what `after` takes for the following page, and null on the last. */
export function pageOf<Row>(items: Row[], limit: number, key: (row: Row) => unknown) {
  const last = items.length < limit ? undefined : items.at(-1);
  return { items, next: last === undefined ? null : String(key(last)) };
}
