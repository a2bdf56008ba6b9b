import type { Kind } from '../../compliance/kinds.ts';
import type { Database, Sql } from '../database.ts';
import type { SQL } from '../drizzle.ts';
import {
  type AuditReport,
  type ChangeReport,
  type EventReport,
  type EventState,
  type GapReport,
  type KindStatus,
  type LearnedPointerReport,
  type OpenGaps,
  type Paging,
  type PendingDeletionReport,
  type Period,
  type QuarantineReport,
  type RecordReport,
  type RejectionReport,
  type ReportStore,
  recordColumns,
  type StoreSummary,
  type SyncRunReport,
  type TrafficReport,
  type TrimmedChanges,
} from '../reports.ts';
import * as tables from '../schema.ts';
import { EVENT_COLUMNS, type EventsOfRecord, searchDeliveries, searchEvents } from './delivery-search.ts';
import { readFact } from './facts.ts';
import { recordsById, searchRecords, statusesOf } from './record-search.ts';
import { TABLE_OF } from './records.ts';
import { EPOCH_FACT } from './restored.ts';
import { TRIMMED_CHANGES_FACT } from './retention.ts';
import { allOf, as, beforeOf, iso, limitOf, one, sql } from './sql.ts';
import { firstSince, isWithin, type Numbered, numberAt } from './walk.ts';

/** What each engine finds by ways of its own. */
export interface Finders {
  eventsOfRecord: EventsOfRecord;
  /** Numbers of one record's changes, newest first. */
  changesOfRecord(kind: Kind, id: string, before: number, limit: number): Promise<number[]>;
  /** The same above `after`, oldest first. */
  changesAfter(kind: Kind, id: string, after: number, limit: number): Promise<number[]>;
  sizes(to: Sql): Promise<Pick<StoreSummary, 'database_bytes' | 'wal_bytes'>>;
}

const EVENT_STATES: readonly EventState[] = ['pending', 'processed', 'ignored', 'failed', 'discarded'];
const DAY_MS = 86_400_000;

const { audit, changes, events, gaps, pendingDeletions, quarantine, rejections, syncRuns, traffic } = tables;
const { policies, riskAssessments: assessments, vendors } = tables;
const CHANGE_COLUMNS = sql.raw('seq, kind, record_id, operation, before, after, cause, at');
const GAP_COLUMNS = sql.raw('id, kind, record_id, reason, opened_at, resolved_at, attempts, error');
const SYNC_RUN_COLUMNS = sql.raw(
  'id, kind, reason, started_at, finished_at, pages, seen, inserted, updated, deleted, unchanged, outcome, error, differences',
);
const QUARANTINE_COLUMNS = sql.raw('id, received_at, reason, t, body_sha256, released_at, address');
const REJECTION_COLUMNS = sql.raw('id, at, reason, t, bytes, body_sha256, header, address, times');
const AUDIT_COLUMNS = sql.raw('id, at, actor, action, outcome, target');
/** Lists of a period are found by these. */
const BY_TIME = {
  audit: { table: audit, number: audit.id, time: audit.at },
  changes: { table: changes, number: changes.seq, time: changes.at },
  gaps: { table: gaps, number: gaps.id, time: gaps.openedAt },
  quarantine: { table: quarantine, number: quarantine.id, time: quarantine.receivedAt },
  rejections: { table: rejections, number: rejections.id, time: rejections.at },
  syncRuns: { table: syncRuns, number: syncRuns.id, time: syncRuns.startedAt },
} satisfies Record<string, Numbered>;
/** `verified` is recomputed from the rows: the view's figure leaves out what no read can verify. */
const SELECT_KIND_STATUS = sql`SELECT s.*,
  s.records - (SELECT c.unverified FROM record_counts c WHERE c.kind = s.kind) AS verified FROM sync_status s`;
const NO_BODY = sql`NULL AS body, NULL AS body_base64`;

