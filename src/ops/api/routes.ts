import { z } from 'zod';
import { KINDS } from '../../compliance/kinds.ts';
import { approveRequest, queries, retryRequest, syncRequest } from './query.ts';
import * as schemas from './schemas.ts';

export interface DescribedRoute {
  method: 'get' | 'post';
  path: string;
  id: string;
  summary: string;
  /** Absent: open to anyone. `read`: either role. */
  role?: 'read' | 'operate';
  params?: Readonly<Record<string, z.ZodType>>;
  query?: z.ZodObject;
  body?: z.ZodType;
  /** Answers by status; `text` is no JSON. */
  answers: Readonly<Record<number, { what: string; schema: z.ZodType | 'text' }>>;
  /** Statuses of problems besides those that every route has. */
  problems?: readonly number[];
}

const kind = z.enum(KINDS);
const id = z.string().describe('Any text, percent-encoded.');
const rowId = z.int().min(1);

const answer = (schema: z.ZodType | 'text', what = 'Done.', status = 200) => ({ [status]: { what, schema } });
const queued = (schema: z.ZodType) => answer(schema, 'Queued.', 202);
const list = (item: z.ZodType) => answer(schemas.listOf(item), 'One page, newest first.');

const read = (
  path: string,
  name: string,
  summary: string,
  rest: Omit<DescribedRoute, 'method' | 'path' | 'id' | 'summary' | 'role'>,
): DescribedRoute => ({ method: 'get', path, id: name, summary, role: 'read', ...rest });
const change = (
  path: string,
  name: string,
  summary: string,
  rest: Omit<DescribedRoute, 'method' | 'path' | 'id' | 'summary' | 'role'>,
): DescribedRoute => ({ method: 'post', path, id: name, summary, role: 'operate', ...rest });

