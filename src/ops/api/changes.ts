import { OpenAPIHono } from '@hono/zod-openapi';
import type { Kind } from '../../compliance/kinds.ts';
import { MirrorError, StoreUnavailable } from '../../platform/errors.ts';
import type { OpsEnv, OpsHandlerContext } from '../access.ts';
import { clientGone } from '../open-requests.ts';
import type { Compared, Operations } from '../operations.ts';
import { refusal } from './answers.ts';
import * as routes from './routes.ts';

/** The changing half of the JSON API, and the dry run, which is requested like a full sync. 202: queued; 200: done. */
export function createChanges(operations: Operations) {
  const actor = (c: Pick<OpsHandlerContext, 'get'>) => c.get('identity').name;

  async function dryRun(kinds: Kind[] | undefined, signal: AbortSignal): Promise<Compared[]> {
    try {
      return await operations.dryRun(kinds, signal);
    } catch (error) {
      if (signal.aborted) throw refusal(502, 'interrupted', 'The client closed the connection.');
      if (error instanceof Error && error.name === 'AbortError') {
        const why = 'This service stops, or another one reads the API now.';
        throw refusal(502, 'interrupted', 'The dry run was interrupted.', why);
      }
      if (!(error instanceof MirrorError) || error instanceof StoreUnavailable) throw error;
      const { code, message, remedy } = error;
      const detail = remedy === undefined ? message : `${message} (${remedy})`;
      throw refusal(502, code, 'The compliance service could not be read.', detail);
    }
  }

  return (
    new OpenAPIHono<OpsEnv>()
      // Before `retryEvent`, which would take `retry` for an id.
      .openapi(routes.retryEvents, async (c) => {
        const all = await operations.retryWithoutRecord(actor(c));
        return c.json({ status: 'tried' as const, ...all }, 200);
      })
      .openapi(routes.retryEvent, async (c) => {
        const { id } = c.req.valid('param');
        const { kind, recordId } = await operations.retryEvent(actor(c), id);
        return c.json({ status: 'processed' as const, id, kind, record_id: recordId }, 200);
      })
      .openapi(routes.discardEvent, async (c) => {
        const { id } = c.req.valid('param');
        await operations.discardEvent(actor(c), id);
        return c.json({ status: 'discarded' as const, id }, 200);
      })
      .openapi(routes.startSyncRun, async (c) => {
        const { kinds, dry_run: isDryRun } = c.req.valid('json');
        if (isDryRun === true) {
          using gone = clientGone(c);
          const compared = await dryRun(kinds, gone.signal);
          const in_sync = compared.every(isInSync);
          return c.json({ status: 'compared' as const, in_sync, kinds: compared }, 200);
        }
        return c.json({ status: 'queued' as const, kinds: await operations.fullSync(actor(c), kinds) }, 202);
      })
      .openapi(routes.approveDeletions, async (c) => {
        const { digest } = c.req.valid('json');
        const approved = await operations.approveDeletions(actor(c), digest);
        return c.json({ status: 'approved' as const, ...approved }, 200);
      })
      .openapi(routes.refetchMany, async (c) => {
        const { kind } = c.req.valid('param');
        const { ids } = c.req.valid('json');
        return c.json({ status: 'queued' as const, ...(await operations.refetch(actor(c), kind, ids)) }, 202);
      })
      .openapi(routes.refetch, async (c) => {
        const { kind, id } = c.req.valid('param');
        return c.json(
          { status: 'queued' as const, ...(await operations.refetch(actor(c), kind, [id])) },
          202,
        );
      })
      .openapi(routes.releaseQuarantined, async (c) => {
        const { id } = c.req.valid('param');
        await operations.releaseQuarantined(actor(c), id);
        return c.json({ status: 'released' as const, id }, 200);
      })
      .openapi(routes.resolveGap, async (c) => {
        const { id } = c.req.valid('param');
        await operations.resolveGap(actor(c), id);
        return c.json({ status: 'resolved' as const, id }, 200);
      })
      .openapi(routes.pause, async (c) => {
        await operations.pause(actor(c));
        return c.json({ paused: true }, 200);
      })
      .openapi(routes.resume, async (c) => {
        await operations.resume(actor(c));
        return c.json({ paused: false }, 200);
      })
  );
}

const isInSync = ({ missing, extra, different, incomplete }: Compared) =>
  missing + extra + different === 0 && incomplete === null;