/** What people ask of the store. Reads only; nothing here is on the way of a delivery. */
export function createReports(
  { sql: statements, atOneMoment, currentNumber }: Database,
  finders: Finders,
): ReportStore {
  const { query, dialect } = statements;

  /** Newest first: a page of the rows of a period that fulfil `condition`. */
  async function newest<Row>(selected: SQL, rows: Numbered, paging: Paging & Period, ...condition: SQL[]) {
    const { table, number, time } = rows;
    const from = paging.since === undefined ? 0 : await firstSince(statements, rows, paging.since);
    const before = Math.min(beforeOf(paging), await numberAt(statements, rows, paging.until));
    const conditions = [
      sql`${number} < ${before}`,
      ...(from === 0 ? [] : [sql`${number} >= ${from}`]),
      ...isWithin(statements, time, paging),
      ...condition,
    ];
    return await query<Row>(
      sql`SELECT ${selected} FROM ${table} WHERE ${allOf(conditions)} ORDER BY ${number} DESC LIMIT ${limitOf(paging)}`,
    );
  }

  /** Columns of JSON, as the engine hands them out. */
  const withJson =
    <Row extends object>(...names: (keyof Row)[]) =>
    (row: Row): Row => ({
      ...row,
      ...Object.fromEntries(names.map((name) => [name, dialect.fromJson(row[name])])),
    });
  const changeReport = withJson<ChangeReport>('before', 'after');
  const syncRunReport = withJson<SyncRunReport>('differences');

  const changesWhere = async (condition: SQL) =>
    (await query<ChangeReport>(sql`SELECT ${CHANGE_COLUMNS} FROM ${changes} WHERE ${condition}`)).map(
      changeReport,
    );

  return {
    summary: () => atOneMoment((to) => summaryOf(to, finders)),

    listDeliveries: (filter, paging) => searchDeliveries(statements, finders.eventsOfRecord, filter, paging),

    listEvents: (filter, paging) => searchEvents(statements, finders.eventsOfRecord, filter, paging),

    showEvent: (id) =>
      one<EventReport>(
        statements,
        sql`SELECT ${EVENT_COLUMNS}, ${events.body} FROM ${events} WHERE ${events.id} = ${id}`,
      ),

    listRecords: (kind, filter, paging) => searchRecords(statements, kind, filter, paging),
    listStatuses: (kind) => statusesOf(statements, kind),

    async showRecord(kind, id) {
      const row = await one<RecordReport>(
        statements,
        sql`SELECT ${sql.raw(recordColumns(kind).join(', '))} FROM ${TABLE_OF[kind]} WHERE id = ${id}`,
      );
      return row === null ? null : withJson<RecordReport>('data')(row);
    },

    async recordHistory(kind, id, paging) {
      const found = await finders.changesOfRecord(kind, id, beforeOf(paging), limitOf(paging));
      return await changesWhere(sql`${dialect.isAmong(changes.seq, found)} ORDER BY ${changes.seq} DESC`);
    },

    async recordChangesAfter(kind, id, after, limit) {
      const found = await finders.changesAfter(kind, id, after, limitOf({ limit }));
      return await changesWhere(sql`${dialect.isAmong(changes.seq, found)} ORDER BY ${changes.seq}`);
    },

    listChanges: (after, limit) =>
      changesWhere(sql`${changes.seq} > ${after} ORDER BY ${changes.seq} LIMIT ${limitOf({ limit })}`),

    async changesBefore(instant) {
      return (await firstSince(statements, BY_TIME.changes, instant)) - 1;
    },

    async trimmedChanges() {
      const text = await readFact(statements, TRIMMED_CHANGES_FACT);
      return text === null ? null : (JSON.parse(text) as TrimmedChanges);
    },

    async epoch() {
      return (await readFact(statements, EPOCH_FACT)) ?? '';
    },

    async snapshotRecords(kind, paging) {
      // The counter first: what is committed between the two is in the rows as well as behind `seq`.
      const seq = await currentNumber();
      return { seq, records: await recordsById(statements, kind, paging) };
    },

    countGapsOpened: () =>
      query<{ reason: string; count: number }>(
        sql`SELECT reason, sum(opened) AS count FROM gap_counts GROUP BY reason ORDER BY reason`,
      ),

    listGaps({ open, ...period }, paging) {
      const isOpen = sql`${gaps.resolvedAt} IS ${sql.raw(open ? 'NULL' : 'NOT NULL')}`;
      const condition = open === undefined ? [] : [isOpen];
      return newest<GapReport>(GAP_COLUMNS, BY_TIME.gaps, { ...period, ...paging }, ...condition);
    },

    async listSyncRuns(paging) {
      return (await newest<SyncRunReport>(SYNC_RUN_COLUMNS, BY_TIME.syncRuns, paging)).map(syncRunReport);
    },

    async showSyncRun(id) {
      const row = await one<SyncRunReport>(
        statements,
        sql`SELECT ${SYNC_RUN_COLUMNS} FROM ${syncRuns} WHERE ${syncRuns.id} = ${id}`,
      );
      return row === null ? null : syncRunReport(row);
    },

    listQuarantine: (paging) =>
      newest<QuarantineReport>(sql`${QUARANTINE_COLUMNS}, ${NO_BODY}`, BY_TIME.quarantine, paging),

    async showQuarantined(id) {
      const row = await one<WithBytes<QuarantineReport>>(
        statements,
        sql`SELECT ${QUARANTINE_COLUMNS}, ${quarantine.body} FROM ${quarantine} WHERE ${quarantine.id} = ${id}`,
      );
      return row === null ? null : withBody(row);
    },

    listPendingDeletions(filter, paging) {
      const { kind, id, syncRunId } = pendingDeletions;
      const after = paging.after ?? '';
      const slash = after.indexOf('/');
      const [afterKind, afterId] = [after.slice(0, Math.max(0, slash)), after.slice(slash + 1)];
      // One sync run is of one kind: its index is in the order of the ids.
      const [where, order] =
        filter.syncRunId === undefined
          ? [sql`(${kind}, ${id}) > (${afterKind}, ${afterId})`, sql`${kind}, ${id}`]
          : [sql`${syncRunId} = ${filter.syncRunId} AND ${id} > ${afterId}`, sql`${id}`];
      return query<PendingDeletionReport>(
        sql`SELECT ${as({ kind, id })}, sync_run_id, pending_since, approved_until,
            coalesce(${policies.name}, ${assessments.name}, ${vendors.name}) AS name,
            coalesce(${policies.status}, ${assessments.status}, ${vendors.status}) AS status,
            coalesce(${policies.syncedAt}, ${assessments.syncedAt}, ${vendors.syncedAt}) AS synced_at
          FROM ${pendingDeletions}
          LEFT JOIN ${policies} ON ${kind} = 'policy' AND ${policies.id} = ${id}
          LEFT JOIN ${assessments} ON ${kind} = 'risk_assessment' AND ${assessments.id} = ${id}
          LEFT JOIN ${vendors} ON ${kind} = 'vendor' AND ${vendors.id} = ${id}
          WHERE ${where} ORDER BY ${order} LIMIT ${limitOf(paging)}`,
      );
    },

    listTraffic(since, step = 'minute') {
      const { minute, what, times, totalMs, maxMs } = traffic;
      if (step === 'hour') {
        return query<TrafficReport>(
          sql`SELECT ${statements.dialect.hourOf(minute)} AS minute, ${what}, CAST(sum(${times}) AS bigint) AS times,
              CAST(sum(${totalMs}) AS bigint) AS total_ms, max(${maxMs}) AS max_ms
            FROM ${traffic} WHERE ${minute} >= ${iso(since)} GROUP BY 1, ${what} ORDER BY 1, ${what}`,
        );
      }
      return query<TrafficReport>(
        sql`SELECT minute, what, times, total_ms, max_ms FROM ${traffic}
          WHERE ${minute} >= ${iso(since)} ORDER BY ${minute}, ${what}`,
      );
    },

    listRejections: (paging) =>
      newest<RejectionReport>(sql`${REJECTION_COLUMNS}, ${NO_BODY}`, BY_TIME.rejections, paging),

    async showRejection(id) {
      const row = await one<WithBytes<RejectionReport>>(
        statements,
        sql`SELECT ${REJECTION_COLUMNS}, ${rejections.body} FROM ${rejections} WHERE ${rejections.id} = ${id}`,
      );
      return row === null ? null : withBody(row);
    },

    listAudit: (paging) => newest<AuditReport>(AUDIT_COLUMNS, BY_TIME.audit, paging),
  };
}

