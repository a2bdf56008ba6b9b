import { createRoute, type RouteConfig, z } from '@hono/zod-openapi';
import { isUsableId } from '../../compliance/pointers.ts';
import * as rows from '../../store/report-rows.ts';
import { idFromPath } from './ids.ts';
import { approveRequest, queries, refetchRequest, retryRequest, rowId, syncRequest } from './query.ts';
import * as schemas from './schemas.ts';

/**
 * Every route for programs, declared once. Requests are checked by it; the OpenAPI document, the types of the handlers and
 * those of the commands follow from it.
 */

const id = z.string().transform(idFromPath).refine(isUsableId).openapi({
  type: 'string',
  description:
    'Any text, percent-encoded. One that is `.` or `..` or begins with `=` is written as `=` and its base64url: `=Lg`, `=Li4`.',
});
const byId = { params: z.object({ id }) };
const byRowId = { params: z.object({ id: rowId }) };
const byKind = { params: z.object({ kind: rows.kind }) };
const byRecord = { params: z.object({ kind: rows.kind, id }) };

const json = <Schema extends z.ZodType>(schema: Schema) => ({ 'application/json': { schema } });
const body = <Schema extends z.ZodType>(schema: Schema) => ({
  body: { required: !schema.safeParse({}).success, content: json(schema) },
});
const answer = <Schema extends z.ZodType>(schema: Schema, description = 'Done.') => ({
  200: { description, content: json(schema) },
});
const queued = <Schema extends z.ZodType>(schema: Schema) => ({
  202: { description: 'Queued.', content: json(schema) },
});
const newestFirst = <Schema extends z.ZodType>(schema: Schema) => answer(schema, 'One page, newest first.');

const problem = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: schemas.problemDetails } },
});
const conflict = { 409: problem('Its state does not allow this.') };
const expired = { 410: problem('`cursor_expired`: take a snapshot and follow from its `after`.') };
const unread = { 502: problem('The compliance service could not be read.') };
const always = {
  401: problem('No token, or a wrong one.'),
  429: problem('Too many wrong tokens from this address; see Retry-After. A right token always works.'),
  503: problem('The database cannot be used now; try again.'),
};

type Sort = Pick<RouteConfig, 'method' | 'description' | 'security'>;
type Declared = {
  summary: string;
  request?: NonNullable<RouteConfig['request']>;
  responses: RouteConfig['responses'];
};

/** Returns a function that declares routes of one sort. Their 400 and 404 follow from what a request takes. */
function routesThat<const S extends Sort>(sort: S, problems: Declared['responses']) {
  return <const Path extends string, D extends Declared>(operationId: string, path: Path, declared: D) => {
    const { params, query, body } = declared.request ?? {};
    const responses = {
      ...declared.responses,
      ...(query || body ? { 400: problem('A parameter is not usable; `detail` names it.') } : {}),
      ...(params ? { 404: problem('Not found.') } : {}),
      ...problems,
    };
    // Problems are thrown, so the types have only the declared answers.
    const route = { ...sort, path, operationId, ...declared, responses };
    return createRoute<Path, typeof sort & typeof declared & { path: Path; operationId: string }>(route);
  };
}

const open = routesThat({ method: 'get', security: [] }, {});
const read = routesThat({ method: 'get', description: 'Takes a token with the role `read`.' }, always);
const change = routesThat(
  { method: 'post', description: 'Takes a token with the role `operate`.' },
  {
    ...always,
    403: problem('The token’s role does not allow it.'),
    411: problem('The request does not tell the length of its body.'),
    413: problem('The body is too large.'),
  },
);

/** Newest first, a page at a time. */
const list = <const Path extends string, Query extends z.ZodObject, Item extends z.ZodType>(
  operationId: string,
  path: Path,
  summary: string,
  query: Query,
  item: Item,
) => read(operationId, path, { summary, request: { query }, responses: newestFirst(schemas.listOf(item)) });

export const livez = open('livez', '/livez', {
  summary: 'The process lives',
  responses: answer(schemas.live, 'It does.'),
});
export const readyz = open('readyz', '/readyz', {
  summary: 'The service can take deliveries',
  responses: {
    ...answer(schemas.ready, 'It can.'),
    503: { description: 'It cannot now.', content: json(schemas.notReady) },
  },
});
export const metrics = read('metrics', '/metrics', {
  summary: 'Figures for Prometheus',
  responses: {
    200: {
      description: 'The text format that Prometheus reads.',
      content: { 'text/plain': { schema: z.string() } },
    },
  },
});
export const openapi = read('openapi', '/openapi.json', {
  summary: 'This document',
  responses: answer(z.record(z.string(), z.unknown()), 'It.'),
});

