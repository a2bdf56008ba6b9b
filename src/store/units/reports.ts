import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import { VERDICTS } from '../../mirror/problems.ts';
import type { Database, Sql } from '../database.ts';
import {
  type ChangeReport,
  type FeedState,
  type KindStatus,
  type LearnedPointerReport,
  type OpenProblems,
  type Page,
  type Paging,
  PROBLEMS_SHOWN,
  type ProblemReport,
  type StoreSummary,
} from '../reports.ts';
import { changes } from '../schema.ts';
import { fromJson, type SQL, sql } from '../statement.ts';
import { createDeliverySearch } from './delivery-search.ts';
import { EPOCH_FACT } from './epoch.ts';
import { createLists, PROBLEM_COLUMNS } from './lists.ts';
import { createRecordSearch } from './record-search.ts';
import { beforeOf, iso, limitOf, readFact, singleValue } from './sql.ts';
import { createStatusThen } from './status-then.ts';
import { trimmedChanges } from './upkeep.ts';

const DAY_MS = 86_400_000;

/** Reports for people. These verbs only read, and no delivery waits for them. */
export function createReports({
  sql: statements,
  atOneMoment,
  currentNumber,
}: Pick<Database, 'sql' | 'atOneMoment' | 'currentNumber'>) {
  const { page, dialect } = statements;

  const changesWhere = async (condition: SQL, limit: number) => {
    const statement = sql`SELECT seq, kind, record_id, operation, before, after, data, cause, cause_id, at FROM changes WHERE ${condition}`;
    const { rows, isFull } = await page<ChangeReport>(
      statement,
      [changes.before, changes.after, changes.data],
      limit,
    );
    const items = rows.map((row) => ({
      ...row,
      before: fromJson(row.before) as JsonObject,
      after: fromJson(row.after) as JsonObject,
      data: fromJson(row.data) as JsonObject,
    }));
    return { items, isFull };
  };

  return {
    ...createDeliverySearch(statements),
    ...createRecordSearch(statements),
    ...createLists(statements),
    ...createStatusThen({ atOneMoment }),

    summary: (): Promise<StoreSummary> => atOneMoment(summaryOf),

    /** Newest first, unless `oldestFirst`. */
    async recordHistory(
      kind: Kind,
      id: string,
      paging: Paging & { oldestFirst?: true },
    ): Promise<Omit<Page<ChangeReport>, 'looked_back_to'>> {
      const [behind, order] = (paging.oldestFirst ? ['>', 'ASC'] : ['<', 'DESC']).map(sql.raw);
      const { items, isFull } = await changesWhere(
        sql`kind = ${kind} AND record_id = ${id} AND seq ${behind} ${beforeOf(paging)} ORDER BY seq ${order}`,
        limitOf(paging),
      );
      return { items, next: isFull ? String(items.at(-1)!.seq) : null };
    },

    /** Changes after this number, oldest first. Empty: there are none. */
    listChanges: async (after: number, limit: number): Promise<ChangeReport[]> =>
      (await changesWhere(sql`seq > ${after} ORDER BY seq`, limitOf({ limit }))).items,

    /** How far the feed of changes goes. `since`: an instant (ISO 8601 UTC). */
    async feed(since?: string): Promise<FeedState> {
      const [epoch, trimmed] = [await readFact(statements, EPOCH_FACT), await trimmedChanges(statements)];
      const begins = trimmed?.at ?? (await singleValue<string>(statements, sql`SELECT min(at) FROM changes`));
      const first = sql`SELECT min(seq) FROM changes WHERE at >= ${dialect.instant(since ?? null)}`;
      const next = sql`SELECT coalesce((${first}), (SELECT max(seq) FROM changes) + 1, 1)`;
      const before = since === undefined ? 0 : (await singleValue<number>(statements, next))! - 1;
      // If all changes were trimmed, no row has the last number.
      const after = Math.max(trimmed?.through ?? 0, before);
      return { epoch: epoch ?? '', newest: await currentNumber(), trimmed, begins, after };
    },
  };
}

/** `complete` as SQLite has it. */
type StoredStatus = Omit<KindStatus, 'complete'> & { complete: boolean | 0 | 1 };

async function summaryOf(to: Sql): Promise<StoreSummary> {
  const { query, dialect } = to;
  const openProblems = await query<OpenProblems>(
    sql`SELECT reason, kind, count(*) AS count, min(opened_at) AS oldest_at FROM problems WHERE resolved_at IS NULL
      GROUP BY reason, kind ORDER BY reason, coalesce(kind, '')`,
  );
  const [rest] = await query<
    StoreSummary['events'] &
      Pick<
        StoreSummary,
        'oldest_pending_at' | 'last_delivery_at' | 'quarantined' | 'resolved_problems_last_day'
      >
  >(
    sql`SELECT (SELECT count(*) FROM events WHERE state = 'pending') AS pending,
        (SELECT count(*) FROM events WHERE state = 'failed') AS failed,
        (SELECT received_at FROM events WHERE state = 'pending' ORDER BY seq LIMIT 1) AS oldest_pending_at,
        (SELECT max(last_delivered_at) FROM (SELECT last_delivered_at FROM events ORDER BY seq DESC LIMIT 1000) AS newest)
          AS last_delivery_at,
        (SELECT count(*) FROM rejections WHERE outcome = 'quarantined' AND dismissed_at IS NULL) AS quarantined,
        (SELECT count(*) FROM problems WHERE resolved_at >= ${iso(Date.now() - DAY_MS)}) AS resolved_problems_last_day`,
  );
  const learned = await query<LearnedPointerReport>(
    sql`SELECT kind, path, event_id, record_id, learned_at, leads FROM learned_pointers ORDER BY kind, path`,
  );
  const { pending, failed, resolved_problems_last_day, ...waiting } = rest!;
  const kinds = await query<StoredStatus>(sql`SELECT * FROM sync_status ORDER BY kind`);
  return {
    kinds: kinds.map((each) => ({ ...each, complete: Boolean(each.complete) })),
    events: { pending, failed },
    ...waiting,
    problems: await query<ProblemReport>(
      sql`SELECT ${sql.raw(PROBLEM_COLUMNS)} FROM problems WHERE resolved_at IS NULL ORDER BY ${WORST_FIRST}, id LIMIT ${PROBLEMS_SHOWN}`,
    ),
    open_problems: openProblems.reduce((sum, each) => sum + each.count, 0),
    open_problems_by: openProblems,
    resolved_problems_last_day,
    learned_pointers: learned.map((each) => ({ ...each, leads: Boolean(each.leads) })),
    ...(await dialect.sizes(to)),
  };
}

const WORST_FIRST = sql`CASE verdict ${sql.join(
  VERDICTS.map((verdict, rank) => sql.raw(`WHEN '${verdict}' THEN ${rank}`)),
  ' ',
)} END`;
