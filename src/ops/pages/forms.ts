import { isKind, KINDS } from '../../compliance/kinds.ts';
import { problem } from '../../platform/problem.ts';
import { PAGE_LIMIT_MAX } from '../../store/reports.ts';
import { formFields, type OpsHandlerContext, pathHere } from '../access.ts';
import type { OpsContext } from '../context.ts';
import type { Done, Operations } from '../operations.ts';
import { createNotices, type Outcome } from './form-outcome.ts';
import { recordHref, rowNumber, TEXT_MAX_LENGTH } from './query.ts';
import type { DryRuns } from './sync-runs-page.tsx';

/** As many as a list can show. Each is a transaction of its own. */
const MAX_TICKED = PAGE_LIMIT_MAX;
/** The longest character of an id in a form: three bytes in UTF-8, each percent-encoded. */
const BYTES_PER_CHARACTER = 9;
/** The address for ticked events, and the largest form of them, without the other fields. */
export const TICKED_PATH = '/actions/events';
export const TICKED_BYTES = MAX_TICKED * ('id=&'.length + TEXT_MAX_LENGTH * BYTES_PER_CHARACTER);

/** Handlers of the pages' forms. Success redirects to a page (303), so that a reload repeats nothing. */
export function createForms(context: OpsContext, operations: Operations, dryRuns: DryRuns) {
  const notices = createNotices(context);
  const actor = (c: OpsHandlerContext) => c.get('identity').name;

  /** To `path`, which then shows the outcome. */
  const back = (c: OpsHandlerContext, path: string, outcome: Outcome | null): Response => {
    if (outcome !== null) notices.leave(c, outcome);
    return c.redirect(pathHere(path), 303);
  };

  const afterOne = async (
    c: OpsHandlerContext,
    done: Done<unknown>,
    path: string,
    what: Outcome['what'] | null,
  ): Promise<Response> => {
    if (done.status === 'missing') return problem(404, 'not_found', 'It is not there any more.');
    if (done.status === 'conflict') {
      return problem(409, done.code, 'Its state does not allow this.', done.detail);
    }
    return back(c, path, what === null ? null : { what, done: 1, not: 0 });
  };

  return {
    /** For all events that failed because they name no record. */
    async retryWithoutRecord(c: OpsHandlerContext): Promise<Response> {
      const done = await operations.retryWithoutRecord(actor(c));
      if (done.status !== 'done') return afterOne(c, done, '/', null);
      const { processed, failed } = done.value;
      return back(c, '/events?state=failed', { what: 'retried', done: processed, not: failed });
    },
    async fullSync(c: OpsHandlerContext): Promise<Response> {
      return afterOne(c, await operations.fullSync(actor(c)), '/', null);
    },
    async pause(c: OpsHandlerContext): Promise<Response> {
      return afterOne(c, await operations.pause(actor(c)), '/', null);
    },
    async resume(c: OpsHandlerContext): Promise<Response> {
      return afterOne(c, await operations.resume(actor(c)), '/', null);
    },

    /** From the sync runs' page: a full sync or a dry run of the ticked kinds. */
    async syncRuns(c: OpsHandlerContext): Promise<Response> {
      const fields = await formFields(c);
      const kinds = KINDS.filter((kind) => fields.getAll('kind').includes(kind));
      if (kinds.length === 0) return invalid('Tick at least one kind.');
      if (fields.get('do') !== 'compare') {
        return afterOne(c, await operations.fullSync(actor(c), kinds), '/sync-runs', 'queued');
      }
      if (context.facts().eventsOnly) return invalid('There are no API credentials to compare with.');
      dryRuns.start(kinds);
      return back(c, '/sync-runs', { what: 'compared', done: 1, not: 0 });
    },

    /** One event or many. Those that cannot be changed any more are counted, and the others still change. */
    async events(c: OpsHandlerContext): Promise<Response> {
      const fields = await formFields(c);
      const ids = [...new Set(fields.getAll('id'))];
      const verb = fields.get('do');
      if (verb !== 'retry' && verb !== 'discard') return invalid('Press one of the buttons of the page.');
      if (ids.length === 0) return invalid('Tick at least one event.');
      if (ids.length > MAX_TICKED) return invalid(`Tick at most ${MAX_TICKED} events.`);
      const change = verb === 'retry' ? operations.retryEvent : operations.discardEvent;
      const outcome: Outcome = { what: verb === 'retry' ? 'retried' : 'discarded', done: 0, not: 0 };
      for (const id of ids) {
        const { status } = await change(actor(c), id);
        outcome[status === 'done' ? 'done' : 'not'] += 1;
      }
      return back(c, fields.get('back') ?? '/events', outcome);
    },

    async refetch(c: OpsHandlerContext): Promise<Response> {
      const fields = await formFields(c);
      const kind = fields.get('kind') ?? '';
      const id = fields.get('id') ?? '';
      if (!isKind(kind) || id === '') return invalid('Go back, reload the page and try again.');
      return afterOne(c, await operations.refetch(actor(c), kind, [id]), recordHref(kind, id), 'refetched');
    },

    async release(c: OpsHandlerContext): Promise<Response> {
      const id = rowNumber((await formFields(c)).get('id'));
      if (id === null) return invalid('Go back, reload the page and try again.');
      return afterOne(c, await operations.releaseQuarantined(actor(c), id), `/quarantine/${id}`, 'released');
    },

    async resolveGap(c: OpsHandlerContext): Promise<Response> {
      const id = rowNumber((await formFields(c)).get('id'));
      if (id === null) return invalid('Go back, reload the page and try again.');
      return afterOne(c, await operations.resolveGap(actor(c), id), '/gaps', 'resolved');
    },

    async approveDeletions(c: OpsHandlerContext): Promise<Response> {
      const fields = await formFields(c);
      if (fields.get('sure') !== 'yes') {
        return invalid('The box must be ticked: go back and tick it, if you are sure.');
      }
      // The digest names the ids that the page showed, so that no later deletion is approved with them.
      const done = await operations.approveDeletions(actor(c), fields.get('digest') ?? '');
      if (done.status === 'conflict' && done.code === 'deletions_changed') {
        return problem(
          409,
          'deletions_changed',
          'The pending deletions have changed since the page was made.',
          'Go back, reload the page, and look at them again.',
        );
      }
      if (done.status !== 'done') return afterOne(c, done, '/sync-runs', null);
      const { syncRunId, ids } = done.value;
      return back(c, `/sync-runs/${syncRunId}`, { what: 'approved', done: ids.length, not: 0 });
    },
  };
}

function invalid(detail: string): Response {
  return problem(400, 'invalid_form', 'This form cannot be used as it is.', detail);
}