type WithBytes<Report> = Omit<Report, 'body' | 'body_base64'> & { body: Buffer | null };

/** Twice: to be read, and whole. */
function withBody<Row extends { body: Buffer | null }>(row: Row) {
  const { body } = row;
  return { ...row, body: body?.toString('utf8') ?? null, body_base64: body?.toString('base64') ?? null };
}

async function summaryOf(to: Sql, finders: Finders): Promise<StoreSummary> {
  const { query, dialect } = to;
  const counts = await query<{ state: EventState; count: number }>(
    sql`SELECT state, count FROM event_counts`,
  );
  const byState = new Map(counts.map((row) => [row.state, row.count]));
  const oldest = (isOfKind: SQL) =>
    sql`(SELECT opened_at FROM gaps g${dialect.indexedBy('gaps_open_oldest')}
      WHERE resolved_at IS NULL AND g.reason = c.reason AND ${isOfKind} ORDER BY g.id LIMIT 1)`;
  const openGaps = await query<OpenGaps>(
    sql`SELECT c.reason, nullif(c.kind, '') AS kind, c.open AS count,
        coalesce(${oldest(sql`g.kind = c.kind`)}, ${oldest(sql`g.kind IS NULL AND c.kind = ''`)}) AS oldest_at
      FROM gap_counts c WHERE c.open > 0 ORDER BY c.reason, c.kind`,
  );
  const [rest] = await query<
    Pick<StoreSummary, 'oldest_pending_at' | 'last_delivery_at' | 'quarantined' | 'resolved_gaps_last_day'>
  >(
    sql`SELECT (SELECT received_at FROM events WHERE state = 'pending' ORDER BY seq LIMIT 1) AS oldest_pending_at,
        (SELECT max(last_delivered_at) FROM (SELECT last_delivered_at FROM events ORDER BY seq DESC LIMIT 1000) AS newest)
          AS last_delivery_at,
        (SELECT waiting FROM quarantine_count) AS quarantined,
        (SELECT count(*) FROM gaps WHERE resolved_at >= ${iso(Date.now() - DAY_MS)}) AS resolved_gaps_last_day`,
  );
  const learned = await query<LearnedPointerReport>(
    sql`SELECT kind, path, event_id, record_id, learned_at, used FROM learned_pointers ORDER BY kind, path`,
  );
  const { resolved_gaps_last_day, ...waiting } = rest!;
  return {
    kinds: await query<KindStatus>(SELECT_KIND_STATUS),
    events: Object.fromEntries(EVENT_STATES.map((state) => [state, byState.get(state) ?? 0])) as Record<
      EventState,
      number
    >,
    ...waiting,
    open_gaps: openGaps.reduce((sum, each) => sum + each.count, 0),
    open_gaps_by: openGaps,
    resolved_gaps_last_day,
    learned_pointers: learned.map((each) => ({ ...each, used: Boolean(each.used) })),
    ...(await finders.sizes(to)),
  };
}
