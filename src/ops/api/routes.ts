import { createRoute, z } from '@hono/zod-openapi';
import { KINDS } from '../../compliance/kinds.ts';
import { idFromPath } from './ids.ts';
import { approveRequest, queries, refetchRequest, retryRequest, syncRequest } from './query.ts';
import * as schemas from './schemas.ts';

/**
 * Every route of the operators' listener that is for programs, declared once: what a request is checked with, what the
 * document says of it, what its handler must answer, and what commands get.
 */

const kind = z.enum(KINDS);
const id = z
  .string()
  .transform(idFromPath)
  .openapi({ type: 'string', description: 'Any text, percent-encoded; `=Lg` is `.`, and `=Li4` is `..`.' });
/** The id of a row that the database numbered. */
const rowId = z
  .string()
  .regex(/^[1-9]\d{0,14}$/)
  .transform(Number)
  .openapi({ type: 'integer', minimum: 1 });

const byId = z.object({ id });
const byRowId = z.object({ id: rowId });
const byKind = z.object({ kind });
const byRecord = z.object({ kind, id });

const json = <Schema extends z.ZodType>(schema: Schema) => ({ 'application/json': { schema } });
const answer = <Schema extends z.ZodType>(schema: Schema, description = 'Done.') => ({
  200: { description, content: json(schema) },
});
const queued = <Schema extends z.ZodType>(schema: Schema) => ({
  202: { description: 'Queued.', content: json(schema) },
});
const list = <Item extends z.ZodType>(item: Item) => answer(schemas.listOf(item), 'One page, newest first.');
const body = <Schema extends z.ZodType>(schema: Schema) => ({ body: { content: json(schema) } });

const problem = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: schemas.problemDetails } },
});
const invalid = { 400: problem('A parameter is not usable; `detail` names it.') };
const missing = { 404: problem('There is no such thing.') };
const conflict = { 409: problem('Its state does not allow this.') };
const expired = { 410: problem('`cursor_expired`: take a snapshot and follow from its `after`.') };
const unread = { 502: problem('The compliance service could not be read.') };
const always = {
  401: problem('No token, or none that opens anything.'),
  503: problem('The database cannot be used now; try again.'),
};
const toRead = always;
const toChange = { ...always, 403: problem('The token’s role may not.') };

const open = { method: 'get' as const, security: [] };
const read = { method: 'get', description: 'Takes a token with the role `read`.' } as const;
const change = { method: 'post', description: 'Takes a token with the role `operate`.' } as const;

export const livez = createRoute({
  ...open,
  path: '/livez',
  operationId: 'livez',
  summary: 'The process lives',
  responses: answer(schemas.live, 'It does.'),
});
export const readyz = createRoute({
  ...open,
  path: '/readyz',
  operationId: 'readyz',
  summary: 'The service can take deliveries',
  responses: {
    ...answer(schemas.ready, 'It can.'),
    503: { description: 'It cannot now.', content: json(schemas.notReady) },
  },
});
export const metrics = createRoute({
  ...read,
  path: '/metrics',
  operationId: 'metrics',
  summary: 'Figures for Prometheus',
  responses: {
    200: {
      description: 'The text format that Prometheus reads.',
      content: { 'text/plain': { schema: z.string() } },
    },
    ...toRead,
  },
});
export const openapi = createRoute({
  ...read,
  path: '/openapi.json',
  operationId: 'openapi',
  summary: 'This document',
  responses: { ...answer(z.record(z.string(), z.unknown()), 'It.'), ...toRead },
});

