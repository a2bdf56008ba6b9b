import type { Kind } from '../../compliance/kinds.ts';
import { MirrorError, StoreUnavailable } from '../../platform/errors.ts';
import { problem } from '../../platform/problem.ts';
import type { OpsHandlerContext } from '../access.ts';
import type { Compared, Done, Operations } from '../operations.ts';
import { approveRequest, parseBody, retryRequest, syncRequest } from './query.ts';
import { idParam, notFound, numberParam, withKind } from './reads.ts';

type Handler = (c: OpsHandlerContext) => Promise<Response>;

/** The changing half of the JSON API, and the dry run, which is asked for like a full sync. 202: it is queued; 200: it is done. */
export function createApiChanges(operations: Operations) {
  const actor = (c: OpsHandlerContext) => c.get('identity').name;

  async function dryRun(c: OpsHandlerContext, kinds: Kind[] | undefined): Promise<Response> {
    try {
      return answer(await operations.dryRun(kinds, c.req.raw.signal), (compared) =>
        c.json({ status: 'compared', in_sync: compared.every(isInSync), kinds: compared }),
      );
    } catch (error) {
      if (!(error instanceof MirrorError) || error instanceof StoreUnavailable) throw error;
      return problem(502, error.code, 'The compliance service could not be read.', error.message);
    }
  }

  return {
    retryEvent: async (c) =>
      answer(await operations.retryEvent(actor(c), idParam(c)), ({ kind, recordId }) =>
        c.json({ status: 'processed', id: idParam(c), kind, record_id: recordId }),
      ),
    retryEvents: async (c) => {
      const body = await parseBody(c, retryRequest);
      if (!body.ok) return body.response;
      return answer(await operations.retryWithoutRecord(actor(c)), (all) =>
        c.json({ status: 'tried', ...all }),
      );
    },
    discardEvent: async (c) =>
      answer(await operations.discardEvent(actor(c), idParam(c)), () =>
        c.json({ status: 'discarded', id: idParam(c) }),
      ),
    fullSync: async (c) => {
      const body = await parseBody(c, syncRequest);
      if (!body.ok) return body.response;
      if (body.value.dry_run === true) return await dryRun(c, body.value.kinds);
      return answer(await operations.fullSync(actor(c), body.value.kinds), ({ kinds }) =>
        c.json({ status: 'queued', kinds }, 202),
      );
    },
    approveDeletions: async (c) => {
      const body = await parseBody(c, approveRequest);
      if (!body.ok) return body.response;
      return answer(
        await operations.approveDeletions(actor(c), body.value.digest),
        ({ syncRunId: sync_run_id, ...approved }) => c.json({ status: 'approved', sync_run_id, ...approved }),
      );
    },
    refetch: async (c) =>
      withKind(c, async (kind) =>
        answer(await operations.refetch(actor(c), kind, idParam(c)), ({ queued }) =>
          c.json({ status: 'queued', queued }, 202),
        ),
      ),
    releaseQuarantined: async (c) => {
      const id = numberParam(c);
      if (id === null) return notFound();
      return answer(await operations.releaseQuarantined(actor(c), id), () =>
        c.json({ status: 'released', id }),
      );
    },
    resolveGap: async (c) => {
      const id = numberParam(c);
      if (id === null) return notFound();
      return answer(await operations.resolveGap(actor(c), id), () => c.json({ status: 'resolved', id }));
    },
    pause: async (c) => answer(await operations.pause(actor(c)), () => c.json({ paused: true })),
    resume: async (c) => answer(await operations.resume(actor(c)), () => c.json({ paused: false })),
  } satisfies Record<string, Handler>;
}

const isInSync = ({ missing, extra, different, incomplete }: Compared) =>
  missing + extra + different === 0 && incomplete === null;

function answer<T>(done: Done<T>, success: (value: T) => Response): Response {
  if (done.status === 'done') return success(done.value);
  if (done.status === 'missing') return notFound();
  return problem(409, done.code, 'Its state does not allow this.', done.detail);
}
