import { statSync } from 'node:fs';
import type { Kind } from '../../compliance/kinds.ts';
import { drizzleModule } from '../drizzle.ts';
import { EPOCH_FACT } from '../epoch.ts';
import { SELECT_KIND_STATUS } from '../record-rows.ts';
import {
  type ChangeReport,
  type EventReport,
  type EventState,
  type GapReport,
  type HeldDeletionReport,
  type KindStatus,
  type LearnedPointerReport,
  type OpenGaps,
  PAGE_LIMIT_MAX,
  type Paging,
  type QuarantineReport,
  type RecordReport,
  type RejectionReport,
  type ReportStore,
  type SweepReport,
  type TrafficReport,
  type TrimmedChanges,
} from '../reports.ts';
import * as tables from '../schema.sqlite.ts';
import { createBlockSearch } from './blocks.ts';
import type { Connection } from './connection.ts';
import { createEventSearch } from './event-search.ts';
import { createRecordSearch } from './record-search.ts';
import { TRIMMED_CHANGES_FACT } from './retention.ts';

const { and, asc, desc, eq, gt, inArray, isNotNull, isNull, lt } = drizzleModule('drizzle-orm');
const { drizzle } = drizzleModule('drizzle-orm/better-sqlite3');

const limitOf = (paging: Paging) => Math.min(Math.max(1, paging.limit), PAGE_LIMIT_MAX);
/** Above every number, so that a first page is read as the others are: from a bound in the index. */
const NEWEST = Number.MAX_SAFE_INTEGER;
const keyOf = (paging: Paging) => (paging.after === undefined ? NEWEST : Number(paging.after));

const EVENT_STATES: readonly EventState[] = ['pending', 'done', 'ignored', 'dead', 'discarded'];