/** Every route of the operators' listener that is for programs. A test compares it with the URL map. */
export const DESCRIBED_ROUTES: readonly DescribedRoute[] = [
  {
    ...{ method: 'get', path: '/livez', id: 'livez', summary: 'The process lives' },
    answers: answer(schemas.live, 'It does.'),
  },
  {
    ...{ method: 'get', path: '/readyz', id: 'readyz', summary: 'The service can take deliveries' },
    answers: { ...answer(schemas.ready, 'It can.'), ...answer(schemas.ready, 'It cannot now.', 503) },
  },
  read('/metrics', 'metrics', 'Figures for Prometheus', {
    answers: answer('text', 'The text format that Prometheus reads.'),
  }),
  read('/openapi.json', 'openapi', 'This document', { answers: answer(z.looseObject({}), 'It.') }),

  read('/api/status', 'status', 'Whether the mirror is in sync, and if not, why', {
    answers: answer(schemas.status, 'The figures of the status page.'),
  }),
  read('/api/events', 'listEvents', 'Accepted events', {
    query: queries.events,
    answers: answer(schemas.events, 'One page, newest first.'),
  }),
  read('/api/events/{id}', 'showEvent', 'One event with its body', {
    params: { id },
    answers: answer(schemas.event, 'The event.'),
    problems: [404],
  }),
  read('/api/records/{kind}', 'listRecords', 'Mirrored records of a kind', {
    params: { kind },
    query: queries.records,
    answers: answer(schemas.listOf(schemas.record), 'One page, by id.'),
    problems: [404],
  }),
  read('/api/records/{kind}/{id}', 'showRecord', 'One record', {
    params: { kind, id },
    answers: answer(schemas.record, 'The record.'),
    problems: [404],
  }),
  read('/api/records/{kind}/{id}/history', 'recordHistory', 'What changed in one record', {
    params: { kind, id },
    query: queries.byNumber,
    answers: list(schemas.change),
    problems: [404],
  }),
  read('/api/changes', 'followChanges', 'Every change after a number, oldest first', {
    query: queries.changes,
    answers: answer(schemas.feed, 'Changes; `next` is where to go on, always.'),
    problems: [410],
  }),
  read('/api/snapshot', 'snapshot', 'All rows, and the number from which to follow the changes', {
    query: queries.snapshot,
    answers: answer(schemas.snapshot, 'One page, kind after kind, by id; tombstones included.'),
    problems: [410],
  }),
  read('/api/gaps', 'listGaps', 'What may have been missed', {
    query: queries.gaps,
    answers: list(schemas.gap),
  }),
  read('/api/sync-runs', 'listSyncRuns', 'Sync runs', {
    query: queries.byNumber,
    answers: list(schemas.fullSync),
  }),
  read('/api/sync-runs/{id}', 'showSyncRun', 'One full sync', {
    params: { id: rowId },
    answers: answer(schemas.fullSync, 'The full sync.'),
    problems: [404],
  }),
  read('/api/deletions', 'listPendingDeletions', 'Deletions that wait for a person', {
    query: queries.deletions,
    answers: answer(schemas.deletions, 'One page, by kind and id.'),
  }),
  read('/api/quarantine', 'listQuarantine', 'Signed deliveries that no event could be made of', {
    query: queries.byNumber,
    answers: list(schemas.quarantined),
  }),
  read('/api/quarantine/{id}', 'showQuarantined', 'One of them with its body', {
    params: { id: rowId },
    answers: answer(schemas.quarantined, 'The delivery.'),
    problems: [404],
  }),
  read(
    '/api/rejections',
    'listRejections',
    'Deliveries that were rejected, newest first: of each reason, sender and minute the first and the newest',
    {
      query: queries.byNumber,
      answers: list(schemas.rejection),
    },
  ),
  read('/api/rejections/{id}', 'showRejection', 'One of them with its body', {
    params: { id: rowId },
    answers: answer(schemas.rejection, 'The delivery.'),
    problems: [404],
  }),
  read('/api/audit', 'listAudit', 'Who changed what', {
    query: queries.byNumber,
    answers: list(schemas.auditEntry),
  }),

  change('/api/events/retry', 'retryEvents', 'Read all failed events anew that name no record', {
    body: retryRequest,
    answers: answer(schemas.done.retriedAll, 'What came of them.'),
  }),
  change('/api/events/{id}/retry', 'retryEvent', 'Read a failed event anew and process it', {
    params: { id },
    answers: answer(schemas.done.retried, 'It is processed. Where it fails again: 409 with the reason.'),
    problems: [404, 409],
  }),
  change('/api/events/{id}/discard', 'discardEvent', 'Give an event up', {
    params: { id },
    answers: answer(schemas.done.discarded),
    problems: [404, 409],
  }),
  change('/api/sync-runs', 'startSyncRun', 'Compare whole kinds with the API, now', {
    body: syncRequest,
    answers: queued(schemas.done.fullSync),
    problems: [409],
  }),
  change('/api/deletions/approve', 'approveDeletions', 'Approve exactly the deletions that a digest names', {
    body: approveRequest,
    answers: answer(schemas.done.approved),
    problems: [409],
  }),
  change('/api/records/{kind}/{id}/refetch', 'refetch', 'Read one record again', {
    params: { kind, id },
    answers: queued(schemas.done.refetch),
    problems: [404, 409],
  }),
  change('/api/quarantine/{id}/release', 'releaseQuarantined', 'Mark a delivery as seen to', {
    params: { id: rowId },
    answers: answer(schemas.done.released),
    problems: [404, 409],
  }),
  change(
    '/api/gaps/{id}/resolve',
    'resolveGap',
    'Say of a gap that only a person can end that nothing is missing',
    {
      params: { id: rowId },
      answers: answer(schemas.done.resolved),
      problems: [404, 409],
    },
  ),
  change('/api/pause', 'pause', 'Stop processing and repairs; deliveries are still kept', {
    answers: answer(schemas.done.paused),
  }),
  change('/api/resume', 'resume', 'Go on', { answers: answer(schemas.done.paused) }),
];
