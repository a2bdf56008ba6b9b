import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import type { Database, Sql } from '../database.ts';
import type {
  ChangeReport,
  EventState,
  KindStatus,
  LearnedPointerReport,
  OpenGaps,
  Page,
  Paging,
  PendingDeletionReport,
  StoreSummary,
  TrafficReport,
  TrafficStep,
  TrimmedChanges,
} from '../reports.ts';
import { changes, type SQL, traffic } from '../schema.ts';
import { createDeliverySearch } from './delivery-search.ts';
import { createLists, firstSince } from './lists.ts';
import { createRecordSearch, recordsById } from './record-search.ts';
import { beforeOf, iso, limitOf, singleValue, sql } from './sql.ts';
import { trimmedChanges } from './upkeep.ts';

const EVENT_STATES: readonly EventState[] = ['pending', 'processed', 'ignored', 'failed', 'discarded'];
const DAY_MS = 86_400_000;

/** Characters of a pending deletion's name and status. There may be hundreds, each with megabytes, and all are read to count them. */
const SHOWN_OF_PENDING = 1_000;
/** SQLite's substr ends at a NUL, so a short text is taken whole. */
const beginningOf = (text: SQL) =>
  sql`CASE WHEN octet_length(${text}) <= ${SHOWN_OF_PENDING} THEN ${text} ELSE substr(${text}, 1, ${SHOWN_OF_PENDING}) END`;

/** A change that a read shows has the time of the answer, but is saved later. Meanwhile changes of a later time may be saved. */
const SAVED_WITHIN_MS = 60_000;

/** Reports for people. These verbs only read, and no delivery waits for them. */
export function createReports({
  sql: statements,
  atOneMoment,
  currentNumber,
}: Pick<Database, 'sql' | 'atOneMoment' | 'currentNumber'>) {
  const { query, page, dialect } = statements;

  const changesWhere = async (condition: SQL, limit: number) => {
    const statement = sql`SELECT seq, kind, record_id, operation, before, after, cause, at FROM changes WHERE ${condition}`;
    const { rows, isFull } = await page<ChangeReport>(statement, [changes.before, changes.after], limit);
    const items = rows.map((row) => ({
      ...row,
      before: dialect.fromJson(row.before) as JsonObject,
      after: dialect.fromJson(row.after) as JsonObject,
    }));
    return { items, isFull };
  };

  return {
    ...createDeliverySearch(statements),
    ...createRecordSearch(statements),
    ...createLists(statements),

    summary: (): Promise<StoreSummary> => atOneMoment(summaryOf),

    /** Newest first, unless `oldestFirst`. */
    async recordHistory(
      kind: Kind,
      id: string,
      paging: Paging & { oldestFirst?: true },
    ): Promise<Omit<Page<ChangeReport>, 'looked_back_to'>> {
      const order = paging.oldestFirst ? 'ASC' : 'DESC';
      const from = beforeOf(paging);
      const behind = paging.oldestFirst ? { above: from } : { below: from };
      const limit = limitOf(paging);
      const rows = { table: 'changes', kind, id, ...behind, order, limit } as const;
      const found = dialect.isAmong(changes.seq, await dialect.numbersOf(statements, rows));
      const { items, isFull } = await changesWhere(sql`${found} ORDER BY seq ${sql.raw(order)}`, limit);
      return { items, next: isFull ? String(items.at(-1)!.seq) : null };
    },

    /** Changes after this number, oldest first. Empty: there are none. */
    listChanges: async (after: number, limit: number): Promise<ChangeReport[]> =>
      (await changesWhere(sql`seq > ${after} ORDER BY seq`, limitOf({ limit }))).items,

    /** The `after` with which `listChanges` begins at this instant (ISO 8601 UTC). */
    async changesBefore(instant: string): Promise<number> {
      const table = { table: 'changes', number: 'seq', time: 'at' };
      const early = await firstSince(statements, table, iso(Date.parse(instant) - SAVED_WITHIN_MS));
      const isSince = sql`at >= ${dialect.instant(instant)}`;
      const first = sql`SELECT seq FROM changes WHERE seq >= ${early} AND ${isSince} ORDER BY seq LIMIT 1`;
      const found = await singleValue<number>(statements, first);
      return (found ?? (await firstSince(statements, table, instant))) - 1;
    },

    /** Null: no change was trimmed. */
    trimmedChanges: (): Promise<TrimmedChanges | null> => trimmedChanges(statements),

    /** The rows are at least as new as `seq`, so whoever goes on with the changes after it misses none. */
    async snapshotRecords(kind: Kind, paging: Paging) {
      // The counter is read first: a change that is committed between the two is in the rows, and its number is after `seq`.
      const seq = await currentNumber();
      const { items: records, isFull } = await recordsById(statements, kind, paging);
      return { seq, records, isFull };
    },

    countGapsOpened: (): Promise<{ reason: string; count: number }[]> =>
      query<{ reason: string; count: number }>(
        sql`SELECT reason, sum(opened) AS count FROM gap_counts GROUP BY reason ORDER BY reason`,
      ),

    /** Those of one sync run, or all, in the order of kind and id. Their cursor is `pendingDeletionKey`. */
    listPendingDeletions(
      { syncRunId }: { syncRunId?: number | undefined },
      paging: Paging,
    ): Promise<PendingDeletionReport[]> {
      const [, afterKind = '', afterId = ''] = /^([^/]*)\/(.*)$/s.exec(paging.after ?? '') ?? [];
      // A sync run has only one kind, and its index has the order of the ids.
      const [where, order] =
        syncRunId === undefined
          ? [sql`(d.kind, d.id) > (${afterKind}, ${afterId})`, sql`d.kind, d.id`]
          : [sql`d.sync_run_id = ${syncRunId} AND d.id > ${afterId}`, sql`d.id`];
      return query<PendingDeletionReport>(
        sql`SELECT d.kind, d.id, d.sync_run_id, d.pending_since, d.approved_until, ${beginningOf(sql`coalesce(p.name, a.name, v.name)`)} AS name,
            ${beginningOf(sql`coalesce(p.status, a.status, v.status)`)} AS status, coalesce(p.synced_at, a.synced_at, v.synced_at) AS synced_at
          FROM pending_deletions d
          LEFT JOIN policies p ON d.kind = 'policy' AND p.id = d.id
          LEFT JOIN risk_assessments a ON d.kind = 'risk_assessment' AND a.id = d.id
          LEFT JOIN vendors v ON d.kind = 'vendor' AND v.id = d.id
          WHERE ${where} ORDER BY ${order} LIMIT ${limitOf(paging)}`,
      );
    },

    /** Oldest first, from `since` (wall-clock milliseconds) on. */
    listTraffic: (since: number, step: TrafficStep = 'minute'): Promise<TrafficReport[]> =>
      query<TrafficReport>(
        sql`SELECT ${step === 'hour' ? dialect.hourOf(traffic.minute) : traffic.minute} AS minute, what,
            CAST(sum(times) AS bigint) AS times, CAST(sum(total_ms) AS bigint) AS total_ms, max(max_ms) AS max_ms
          FROM traffic WHERE ${traffic.minute} >= ${iso(since)} GROUP BY 1, what ORDER BY 1, what`,
      ),
  };
}