export const status = read('status', '/api/status', {
  summary: 'Whether the mirror is in sync, and if not, why',
  responses: answer(schemas.status, 'The figures of the status page.'),
});
export const listEvents = read('listEvents', '/api/events', {
  summary: 'Accepted events',
  request: { query: queries.events },
  responses: newestFirst(schemas.events),
});
export const showEvent = read('showEvent', '/api/events/{id}', {
  summary: 'One event with its body',
  request: byId,
  responses: answer(rows.event, 'The event.'),
});
export const listDeliveries = read('listDeliveries', '/api/deliveries', {
  summary: 'All deliveries with their outcome',
  request: { query: queries.deliveries },
  responses: newestFirst(schemas.deliveries),
});
export const listRecords = read('listRecords', '/api/records/{kind}', {
  summary: 'Mirrored records of a kind',
  request: { ...byKind, query: queries.records },
  responses: answer(schemas.records, 'One page.'),
});
export const showRecord = read('showRecord', '/api/records/{kind}/{id}', {
  summary: 'One record',
  request: byRecord,
  responses: answer(rows.shownRecord, 'The record.'),
});
export const recordHistory = read('recordHistory', '/api/records/{kind}/{id}/history', {
  summary: 'What changed in one record',
  request: { ...byRecord, query: queries.byNumber },
  responses: newestFirst(schemas.listOf(rows.change)),
});
export const followChanges = read('followChanges', '/api/changes', {
  summary: 'Every change after a number, oldest first',
  request: { query: queries.changes },
  responses: { ...answer(schemas.feed, 'Changes. `next` always says where to go on.'), ...expired },
});
export const snapshot = read('snapshot', '/api/snapshot', {
  summary: 'All rows, and the number from which to follow the changes',
  request: { query: queries.snapshot },
  responses: {
    ...answer(schemas.snapshot, 'One page, kind after kind, by id; tombstones included.'),
    ...expired,
  },
});
export const listGaps = list('listGaps', '/api/gaps', 'What may have been missed', queries.gaps, rows.gap);
export const listSyncRuns = list('listSyncRuns', '/api/sync-runs', 'Sync runs', queries.byTime, rows.syncRun);
export const showSyncRun = read('showSyncRun', '/api/sync-runs/{id}', {
  summary: 'One full sync',
  request: byRowId,
  responses: answer(rows.syncRun, 'The full sync.'),
});
export const listPendingDeletions = read('listPendingDeletions', '/api/deletions', {
  summary: 'Deletions that wait for a person',
  request: { query: queries.pendingDeletions },
  responses: answer(schemas.pendingDeletions, 'One page, by kind and id.'),
});
export const listQuarantine = list(
  'listQuarantine',
  '/api/quarantine',
  'Correctly signed deliveries that could not be used',
  queries.byTime,
  rows.quarantined,
);
export const showQuarantined = read('showQuarantined', '/api/quarantine/{id}', {
  summary: 'One of them with its body',
  request: byRowId,
  responses: answer(rows.quarantined, 'The delivery.'),
});
export const listRejections = list(
  'listRejections',
  '/api/rejections',
  'Rejected deliveries, newest first: for each reason, sender and minute the first two and the newest',
  queries.byTime,
  rows.rejection,
);
export const showRejection = read('showRejection', '/api/rejections/{id}', {
  summary: 'One of them with its body',
  request: byRowId,
  responses: answer(rows.rejection, 'The delivery.'),
});
export const listAudit = list('listAudit', '/api/audit', 'Who changed what', queries.byTime, rows.auditEntry);

export const retryEvents = change('retryEvents', '/api/events/retry', {
  summary: 'Retry all failed events that name no record',
  request: body(retryRequest),
  responses: answer(schemas.done.retriedAll, 'The results.'),
});
export const retryEvent = change('retryEvent', '/api/events/{id}/retry', {
  summary: 'Retry a failed event',
  request: byId,
  responses: {
    ...answer(schemas.done.retried, 'It is processed. If it fails again: 409 with the reason.'),
    ...conflict,
  },
});
export const discardEvent = change('discardEvent', '/api/events/{id}/discard', {
  summary: 'Discard an event',
  request: byId,
  responses: { ...answer(schemas.done.discarded), ...conflict },
});
export const startSyncRun = change('startSyncRun', '/api/sync-runs', {
  summary: 'Compare whole kinds with the API, now',
  request: body(syncRequest),
  responses: {
    ...answer(schemas.done.compared, 'What a dry run found.'),
    ...queued(schemas.done.syncRun),
    ...conflict,
    ...unread,
  },
});
export const approveDeletions = change('approveDeletions', '/api/deletions/approve', {
  summary: 'Approve exactly the deletions that a digest names',
  request: body(approveRequest),
  responses: { ...answer(schemas.done.approved), ...conflict },
});
export const refetchMany = change('refetchMany', '/api/records/{kind}/refetch', {
  summary: 'Refetch records of a kind',
  request: { ...byKind, ...body(refetchRequest) },
  responses: { ...queued(schemas.done.refetch), ...conflict },
});
export const refetch = change('refetch', '/api/records/{kind}/{id}/refetch', {
  summary: 'Refetch one record',
  request: byRecord,
  responses: { ...queued(schemas.done.refetch), ...conflict },
});
export const releaseQuarantined = change('releaseQuarantined', '/api/quarantine/{id}/release', {
  summary: 'Release a delivery from quarantine',
  request: byRowId,
  responses: { ...answer(schemas.done.released), ...conflict },
});
export const resolveGap = change('resolveGap', '/api/gaps/{id}/resolve', {
  summary: 'Resolve a gap that only a person can end',
  request: byRowId,
  responses: { ...answer(schemas.done.resolved), ...conflict },
});
export const pause = change('pause', '/api/pause', {
  summary: 'Stop processing and repairs; deliveries are still kept',
  responses: answer(schemas.done.paused),
});
export const resume = change('resume', '/api/resume', {
  summary: 'Resume processing and repairs',
  responses: answer(schemas.done.paused),
});
