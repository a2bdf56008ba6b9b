import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { isKind, KINDS } from '../../compliance/kinds.ts';
import { isUsableId } from '../../compliance/pointers.ts';
import { cookieOptions, formFields, type OpsHandlerContext, pathHere } from '../access.ts';
import { refusal } from '../api/answers.ts';
import type { Operations } from '../api/changes.ts';
import { rowId } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import { count } from '../words.ts';
import { pendingHref, recordHref } from './query.ts';

/** The page that follows a form, and the outcome that it shows; without `what`: none. */
type Done = { to: string } & Partial<Outcome>;
type Form = (actor: string, fields: URLSearchParams) => Promise<Done>;

/** The pages' forms by their addresses. Success redirects to a page (303), so that a reload repeats nothing. */
export function createForms(
  context: OpsContext,
  operations: Operations,
): [path: string, handler: (c: OpsHandlerContext) => Promise<Response>][] {
  const forms: Readonly<Record<string, Form>> = {
    /** Of the kinds named; with none, of all. */
    async '/actions/sync'(actor, fields) {
      const named = KINDS.filter((kind) => fields.getAll('kind').includes(kind));
      await operations.fullSync(actor, named.length === 0 ? KINDS : named);
      return { to: fields.get('back') ?? '/', what: 'requested' };
    },
    async '/actions/pause'(actor) {
      await operations.pause(actor);
      return { to: '/' };
    },
    async '/actions/resume'(actor) {
      await operations.resume(actor);
      return { to: '/' };
    },

    async '/actions/delivery'(actor, fields) {
      const id = fields.get('id') ?? '';
      const verb = fields.get('do');
      if (verb !== 'retry' && verb !== 'dismiss') throw invalid('Press one of the buttons of the page.');
      const what = verb === 'retry' ? 'retried' : 'dismissed';
      await operations[verb === 'retry' ? 'retryDelivery' : 'dismissDelivery'](actor, id);
      return { to: fields.get('back') ?? '/deliveries', what };
    },

    async '/actions/refetch'(actor, fields) {
      const kind = fields.get('kind') ?? '';
      const id = fields.get('id') ?? '';
      if (!isKind(kind) || !isUsableId(id)) throw invalid(STALE);
      await operations.refetch(actor, kind, [id]);
      return { to: recordHref(kind, id), what: 'refetched' };
    },
    async '/actions/resolve'(actor, fields) {
      const { data: id } = rowId.safeParse(fields.get('id'));
      const digest = fields.get('digest');
      if (id === undefined || digest === null) throw invalid(STALE);
      const { full_sync } = await operations.resolveProblem(actor, id, digest);
      return { to: '/', what: full_sync ? 'accepted' : 'resolved' };
    },
    async '/actions/find'(actor, fields) {
      const { data: id } = rowId.safeParse(fields.get('id'));
      if (id === undefined) throw invalid(STALE);
      const { pointer, retried, says } = await operations.findRecord(actor, id);
      if (pointer === null) throw refusal(409, 'not_found_yet', 'The record was not found.', says);
      return { to: '/', what: 'found', done: retried };
    },
    async '/actions/notify-test'(actor) {
      await operations.testNotification(actor);
      return { to: '/', what: 'notified' };
    },
    async '/actions/decide'(actor, fields) {
      const { data: id } = rowId.safeParse(fields.get('id'));
      const verb = fields.get('do');
      if (id === undefined || (verb !== 'approve' && verb !== 'keep')) throw invalid(STALE);
      if (fields.get('sure') !== 'yes') {
        throw invalid('The box must be ticked: go back and tick it, if you are sure.');
      }
      // The digest names the ids that the page showed, so that no later deletion is approved with them.
      const decide = operations[verb === 'approve' ? 'approveDeletions' : 'keepRecords'];
      const { kind, ids } = await decide(actor, id, fields.get('digest') ?? '');
      return { to: pendingHref(kind), what: verb === 'approve' ? 'approved' : 'kept', done: ids.length };
    },
  };

  return Object.entries(forms).map(([path, form]) => [
    path,
    async (c) => {
      const { to, what, done = 1 } = await form(c.get('identity').name, await formFields(c));
      if (what !== undefined) {
        const cookie = { ...cookieOptions(context.publicUrl), maxAge: COOKIE_AGE };
        setCookie(c, COOKIE, `${what}.${done}`, cookie);
      }
      return c.redirect(pathHere(to), 303);
    },
  ]);
}

const STALE = 'Go back, reload the page and try again.';

const invalid = (detail: string) =>
  refusal(400, 'invalid_form', 'This form cannot be used as it is.', detail);

/** What a form did: only our own words and numbers, because it is sent in a cookie. */
export interface Outcome {
  what: keyof typeof SENTENCES;
  done: number;
}

const COOKIE = 'compliance-mirror-notice';
/** Seconds. Only the request after the form's needs it. */
const COOKIE_AGE = 60;

/** The next page shows the outcome, and deletes its cookie, so that a reload does not show it again. */
export function takeOutcome(c: OpsHandlerContext, publicUrl: URL | null): Outcome | null {
  const left = getCookie(c, COOKIE);
  if (left === undefined) return null;
  deleteCookie(c, COOKIE, cookieOptions(publicUrl));
  // A browser may send any text.
  const [, what = '', done] = /^([a-z]+)\.(\d{1,6})$/.exec(left) ?? [];
  if (!Object.hasOwn(SENTENCES, what)) return null;
  return { what: what as Outcome['what'], done: Number(done) };
}

export const noticeOf = ({ what, done }: Outcome): string => SENTENCES[what](done);

const SENTENCES = {
  retried: () => 'The delivery is processed.',
  dismissed: () => 'The delivery is dismissed.',
  requested: () =>
    'The full sync is requested. It begins when the one before it has ended; if the mirror is paused, after “Resume”.',
  refetched: () => 'The record will be fetched again.',
  resolved: () => 'The problem is resolved.',
  accepted: () => 'The problem is resolved. A full sync is requested: the kind is in sync once it has ended.',
  found: (done: number) =>
    `The API has proven a place of the id. Events are read there from now on; ${count(done, 'event')} read again.`,
  notified: () => 'NOTIFY_URL has taken the test.',
  approved: (done: number) =>
    `${count(done, 'deletion')} approved, for one hour. A full sync proves them once more first; if the mirror is paused, after “Resume”.`,
  kept: (done: number) =>
    `${count(done, 'record')} kept, until the service shows them again or announces their deletion anew.`,
};