export const status = createRoute({
  ...read,
  path: '/api/status',
  operationId: 'status',
  summary: 'Whether the mirror is in sync, and if not, why',
  responses: { ...answer(schemas.status, 'The figures of the status page.'), ...toRead },
});
export const listEvents = createRoute({
  ...read,
  path: '/api/events',
  operationId: 'listEvents',
  summary: 'Accepted events',
  request: { query: queries.events },
  responses: { ...answer(schemas.events, 'One page, newest first.'), ...invalid, ...toRead },
});
export const showEvent = createRoute({
  ...read,
  path: '/api/events/{id}',
  operationId: 'showEvent',
  summary: 'One event with its body',
  request: { params: byId },
  responses: { ...answer(schemas.event, 'The event.'), ...missing, ...toRead },
});
export const listDeliveries = createRoute({
  ...read,
  path: '/api/deliveries',
  operationId: 'listDeliveries',
  summary: 'All that came in, whatever became of it',
  request: { query: queries.deliveries },
  responses: { ...answer(schemas.deliveries, 'One page, newest first.'), ...invalid, ...toRead },
});
export const listRecords = createRoute({
  ...read,
  path: '/api/records/{kind}',
  operationId: 'listRecords',
  summary: 'Mirrored records of a kind',
  request: { params: byKind, query: queries.records },
  responses: {
    ...answer(schemas.records, 'One page.'),
    ...{ ...invalid, ...missing, ...toRead },
  },
});
export const showRecord = createRoute({
  ...read,
  path: '/api/records/{kind}/{id}',
  operationId: 'showRecord',
  summary: 'One record',
  request: { params: byRecord },
  responses: { ...answer(schemas.record, 'The record.'), ...missing, ...toRead },
});
export const recordHistory = createRoute({
  ...read,
  path: '/api/records/{kind}/{id}/history',
  operationId: 'recordHistory',
  summary: 'What changed in one record',
  request: { params: byRecord, query: queries.byNumber },
  responses: { ...list(schemas.change), ...invalid, ...missing, ...toRead },
});
export const followChanges = createRoute({
  ...read,
  path: '/api/changes',
  operationId: 'followChanges',
  summary: 'Every change after a number, oldest first',
  request: { query: queries.changes },
  responses: {
    ...answer(schemas.feed, 'Changes; `next` is where to go on, always.'),
    ...{ ...invalid, ...expired, ...toRead },
  },
});
export const snapshot = createRoute({
  ...read,
  path: '/api/snapshot',
  operationId: 'snapshot',
  summary: 'All rows, and the number from which to follow the changes',
  request: { query: queries.snapshot },
  responses: {
    ...answer(schemas.snapshot, 'One page, kind after kind, by id; tombstones included.'),
    ...{ ...invalid, ...expired, ...toRead },
  },
});
export const listGaps = createRoute({
  ...read,
  path: '/api/gaps',
  operationId: 'listGaps',
  summary: 'What may have been missed',
  request: { query: queries.gaps },
  responses: { ...list(schemas.gap), ...invalid, ...toRead },
});
export const listSyncRuns = createRoute({
  ...read,
  path: '/api/sync-runs',
  operationId: 'listSyncRuns',
  summary: 'Sync runs',
  request: { query: queries.byTime },
  responses: { ...list(schemas.syncRun), ...invalid, ...toRead },
});
export const showSyncRun = createRoute({
  ...read,
  path: '/api/sync-runs/{id}',
  operationId: 'showSyncRun',
  summary: 'One full sync',
  request: { params: byRowId },
  responses: { ...answer(schemas.syncRun, 'The full sync.'), ...missing, ...toRead },
});
export const listPendingDeletions = createRoute({
  ...read,
  path: '/api/deletions',
  operationId: 'listPendingDeletions',
  summary: 'Deletions that wait for a person',
  request: { query: queries.pendingDeletions },
  responses: { ...answer(schemas.pendingDeletions, 'One page, by kind and id.'), ...invalid, ...toRead },
});
export const listQuarantine = createRoute({
  ...read,
  path: '/api/quarantine',
  operationId: 'listQuarantine',
  summary: 'Signed deliveries that no event could be made of',
  request: { query: queries.byTime },
  responses: { ...list(schemas.quarantined), ...invalid, ...toRead },
});
export const showQuarantined = createRoute({
  ...read,
  path: '/api/quarantine/{id}',
  operationId: 'showQuarantined',
  summary: 'One of them with its body',
  request: { params: byRowId },
  responses: { ...answer(schemas.quarantined, 'The delivery.'), ...missing, ...toRead },
});
export const listRejections = createRoute({
  ...read,
  path: '/api/rejections',
  operationId: 'listRejections',
  summary:
    'Deliveries that were rejected, newest first: of each reason, sender and minute the first and the newest',
  request: { query: queries.byTime },
  responses: { ...list(schemas.rejection), ...invalid, ...toRead },
});
export const showRejection = createRoute({
  ...read,
  path: '/api/rejections/{id}',
  operationId: 'showRejection',
  summary: 'One of them with its body',
  request: { params: byRowId },
  responses: { ...answer(schemas.rejection, 'The delivery.'), ...missing, ...toRead },
});
export const listAudit = createRoute({
  ...read,
  path: '/api/audit',
  operationId: 'listAudit',
  summary: 'Who changed what',
  request: { query: queries.byTime },
  responses: { ...list(schemas.auditEntry), ...invalid, ...toRead },
});