async function summaryOf(to: Sql): Promise<StoreSummary> {
  const { query, dialect } = to;
  const counts = await query<{ state: EventState; count: number }>(
    sql`SELECT state, count FROM event_counts`,
  );
  const byState = new Map(counts.map(({ state, count }) => [state, count]));
  const oldest = (isOfKind: SQL) =>
    sql`(SELECT opened_at FROM gaps g${dialect.indexedBy('gaps_open_oldest')}
      WHERE resolved_at IS NULL AND g.reason = c.reason AND ${isOfKind} ORDER BY g.id LIMIT 1)`;
  const openGaps = await query<OpenGaps>(
    sql`SELECT c.reason, nullif(c.kind, '') AS kind, c.open AS count,
        coalesce(${oldest(sql`g.kind = c.kind`)}, ${oldest(sql`g.kind IS NULL`)}) AS oldest_at
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
    // `verified` counts rows. The view's `unverified` does not fit, since it leaves out ids that no read can verify.
    kinds: await query<KindStatus>(
      sql`SELECT s.*, s.records - (SELECT c.unverified FROM record_counts c WHERE c.kind = s.kind) AS verified
        FROM sync_status s`,
    ),
    events: Object.fromEntries(
      EVENT_STATES.map((state) => [state, byState.get(state) ?? 0]),
    ) as StoreSummary['events'],
    ...waiting,
    open_gaps: openGaps.reduce((sum, each) => sum + each.count, 0),
    open_gaps_by: openGaps,
    resolved_gaps_last_day,
    learned_pointers: learned.map((each) => ({ ...each, used: Boolean(each.used) })),
    ...(await dialect.sizes(to)),
  };
}
