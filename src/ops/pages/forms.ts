import type { MiddlewareHandler } from 'hono';
import { deleteCookie, generateCookie, getCookie } from 'hono/cookie';
import { problem } from '../../platform/problem.ts';
import {
  acceptsPage,
  cameFrom,
  cookieOptions,
  formFields,
  type OpsEnv,
  type OpsHandlerContext,
} from '../access.ts';
import type { Done } from '../api/schemas.ts';
import type { OpsContext } from '../context.ts';
import { count } from '../words.ts';

const COOKIE = 'compliance-mirror-notice';
/** Seconds. Only the request after the form's needs it. */
const COOKIE_AGE = 60;

/**
 * The forms of the pages post to the API what a program would send, as JSON in the field `body`. What was done redirects to the page
 * of the form (303), so that a reload repeats nothing.
 */
export const pageForms = ({ publicUrl }: OpsContext): MiddlewareHandler<OpsEnv> =>
  async function pageForms(c, next) {
    if (c.req.method !== 'POST' || !acceptsPage(c)) return next();
    const body = (await formFields(c)).get('body') ?? '';
    const { url, method, headers } = c.req.raw;
    c.req.raw = new Request(url, { method, headers, body });
    c.req.bodyCache = {};
    await next();
    if (!c.res.ok) return;
    const done = (await c.res.json()) as Done[keyof Done];
    c.res = undefined;
    if ('says' in done && done.status === 'not_found') {
      c.res = problem(409, 'not_found_yet', 'The record was not found.', done.says);
      return;
    }
    const cookie = generateCookie(COOKIE, toldOf(done), { ...cookieOptions(publicUrl), maxAge: COOKIE_AGE });
    c.res = new Response(null, { status: 303, headers: { location: cameFrom(c), 'set-cookie': cookie } });
  };

/** What a form did: only our own words and numbers, because it is sent in a cookie. */
function toldOf(done: Done[keyof Done]): string {
  if ('paused' in done) return '';
  if ('ids' in done) return `${done.status}.${done.ids.length}`;
  if ('retried' in done) return `${done.status}.${done.retried}`;
  if ('records' in done) return `${done.status}.${done.records ?? 0}`;
  return `${done.status}.${'full_sync' in done && done.full_sync ? 1 : 0}`;
}

/** The next page says what was done, and deletes its cookie, so that a reload does not say it again. Null: nothing was. */
export function takeNotice(c: OpsHandlerContext, publicUrl: URL | null): string | null {
  const left = getCookie(c, COOKIE);
  if (left === undefined) return null;
  deleteCookie(c, COOKIE, cookieOptions(publicUrl));
  // A browser may send any text.
  const [, what = '', done] = /^([a-z_]+)\.(\d{1,6})$/.exec(left) ?? [];
  return Object.hasOwn(SENTENCES, what) ? SENTENCES[what]!(Number(done)) : null;
}

const SENTENCES: Readonly<Record<string, (done: number) => string>> = {
  processed: () => 'The delivery is processed.',
  accepted: () => 'The delivery is an event now.',
  dismissed: () => 'The delivery is dismissed.',
  queued: (records) =>
    records > 0
      ? 'The record will be fetched again.'
      : 'The full sync is requested. It begins when the one before it has ended; if the mirror is paused, after “Resume”.',
  resolved: (fullSyncs) =>
    `The problem is resolved.${fullSyncs > 0 ? ' A full sync is requested: the kind is in sync once it has ended.' : ''}`,
  found: (done) =>
    `The API has proven a place of the id. Events are read there from now on; ${count(done, 'event')} read again.`,
  delivered: () => 'NOTIFY_URL has taken the test.',
  approved: (done) =>
    `${count(done, 'deletion')} approved, for one hour. A full sync proves them once more first; if the mirror is paused, after “Resume”.`,
  kept: (done) =>
    `${count(done, 'record')} kept, until the service shows them again or announces their deletion anew.`,
};
