import { createRoute, type RouteConfig, z } from '@hono/zod-openapi';
import { isUsableId, recordIdOf } from '../../compliance/pointers.ts';
import * as rows from '../../store/report-rows.ts';
import { VIEW_NAMES } from '../../store/reports.ts';
import { idFromPath } from './ids.ts';
import { decision, queries, resolveRequest, rowId, syncRequest } from './query.ts';
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
const byRecord = { params: z.object({ kind: rows.kind, id: id.transform(recordIdOf) }) };

const json = <Schema extends z.ZodType>(schema: Schema) => ({ 'application/json': { schema } });
const body = <Schema extends z.ZodType>(schema: Schema) => ({
  body: { required: !schema.safeParse({}).success, content: json(schema) },
});
const answer = <Schema extends z.ZodType>(schema: Schema, description = 'Done.') => ({
  200: { description, content: json(schema) },
});
const newestFirst = <Schema extends z.ZodType>(schema: Schema) => answer(schema, 'One page, newest first.');

/** RFC 9457; what a status means in general is in RFC 9110. */
const PROBLEM = {
  default: {
    description:
      'A problem: 400 a parameter that `detail` names · 401 no token, or a wrong one · 403 the token’s role · 404 · 409 its state does not allow this · 410 `cursor_expired`: take a snapshot and follow from its `after` · 503 try again.',
    content: { 'application/problem+json': { schema: schemas.problemDetails } },
  },
};
const CSV = {
  'text/csv': { schema: z.string().describe('The items; the header `Link` names the next page.') },
};

type Sort = Pick<RouteConfig, 'method' | 'description' | 'security'>;
type Declared = {
  summary: string;
  request?: NonNullable<RouteConfig['request']>;
  responses: RouteConfig['responses'];
};

/** Returns a function that declares routes of one sort. */
function routesThat<const S extends Sort>(sort: S, isList = false) {
  return <const Path extends string, D extends Declared>(operationId: string, path: Path, declared: D) => {
    const { 200: page } = declared.responses;
    const responses = {
      ...declared.responses,
      ...(isList && page !== undefined && 'content' in page
        ? { 200: { ...page, content: { ...page.content, ...CSV } } }
        : {}),
      ...(sort.security === undefined ? PROBLEM : {}),
    };
    // The types have only the declared answers: problems are thrown, and no typed client asks for CSV.
    const route = { ...sort, path, operationId, ...declared, responses };
    return createRoute<Path, typeof sort & typeof declared & { path: Path; operationId: string }>(route);
  };
}

const READS = { method: 'get', description: 'Takes a token with the role `read`.' } as const;
const open = routesThat({ method: 'get', security: [] });
const read = routesThat(READS);
const readList = routesThat(READS, true);
const change = routesThat({ method: 'post', description: 'Takes a token with the role `operate`.' });