/** What people ask of the store. Reads only; nothing here is on the way of a delivery. */
export function createReports(connection: Connection): ReportStore {
  const db = drizzle(connection);
  const { events, changes, gaps, sweeps, quarantine, rejections, audit, heldDeletions } = tables;

  const changesOfRecord = createBlockSearch(connection, {
    ...{ table: 'changes', index: 'changes_record', match: 't.kind = ? AND t.record_id = ?' },
  });

  const eventColumns = {
    seq: events.seq,
    id: events.id,
    type: events.type,
    created: events.created,
    kind: events.kind,
    record_id: events.recordId,
    received_at: events.receivedAt,
    deliveries: events.deliveries,
    last_delivered_at: events.lastDeliveredAt,
    state: events.state,
    attempts: events.attempts,
    next_attempt_at: events.nextAttemptAt,
    processed_at: events.processedAt,
    error: events.error,
  };
  const gapColumns = {
    id: gaps.id,
    kind: gaps.kind,
    record_id: gaps.recordId,
    reason: gaps.reason,
    opened_at: gaps.openedAt,
    healed_at: gaps.healedAt,
    attempts: gaps.attempts,
    error: gaps.error,
  };
  const sweepColumns = {
    id: sweeps.id,
    kind: sweeps.kind,
    reason: sweeps.reason,
    started_at: sweeps.startedAt,
    finished_at: sweeps.finishedAt,
    pages: sweeps.pages,
    seen: sweeps.seen,
    inserted: sweeps.inserted,
    updated: sweeps.updated,
    deleted: sweeps.deleted,
    unchanged: sweeps.unchanged,
    outcome: sweeps.outcome,
    error: sweeps.error,
    drift: sweeps.drift,
  };
  const quarantineColumns = {
    id: quarantine.id,
    received_at: quarantine.receivedAt,
    reason: quarantine.reason,
    t: quarantine.t,
    body_sha256: quarantine.bodySha256,
    released_at: quarantine.releasedAt,
  };

  const rejectionColumns = {
    id: rejections.id,
    at: rejections.at,
    reason: rejections.reason,
    t: rejections.t,
    bytes: rejections.bytes,
    body_sha256: rejections.bodySha256,
    header: rejections.header,
    address: rejections.address,
    times: rejections.times,
  };

  const countEvents = connection.prepare('SELECT state, count FROM event_counts');
  const oldestPending = connection
    .prepare("SELECT received_at FROM events WHERE state = 'pending' ORDER BY seq LIMIT 1")
    .pluck();
  const lastDelivery = connection
    .prepare(
      'SELECT max(last_delivered_at) FROM (SELECT last_delivered_at FROM events ORDER BY seq DESC LIMIT 1000)',
    )
    .pluck();
  const countQuarantined = connection.prepare('SELECT waiting FROM quarantine_count').pluck();
  const openGaps = connection.prepare(
    `SELECT reason, nullif(kind, '') AS kind, open AS count,
       (SELECT opened_at FROM gaps g INDEXED BY gaps_open_oldest
         WHERE healed_at IS NULL AND g.reason = c.reason AND g.kind IS nullif(c.kind, '') ORDER BY g.id LIMIT 1) AS oldest_at
     FROM gap_counts c WHERE open > 0 ORDER BY reason, kind`,
  );
  const learned = connection.prepare(
    'SELECT kind, path, event_id, record_id, learned_at, used FROM learned_pointers ORDER BY kind, path',
  );
  const countHealed = connection
    .prepare("SELECT count(*) FROM gaps WHERE healed_at >= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 day')")
    .pluck();
  const countOpened = connection.prepare(
    'SELECT reason, sum(opened) AS count FROM gap_counts GROUP BY reason',
  );
  const kindStatus = connection.prepare(SELECT_KIND_STATUS);
  const listTraffic = connection.prepare(
    'SELECT minute, what, times, total_ms, max_ms FROM traffic WHERE minute >= ? ORDER BY minute, what',
  );
  const readFact = connection.prepare('SELECT value FROM facts WHERE name = ?').pluck();
  const readCounter = connection.prepare('SELECT value FROM counter').pluck();
  const searchEvents = createEventSearch(connection);
  const searchRecords = createRecordSearch(connection);

  return {
    async summary() {
      const counts = new Map(
        (countEvents.all() as { state: EventState; count: number }[]).map((row) => [row.state, row.count]),
      );
      const gapGroups = openGaps.all() as OpenGaps[];
      return {
        kinds: kindStatus.all() as KindStatus[],
        events: Object.fromEntries(EVENT_STATES.map((state) => [state, counts.get(state) ?? 0])) as Record<
          EventState,
          number
        >,
        oldest_pending_at: (oldestPending.get() as string | undefined) ?? null,
        last_delivery_at: lastDelivery.get() as string | null,
        quarantined: countQuarantined.get() as number,
        open_gaps: gapGroups.reduce((sum, one) => sum + one.count, 0),
        open_gaps_by: gapGroups,
        healed_gaps_last_day: countHealed.get() as number,
        learned_pointers: (learned.all() as (Omit<LearnedPointerReport, 'used'> & { used: number })[]).map(
          (one) => ({
            ...one,
            used: Boolean(one.used),
          }),
        ),
        database_bytes: sizeOf(connection.name),
        wal_bytes: sizeOf(`${connection.name}-wal`),
      };
    },

    async listEvents(filter, paging) {
      return searchEvents(filter, paging);
    },

    async showEvent(id) {
      const row = db
        .select({ ...eventColumns, body: events.body })
        .from(events)
        .where(eq(events.id, id))
        .get();
      return (row as EventReport | undefined) ?? null;
    },

    async listRecords(kind, filter, paging) {
      return searchRecords(kind, filter, paging);
    },

    async showRecord(kind, id) {
      const table = tableOf(kind);
      const row = db.select().from(table).where(eq(table.id, id)).get();
      return row === undefined ? null : recordReport(row);
    },

    async recordHistory(kind, id, paging) {
      const seqs = changesOfRecord([kind, id], keyOf(paging), limitOf(paging));
      const rows = db
        .select()
        .from(changes)
        .where(inArray(changes.seq, seqs))
        .orderBy(desc(changes.seq))
        .all();
      return rows.map(changeReport);
    },

    async listChanges(after, limit) {
      const rows = db
        .select()
        .from(changes)
        .where(gt(changes.seq, after))
        .orderBy(asc(changes.seq))
        .limit(limitOf({ limit }))
        .all();
      return rows.map(changeReport);
    },

    async trimmedChanges() {
      const text = readFact.get(TRIMMED_CHANGES_FACT) as string | undefined;
      return text === undefined ? null : (JSON.parse(text) as TrimmedChanges);
    },

    async epoch() {
      return readFact.get(EPOCH_FACT) as string;
    },

    async snapshotRecords(kind, paging) {
      // The counter first: what is committed between the two is in the rows as well as behind `seq`.
      const seq = readCounter.get() as number;
      return { seq, records: searchRecords(kind, {}, paging) };
    },

    async countGapsOpened() {
      return countOpened.all() as { reason: string; count: number }[];
    },

    async listGaps(filter, paging) {
      const after = keyOf(paging);
      return db
        .select(gapColumns)
        .from(gaps)
        .where(
          and(
            filter.open === undefined
              ? undefined
              : filter.open
                ? isNull(gaps.healedAt)
                : isNotNull(gaps.healedAt),
            lt(gaps.id, after),
          ),
        )
        .orderBy(desc(gaps.id))
        .limit(limitOf(paging))
        .all() as GapReport[];
    },

    async listSweeps(paging) {
      const after = keyOf(paging);
      return db
        .select(sweepColumns)
        .from(sweeps)
        .where(lt(sweeps.id, after))
        .orderBy(desc(sweeps.id))
        .limit(limitOf(paging))
        .all()
        .map(sweepReport);
    },

    async showSweep(id) {
      const row = db.select(sweepColumns).from(sweeps).where(eq(sweeps.id, id)).get();
      return row === undefined ? null : sweepReport(row);
    },

    async listQuarantine(paging) {
      const after = keyOf(paging);
      const rows = db
        .select(quarantineColumns)
        .from(quarantine)
        .where(lt(quarantine.id, after))
        .orderBy(desc(quarantine.id))
        .limit(limitOf(paging))
        .all();
      return rows.map((row): QuarantineReport => ({ ...row, ...bodyOf(null) }));
    },

    async showQuarantined(id) {
      const row = db
        .select({ ...quarantineColumns, body: quarantine.body })
        .from(quarantine)
        .where(eq(quarantine.id, id))
        .get();
      return row === undefined ? null : { ...row, ...bodyOf(row.body) };
    },

    async readQuarantinedBody(id) {
      const row = db.select({ body: quarantine.body }).from(quarantine).where(eq(quarantine.id, id)).get();
      return row?.body ?? null;
    },

    async listHeldDeletions(sweepId, paging) {
      return db
        .select({
          kind: heldDeletions.kind,
          id: heldDeletions.id,
          held_at: heldDeletions.heldAt,
          consent_until: heldDeletions.consentUntil,
        })
        .from(heldDeletions)
        .where(and(eq(heldDeletions.sweepId, sweepId), gt(heldDeletions.id, paging.after ?? '')))
        .orderBy(asc(heldDeletions.id))
        .limit(limitOf(paging))
        .all() as HeldDeletionReport[];
    },

    async listTraffic(since) {
      return listTraffic.all(new Date(since).toISOString()) as TrafficReport[];
    },

    async listRejections(paging) {
      const after = keyOf(paging);
      const rows = db
        .select(rejectionColumns)
        .from(rejections)
        .where(lt(rejections.id, after))
        .orderBy(desc(rejections.id))
        .limit(limitOf(paging))
        .all();
      return rows.map((row): RejectionReport => ({ ...row, ...bodyOf(null) }));
    },

    async showRejection(id) {
      const row = db
        .select({ ...rejectionColumns, body: rejections.body })
        .from(rejections)
        .where(eq(rejections.id, id))
        .get();
      return row === undefined ? null : { ...row, ...bodyOf(row.body) };
    },

    async listAudit(paging) {
      const after = keyOf(paging);
      return db
        .select({
          id: audit.id,
          at: audit.at,
          actor: audit.actor,
          action: audit.action,
          outcome: audit.outcome,
          target: audit.target,
        })
        .from(audit)
        .where(lt(audit.id, after))
        .orderBy(desc(audit.id))
        .limit(limitOf(paging))
        .all();
    },
  };
}

