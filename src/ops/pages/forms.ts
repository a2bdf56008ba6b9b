import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { HTTPException } from 'hono/http-exception';
import { isKind, KINDS } from '../../compliance/kinds.ts';
import { isUsableId, MAX_ID_LENGTH } from '../../compliance/pointers.ts';
import { type EventReport, PAGE_LIMIT_MAX } from '../../store/reports.ts';
import { cookieOptions, formFields, type OpsHandlerContext, pathHere } from '../access.ts';
import { refusal } from '../api/answers.ts';
import type { Operations } from '../api/changes.ts';
import { rowId } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import type { DryRuns } from '../dry-runs.ts';
import { count, figure } from '../words.ts';
import { recordHref } from './query.ts';

/** As many as a list can show. */
const MAX_TICKED = PAGE_LIMIT_MAX;
/** The longest character of an id in a form: three bytes in UTF-8, each percent-encoded. */
const BYTES_PER_CHARACTER = 9;
/** The address for ticked events, and the largest form of them, without the other fields. */
export const TICKED_PATH = '/actions/events';
export const TICKED_BYTES = MAX_TICKED * ('id=&'.length + MAX_ID_LENGTH * BYTES_PER_CHARACTER);

/** The page that follows a form, and the outcome that it shows; without `what`: none. */
type Done = { to: string } & Partial<Outcome>;
type Form = (actor: string, fields: URLSearchParams) => Promise<Done>;

/** The pages' forms by their addresses. Success redirects to a page (303), so that a reload repeats nothing. */
export function createForms(
  context: OpsContext,
  operations: Operations,
  dryRuns: DryRuns,
): [path: string, handler: (c: OpsHandlerContext) => Promise<Response>][] {
  const forms: Readonly<Record<string, Form>> = {
    async '/actions/sync'(actor) {
      await operations.fullSync(actor);
      return { to: '/' };
    },
    async '/actions/pause'(actor) {
      await operations.pause(actor);
      return { to: '/' };
    },
    async '/actions/resume'(actor) {
      await operations.resume(actor);
      return { to: '/' };
    },

    /** For all events that failed because they name no record. */
    async '/actions/retry'(actor) {
      const { processed, failed } = await operations.retryWithoutRecord(actor);
      return { to: '/events?state=failed', what: 'retried', done: processed, failed };
    },

    /** From the sync runs' page: a full sync or a dry run of the ticked kinds. */
    async '/actions/sync-runs'(actor, fields) {
      const kinds = KINDS.filter((kind) => fields.getAll('kind').includes(kind));
      if (kinds.length === 0) throw invalid('Tick at least one kind.');
      if (fields.get('do') !== 'compare') {
        await operations.fullSync(actor, kinds);
        return { to: '/sync-runs', what: 'queued' };
      }
      if (context.facts().eventsOnly) throw invalid('There are no API credentials to compare with.');
      dryRuns.start(kinds);
      return { to: '/sync-runs', what: 'compared' };
    },

    /** One event or many. Those that cannot be changed any more are counted, and the others still change. */
    async [TICKED_PATH](actor, fields) {
      const ids = [...new Set(fields.getAll('id'))];
      const verb = fields.get('do');
      if (verb !== 'retry' && verb !== 'discard') throw invalid('Press one of the buttons of the page.');
      if (ids.length === 0) throw invalid('Tick at least one event.');
      if (ids.length > MAX_TICKED) throw invalid(`Tick at most ${MAX_TICKED} events.`);
      const change = verb === 'retry' ? operations.retryEvent : operations.discardEvent;
      let done = 0;
      let failed = 0;
      for (const id of ids) {
        try {
          await change(actor, id);
          done += 1;
        } catch (error) {
          if (!(error instanceof HTTPException)) throw error;
          failed += 1;
        }
      }
      const what = verb === 'retry' ? 'retried' : 'discarded';
      return { to: fields.get('back') ?? '/events', what, done, failed };
    },

    async '/actions/refetch'(actor, fields) {
      const kind = fields.get('kind') ?? '';
      const id = fields.get('id') ?? '';
      if (!isKind(kind) || !isUsableId(id)) throw invalid(STALE);
      await operations.refetch(actor, kind, [id]);
      return { to: recordHref(kind, id), what: 'refetched' };
    },
    async '/actions/release'(actor, fields) {
      const id = numberIn(fields);
      await operations.releaseQuarantined(actor, id);
      return { to: `/quarantine/${id}`, what: 'released' };
    },
    async '/actions/resolve-gap'(actor, fields) {
      await operations.resolveGap(actor, numberIn(fields));
      return { to: '/gaps', what: 'resolved' };
    },
    async '/actions/approve-deletions'(actor, fields) {
      if (fields.get('sure') !== 'yes') {
        throw invalid('The box must be ticked: go back and tick it, if you are sure.');
      }
      // The digest names the ids that the page showed, so that no later deletion is approved with them.
      const approved = await operations.approveDeletions(actor, fields.get('digest') ?? '');
      return { to: `/sync-runs/${approved.sync_run_id}`, what: 'approved', done: approved.ids.length };
    },
  };

  return Object.entries(forms).map(([path, form]) => [
    path,
    async (c) => {
      const { to, what, done = 1, failed = 0 } = await form(c.get('identity').name, await formFields(c));
      if (what !== undefined) leaveOutcome(c, context.publicUrl, { what, done, failed });
      return c.redirect(pathHere(to), 303);
    },
  ]);
}

