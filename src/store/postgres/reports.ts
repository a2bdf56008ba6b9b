import { EPOCH_FACT } from '../epoch.ts';
import { recordColumns, SELECT_KIND_STATUS, TABLES } from '../record-rows.ts';
import {
  type AuditReport,
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
import type { Database, Sql } from './connection.ts';
import { EVENT_COLUMNS, searchEvents } from './event-search.ts';
import { readFact } from './facts.ts';
import { searchRecords } from './record-search.ts';
import { TRIMMED_CHANGES_FACT } from './retention.ts';
import { instantOf } from './types.ts';

const limitOf = (paging: Paging) => Math.min(Math.max(1, paging.limit), PAGE_LIMIT_MAX);
/** Above every number, so that a first page is read as the others are: from a bound in the index. */
const NEWEST = Number.MAX_SAFE_INTEGER;
const keyOf = (paging: Paging) => (paging.after === undefined ? NEWEST : Number(paging.after));

const EVENT_STATES: readonly EventState[] = ['pending', 'done', 'ignored', 'dead', 'discarded'];

const CHANGE_COLUMNS = 'seq, kind, record_id, operation, before, after, cause, at';
const SWEEP_COLUMNS =
  'id, kind, reason, started_at, finished_at, pages, seen, inserted, updated, deleted, unchanged, outcome, error, drift';
const REJECTION_COLUMNS = 'id, at, reason, t, bytes, body_sha256, header, address, times';
const QUARANTINE_COLUMNS = 'id, received_at, reason, t, body_sha256, released_at';

/** What people ask of the store. Reads only; nothing here is on the way of a delivery. */
export function createReports({ sql }: Database): ReportStore {
  return {
    async summary() {
      return await summaryOf(sql);
    },

    async listEvents(filter, paging) {
      return await searchEvents(sql, filter, paging);
    },

    async showEvent(id) {
      return await one<EventReport>(sql, `SELECT ${EVENT_COLUMNS}, body FROM events WHERE id = $1`, id);
    },

    async listRecords(kind, filter, paging) {
      return await searchRecords(sql, kind, filter, paging);
    },

    async showRecord(kind, id) {
      return await one<RecordReport>(
        sql,
        `SELECT ${recordColumns(kind)} FROM ${TABLES[kind]} WHERE id = $1`,
        id,
      );
    },

    async recordHistory(kind, id, paging) {
      return await sql.query<ChangeReport>(
        `SELECT ${CHANGE_COLUMNS} FROM changes WHERE kind = $1 AND record_id = $2 AND seq < $3 ORDER BY seq DESC LIMIT $4`,
        [kind, id, keyOf(paging), limitOf(paging)],
      );
    },

    async listChanges(after, limit) {
      return await sql.query<ChangeReport>(
        `SELECT ${CHANGE_COLUMNS} FROM changes WHERE seq > $1 ORDER BY seq LIMIT $2`,
        [after, limitOf({ limit })],
      );
    },

    async trimmedChanges() {
      const text = await readFact(sql, TRIMMED_CHANGES_FACT);
      return text === null ? null : (JSON.parse(text) as TrimmedChanges);
    },

    async epoch() {
      return (await readFact(sql, EPOCH_FACT)) ?? '';
    },

    async snapshotRecords(kind, paging) {
      // The counter first: what is committed between the two is in the rows as well as behind `seq`.
      const [row] = await sql.query<{ value: number }>('SELECT value FROM counter WHERE one = 1');
      return { seq: row?.value ?? 0, records: await searchRecords(sql, kind, {}, paging) };
    },

    async countGapsOpened() {
      return await sql.query<{ reason: string; count: number }>(
        'SELECT reason, sum(opened) AS count FROM gap_counts GROUP BY reason ORDER BY reason',
      );
    },

    async listGaps({ open }, paging) {
      const state = open === undefined ? '' : ` AND healed_at IS ${open ? 'NULL' : 'NOT NULL'}`;
      return await sql.query<GapReport>(
        `SELECT id, kind, record_id, reason, opened_at, healed_at, attempts, error FROM gaps WHERE id < $1${state}
         ORDER BY id DESC LIMIT $2`,
        [keyOf(paging), limitOf(paging)],
      );
    },

    async listSweeps(paging) {
      return await newest<SweepReport>(sql, `SELECT ${SWEEP_COLUMNS} FROM sweeps`, paging);
    },

    async showSweep(id) {
      return await one<SweepReport>(sql, `SELECT ${SWEEP_COLUMNS} FROM sweeps WHERE id = $1`, id);
    },

    async listQuarantine(paging) {
      return await newest<QuarantineReport>(
        sql,
        `SELECT ${QUARANTINE_COLUMNS}, NULL AS body, NULL AS body_base64 FROM quarantine`,
        paging,
      );
    },

    async showQuarantined(id) {
      const row = await one<WithBytes<QuarantineReport>>(
        sql,
        `SELECT ${QUARANTINE_COLUMNS}, body FROM quarantine WHERE id = $1`,
        id,
      );
      return row === null ? null : withBody(row);
    },

    async readQuarantinedBody(id) {
      const row = await one<{ body: Buffer | null }>(sql, 'SELECT body FROM quarantine WHERE id = $1', id);
      return row?.body ?? null;
    },

    async listHeldDeletions(sweepId, paging) {
      return await sql.query<HeldDeletionReport>(
        `SELECT kind, id, held_at, consent_until FROM held_deletions WHERE sweep_id = $1 AND id > $2 ORDER BY id LIMIT $3`,
        [sweepId, paging.after ?? '', limitOf(paging)],
      );
    },

    async listTraffic(since) {
      return await sql.query<TrafficReport>(
        'SELECT minute, what, times, total_ms, max_ms FROM traffic WHERE minute >= $1 ORDER BY minute, what',
        [instantOf(since)],
      );
    },

    async listRejections(paging) {
      return await newest<RejectionReport>(
        sql,
        `SELECT ${REJECTION_COLUMNS}, NULL AS body, NULL AS body_base64 FROM rejections`,
        paging,
      );
    },

    async showRejection(id) {
      const row = await one<WithBytes<RejectionReport>>(
        sql,
        `SELECT ${REJECTION_COLUMNS}, body FROM rejections WHERE id = $1`,
        id,
      );
      return row === null ? null : withBody(row);
    },

    async listAudit(paging) {
      return await newest<AuditReport>(
        sql,
        'SELECT id, at, actor, action, outcome, target FROM audit',
        paging,
      );
    },
  };
}

type WithBytes<Report> = Omit<Report, 'body' | 'body_base64'> & { body: Buffer | null };

function withBody<Row extends { body: Buffer | null }>(row: Row) {
  const { body } = row;
  return { ...row, body: body?.toString('utf8') ?? null, body_base64: body?.toString('base64') ?? null };
}

async function newest<Row>(sql: Sql, select: string, paging: Paging): Promise<Row[]> {
  return await sql.query<Row>(`${select} WHERE id < $1 ORDER BY id DESC LIMIT $2`, [
    keyOf(paging),
    limitOf(paging),
  ]);
}

async function one<Row>(sql: Sql, select: string, key: string | number): Promise<Row | null> {
  return (await sql.query<Row>(select, [key]))[0] ?? null;
}

async function summaryOf(sql: Sql) {
  const counts = await sql.query<{ state: EventState; count: number }>(
    'SELECT state, count FROM event_counts',
  );
  const events = new Map(counts.map((row) => [row.state, row.count]));
  const openGaps = await sql.query<OpenGaps>(
    `SELECT c.reason, nullif(c.kind, '') AS kind, c.open AS count, coalesce(
       (SELECT opened_at FROM gaps g WHERE healed_at IS NULL AND g.reason = c.reason AND g.kind = c.kind ORDER BY g.id LIMIT 1),
       (SELECT opened_at FROM gaps g WHERE healed_at IS NULL AND g.reason = c.reason AND g.kind IS NULL AND c.kind = ''
         ORDER BY g.id LIMIT 1)) AS oldest_at
     FROM gap_counts c WHERE c.open > 0 ORDER BY c.reason, c.kind`,
  );
  const kinds = await sql.query<KindStatus>(SELECT_KIND_STATUS);
  const [rest] = await sql.query<{
    oldest_pending_at: string | null;
    last_delivery_at: string | null;
    quarantined: number;
    healed_gaps_last_day: number;
    database_bytes: number;
  }>(
    `SELECT (SELECT received_at FROM events WHERE state = 'pending' ORDER BY seq LIMIT 1) AS oldest_pending_at,
       (SELECT max(last_delivered_at) FROM (SELECT last_delivered_at FROM events ORDER BY seq DESC LIMIT 1000) AS newest)
         AS last_delivery_at,
       (SELECT waiting FROM quarantine_count) AS quarantined,
       (SELECT count(*) FROM gaps WHERE healed_at >= clock_timestamp() - interval '1 day') AS healed_gaps_last_day,
       (SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
         WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND c.relkind = 'r') AS database_bytes`,
  );
  if (rest === undefined) throw new Error('a query without tables gave no row');
  return {
    kinds,
    events: Object.fromEntries(EVENT_STATES.map((state) => [state, events.get(state) ?? 0])) as Record<
      EventState,
      number
    >,
    ...rest,
    learned_pointers: await sql.query<LearnedPointerReport>(
      'SELECT kind, path, event_id, record_id, learned_at, used FROM learned_pointers ORDER BY kind, path',
    ),
    open_gaps: openGaps.reduce((sum, gaps) => sum + gaps.count, 0),
    open_gaps_by: openGaps,
    // The log is the whole server's, and other databases' too.
    wal_bytes: 0,
  };
}
