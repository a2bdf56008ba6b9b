import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { EventReport } from '../../store/reports.ts';
import { cookieOptions, type OpsHandlerContext } from '../access.ts';
import { count } from '../words.ts';

/** What a form did. Our own words and numbers only, because it passes through a cookie. */
export interface Outcome {
  what: 'retried' | 'discarded' | 'queued' | 'compared' | 'refetched' | 'released' | 'approved' | 'resolved';
  done: number;
  /** How many were not possible any more. */
  not: number;
}

export interface Notice {
  text: string;
  isBad: boolean;
}

const COOKIE = 'compliance-mirror-notice';
/** Seconds. Only the request after the form's needs it. */
const COOKIE_AGE = 60;

/** The page after a form shows the outcome once: it comes in a cookie, which that page deletes, so that a reload is silent. */
export function leaveOutcome(c: OpsHandlerContext, publicUrl: URL | null, outcome: Outcome): void {
  const { what, done, not } = outcome;
  setCookie(c, COOKIE, `${what}.${done}.${not}`, { ...cookieOptions(publicUrl), maxAge: COOKIE_AGE });
}

export function takeOutcome(c: OpsHandlerContext, publicUrl: URL | null): Outcome | null {
  const left = getCookie(c, COOKIE);
  if (left === undefined) return null;
  deleteCookie(c, COOKIE, cookieOptions(publicUrl));
  // A browser may send any text.
  const [, what = '', done, not] = /^([a-z]+)\.(\d{1,6})\.(\d{1,6})$/.exec(left) ?? [];
  if (!Object.hasOwn(SENTENCES, what)) return null;
  return { what: what as Outcome['what'], done: Number(done), not: Number(not) };
}

export function noticeOf({ what, done, not }: Outcome): Notice {
  const why = WHY_NOT[what] ?? 'the state had changed';
  const rest = not === 0 ? '' : ` ${count(not, 'other')} could not be: ${why}.`;
  return { text: `${SENTENCES[what](done)}${rest}`, isBad: not > 0 };
}

/** The same on the page of a single event, with its new state. */
export function noticeOfEvent({ what, done }: Outcome, { state, error, body }: EventReport): Notice {
  if (what === 'discarded' && done > 0) return { text: 'Discarded.', isBad: false };
  if (done > 0) return { text: state === 'ignored' ? IGNORED : 'Processed.', isBad: false };
  if (state !== 'failed') return { text: `Not possible any more: the event is ${state}.`, isBad: true };
  const why = body === null ? 'its body is not kept any more' : error;
  return { text: `Failed again: ${why}.`, isBad: true };
}

const IGNORED = 'Read. Its type is not known, so it has no effect but that the API is asked for its record.';

const WHY_NOT: Partial<Record<Outcome['what'], string>> = { retried: 'the error is beside each' };

const SENTENCES: Record<Outcome['what'], (done: number) => string> = {
  retried: (done) => `${count(done, 'event')} processed.`,
  discarded: (done) => `${count(done, 'event')} discarded.`,
  queued: () => 'The full sync was asked for; it begins when the one before it has ended.',
  compared: () => 'The dry run has begun. What it finds will be shown below.',
  refetched: () => 'The record will be fetched again.',
  released: () => 'Released: what it was about is asked of the API.',
  resolved: () => 'The gap is resolved.',
  approved: (done) =>
    `${count(done, 'deletion')} approved, for one hour. A full sync proves them once more first.`,
};