const STALE = 'Go back, reload the page and try again.';

function numberIn(fields: URLSearchParams): number {
  const { data: id } = rowId.safeParse(fields.get('id'));
  if (id === undefined) throw invalid(STALE);
  return id;
}

const invalid = (detail: string) =>
  refusal(400, 'invalid_form', 'This form cannot be used as it is.', detail);

/** What a form did: only our own words and numbers, because it is sent in a cookie. */
export interface Outcome {
  what: 'retried' | 'discarded' | 'queued' | 'compared' | 'refetched' | 'released' | 'approved' | 'resolved';
  done: number;
  /** How many changes were not possible any more. */
  failed: number;
}

const COOKIE = 'compliance-mirror-notice';
/** Seconds. Only the request after the form's needs it. */
const COOKIE_AGE = 60;

/** The next page shows the outcome, and deletes its cookie, so that a reload does not show it again. */
function leaveOutcome(c: OpsHandlerContext, publicUrl: URL | null, outcome: Outcome): void {
  const { what, done, failed } = outcome;
  setCookie(c, COOKIE, `${what}.${done}.${failed}`, { ...cookieOptions(publicUrl), maxAge: COOKIE_AGE });
}

export function takeOutcome(c: OpsHandlerContext, publicUrl: URL | null): Outcome | null {
  const left = getCookie(c, COOKIE);
  if (left === undefined) return null;
  deleteCookie(c, COOKIE, cookieOptions(publicUrl));
  // A browser may send any text.
  const [, what = '', done, failed] = /^([a-z]+)\.(\d{1,6})\.(\d{1,6})$/.exec(left) ?? [];
  if (!Object.hasOwn(SENTENCES, what)) return null;
  return { what: what as Outcome['what'], done: Number(done), failed: Number(failed) };
}

export function noticeOf({ what, done, failed }: Outcome) {
  const why = WHY_NOT[what] ?? 'the state had changed';
  const rest = failed === 0 ? '' : ` ${figure(failed)} could not be: ${why}.`;
  return { text: `${SENTENCES[what](done)}${rest}`, isBad: failed > 0 };
}

/** As `noticeOf`, on the page of a single event: it says the new state. */
export function noticeOfEvent({ what, done }: Outcome, { state, error, body }: EventReport) {
  if (what === 'discarded' && done > 0) return { text: 'Discarded.', isBad: false };
  if (done > 0) return { text: state === 'ignored' ? IGNORED : 'Processed.', isBad: false };
  if (state !== 'failed') return { text: `Not possible any more: the event is ${state}.`, isBad: true };
  const why = body === null ? 'its body is not kept any more' : error;
  return { text: `Failed again: ${why}.`, isBad: true };
}

const IGNORED = 'Ignored, because its type is not known. The API is asked for its record.';

const WHY_NOT: Partial<Record<Outcome['what'], string>> = { retried: 'the error is beside each' };

const SENTENCES: Record<Outcome['what'], (done: number) => string> = {
  retried: (done) => `${count(done, 'event')} processed.`,
  discarded: (done) => `${count(done, 'event')} discarded.`,
  queued: () =>
    'The full sync is requested. It begins when the one before it has ended; if the mirror is paused, after “Resume”.',
  compared: () => 'The dry run has begun. Its result will be shown below.',
  refetched: () => 'The record will be fetched again.',
  released: () => 'Released. The API is asked for its record, if that is known.',
  resolved: () => 'The gap is resolved.',
  approved: (done) =>
    `${count(done, 'deletion')} approved, for one hour. A full sync proves them once more first; if the mirror is paused, after “Resume”.`,
};
