import { HTTPException } from 'hono/http-exception';
import { problem } from '../../platform/problem.ts';

/** To be thrown by a handler that answers with a problem. Takes the arguments of `problem`. */
export function refusal(...about: Parameters<typeof problem>): HTTPException {
  const [status, , title, detail = title] = about;
  return new HTTPException(status as 400, { res: problem(...about), message: detail });
}

export const notFound = (detail?: string): HTTPException => refusal(404, 'not_found', 'Not found.', detail);

export function found<Report>(report: Report | null, orElse?: string): Report {
  if (report === null) throw notFound(orElse);
  return report;
}

/** `after` of the following page; null: these rows are the last. */
export function nextKey<Row>(rows: readonly Row[], limit: number, key: (row: Row) => unknown): string | null {
  const last = rows.length < limit ? undefined : rows.at(-1);
  return last === undefined ? null : String(key(last));
}