export const retryEvents = createRoute({
  ...change,
  path: '/api/events/retry',
  operationId: 'retryEvents',
  summary: 'Read all failed events anew that name no record',
  request: body(retryRequest),
  responses: { ...answer(schemas.done.retriedAll, 'What came of them.'), ...invalid, ...toChange },
});
export const retryEvent = createRoute({
  ...change,
  path: '/api/events/{id}/retry',
  operationId: 'retryEvent',
  summary: 'Read a failed event anew and process it',
  request: { params: byId },
  responses: {
    ...answer(schemas.done.retried, 'It is processed. Where it fails again: 409 with the reason.'),
    ...{ ...missing, ...conflict, ...toChange },
  },
});
export const discardEvent = createRoute({
  ...change,
  path: '/api/events/{id}/discard',
  operationId: 'discardEvent',
  summary: 'Give an event up',
  request: { params: byId },
  responses: { ...answer(schemas.done.discarded), ...missing, ...conflict, ...toChange },
});
export const startSyncRun = createRoute({
  ...change,
  path: '/api/sync-runs',
  operationId: 'startSyncRun',
  summary: 'Compare whole kinds with the API, now',
  request: body(syncRequest),
  responses: {
    ...answer(schemas.done.compared, 'What a dry run found.'),
    ...queued(schemas.done.syncRun),
    ...{ ...invalid, ...conflict, ...unread, ...toChange },
  },
});
export const approveDeletions = createRoute({
  ...change,
  path: '/api/deletions/approve',
  operationId: 'approveDeletions',
  summary: 'Approve exactly the deletions that a digest names',
  request: body(approveRequest),
  responses: { ...answer(schemas.done.approved), ...invalid, ...conflict, ...toChange },
});
export const refetchMany = createRoute({
  ...change,
  path: '/api/records/{kind}/refetch',
  operationId: 'refetchMany',
  summary: 'Read records of a kind again',
  request: { params: byKind, ...body(refetchRequest) },
  responses: { ...queued(schemas.done.refetch), ...invalid, ...missing, ...conflict, ...toChange },
});
export const refetch = createRoute({
  ...change,
  path: '/api/records/{kind}/{id}/refetch',
  operationId: 'refetch',
  summary: 'Read one record again',
  request: { params: byRecord },
  responses: { ...queued(schemas.done.refetch), ...missing, ...conflict, ...toChange },
});
export const releaseQuarantined = createRoute({
  ...change,
  path: '/api/quarantine/{id}/release',
  operationId: 'releaseQuarantined',
  summary: 'Mark a delivery as seen to',
  request: { params: byRowId },
  responses: { ...answer(schemas.done.released), ...missing, ...conflict, ...toChange },
});
export const resolveGap = createRoute({
  ...change,
  path: '/api/gaps/{id}/resolve',
  operationId: 'resolveGap',
  summary: 'Say of a gap that only a person can end that nothing is missing',
  request: { params: byRowId },
  responses: { ...answer(schemas.done.resolved), ...missing, ...conflict, ...toChange },
});
export const pause = createRoute({
  ...change,
  path: '/api/pause',
  operationId: 'pause',
  summary: 'Stop processing and repairs; deliveries are still kept',
  responses: { ...answer(schemas.done.paused), ...toChange },
});
export const resume = createRoute({
  ...change,
  path: '/api/resume',
  operationId: 'resume',
  summary: 'Go on',
  responses: { ...answer(schemas.done.paused), ...toChange },
});