/** Newest first, a page at a time. */
const list = <const Path extends string, Query extends z.ZodObject, Item extends z.ZodType>(
  operationId: string,
  path: Path,
  summary: string,
  query: Query,
  item: Item,
) =>
  readList(operationId, path, { summary, request: { query }, responses: newestFirst(schemas.listOf(item)) });

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
  request: { query: queries.status },
  responses: answer(
    z.union([schemas.status, schemas.statusThen]),
    'The figures of the status page; with `at`, what was so then (404 `not_kept`: before what is kept).',
  ),
});
export const configuration = read('configuration', '/api/configuration', {
  summary: 'What the service runs with, and what it finds of its own set-up',
  responses: answer(schemas.configuration, 'Secrets only as fingerprints, and these only for `operate`.'),
});
export const listDeliveries = readList('listDeliveries', '/api/deliveries', {
  summary: 'All deliveries with their outcome',
  request: { query: queries.deliveries },
  responses: newestFirst(schemas.deliveries),
});
export const showDelivery = read('showDelivery', '/api/deliveries/{id}', {
  summary: 'One delivery with its body',
  request: byId,
  responses: answer(schemas.shownDelivery, 'The delivery.'),
});
export const listRecords = readList('listRecords', '/api/records/{kind}', {
  summary: 'Mirrored records of a kind',
  request: { ...byKind, query: queries.records },
  responses: answer(schemas.listOf(rows.record), 'One page.'),
});
export const listView = readList('listView', '/api/views/{view}', {
  summary: 'The rows of a small table or view, as they are',
  request: { params: z.object({ view: z.enum(VIEW_NAMES) }), query: queries.byPlace },
  responses: answer(schemas.listOf(z.record(z.string(), z.unknown())), 'One page.'),
});
export const showRecord = read('showRecord', '/api/records/{kind}/{id}', {
  summary: 'One record',
  request: byRecord,
  responses: answer(rows.shownRecord, 'The record.'),
});
export const recordHistory = readList('recordHistory', '/api/records/{kind}/{id}/history', {
  summary: 'What changed in one record',
  request: { ...byRecord, query: queries.byNumber },
  responses: newestFirst(schemas.listOf(rows.change)),
});
export const followChanges = readList('followChanges', '/api/changes', {
  summary: 'Every change after a number, oldest first',
  request: { query: queries.changes },
  responses: answer(schemas.feed, 'Changes. `next` always says where to go on.'),
});
export const snapshot = readList('snapshot', '/api/snapshot', {
  summary: 'All rows, and the number from which to follow the changes',
  request: { query: queries.snapshot },
  responses: answer(schemas.snapshot, 'One page, kind after kind, by id; tombstones included.'),
});
export const listProblems = list(
  'listProblems',
  '/api/problems',
  'What keeps a kind from being in sync',
  queries.problems,
  schemas.problem,
);
export const listSyncs = list('listSyncs', '/api/syncs', 'Full syncs', queries.byTime, rows.syncRun);
export const showSync = read('showSync', '/api/syncs/{id}', {
  summary: 'One full sync',
  request: byRowId,
  responses: answer(rows.syncRun, 'The full sync.'),
});
export const listAudit = list('listAudit', '/api/audit', 'Who changed what', queries.byTime, rows.auditEntry);

export const retryDelivery = change('retryDelivery', '/api/deliveries/{id}/retry', {
  summary: 'Process a failed event again, or take a quarantined delivery as an event',
  request: byId,
  responses: answer(schemas.done.retried, 'Done. If it fails again: 409 with the reason.'),
});
export const dismissDelivery = change('dismissDelivery', '/api/deliveries/{id}/dismiss', {
  summary: 'Dismiss a failed event or a quarantined delivery',
  request: byId,
  responses: answer(schemas.done.dismissed),
});
export const startSync = change('startSync', '/api/syncs', {
  summary: 'Read kinds, or records, from the API now',
  request: body(syncRequest),
  responses: { 202: { description: 'Queued.', content: json(schemas.done.sync) } },
});
export const resolveProblem = change('resolveProblem', '/api/problems/{id}/resolve', {
  summary: 'Resolve a problem: accept exactly what it shows, or find the record of its events',
  request: { ...byRowId, ...body(resolveRequest) },
  responses: answer(z.union([schemas.done.resolved, schemas.done.found])),
});
export const approveDeletions = change('approveDeletions', '/api/problems/{id}/approve', {
  summary: 'Let exactly the pending deletions go that a digest names',
  request: { ...byRowId, ...body(decision) },
  responses: answer(schemas.done.approved),
});
export const keepRecords = change('keepRecords', '/api/problems/{id}/keep', {
  summary: 'Refuse exactly the pending deletions that a digest names',
  request: { ...byRowId, ...body(decision) },
  responses: answer(schemas.done.kept),
});
export const pause = change('pause', '/api/pause', {
  summary: 'Stop processing and repairs; deliveries are still kept',
  responses: answer(schemas.done.paused),
});
export const resume = change('resume', '/api/resume', {
  summary: 'Resume processing and repairs',
  responses: answer(schemas.done.paused),
});
export const notifyTest = change('notifyTest', '/api/notify-test', {
  summary: 'Send a test to NOTIFY_URL',
  responses: answer(schemas.done.notified, 'It was taken. If not: 502, and `detail` says why.'),
});