/** Twice: to be read, and whole. */
function bodyOf(bytes: Buffer | null): { body: string | null; body_base64: string | null } {
  return { body: bytes?.toString('utf8') ?? null, body_base64: bytes?.toString('base64') ?? null };
}

function tableOf(kind: Kind) {
  // The three tables share every column that is read here; policies add `version`.
  if (kind === 'policy') return tables.policies;
  return (kind === 'vendor' ? tables.vendors : tables.riskAssessments) as unknown as typeof tables.policies;
}

function recordReport(row: typeof tables.policies.$inferSelect): RecordReport {
  return {
    id: row.id,
    name: row.name,
    ...('version' in row ? { version: row.version } : {}),
    status: row.status,
    data: JSON.parse(row.data) as RecordReport['data'],
    first_seen_at: row.firstSeenAt,
    synced_at: row.syncedAt,
    verified_at: row.verifiedAt,
    unverified_since: row.unverifiedSince,
    deleted_at: row.deletedAt,
    last_event_id: row.lastEventId,
    last_event_at: row.lastEventAt,
    cause: row.cause,
  };
}

function changeReport(row: typeof tables.changes.$inferSelect): ChangeReport {
  return {
    seq: row.seq,
    kind: row.kind as Kind,
    record_id: row.recordId,
    operation: row.operation as ChangeReport['operation'],
    before: JSON.parse(row.before) as ChangeReport['before'],
    after: JSON.parse(row.after) as ChangeReport['after'],
    cause: row.cause,
    at: row.at,
  };
}

function sweepReport(
  row: Omit<SweepReport, 'kind' | 'drift'> & { kind: string; drift: string | null },
): SweepReport {
  const drift = row.drift === null ? null : (JSON.parse(row.drift) as SweepReport['drift']);
  return { ...row, kind: row.kind as Kind, drift };
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
