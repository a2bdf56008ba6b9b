import { VERDICTS } from '../../mirror/problems.ts';
import type { Database, Sql } from '../database.ts';
import {
  type FeedState,
  type KindStatus,
  type KindThen,
  type LearnedPointerReport,
  type OpenProblems,
  PROBLEMS_SHOWN,
  type ProblemReport,
  type StatusThen,
  type StoreSummary,
  type SyncRunThen,
} from '../reports.ts';
import { sql } from '../statement.ts';
import { EPOCH_FACT } from './epoch.ts';
import { createLists, PROBLEM_COLUMNS } from './lists.ts';
import { readFact, singleValue } from './sql.ts';
import { trimmedChanges } from './upkeep.ts';

/** Reports for people. These verbs only read, and no delivery waits for them. */
export function createReports({
  sql: statements,
  atOneMoment,
  currentNumber,
}: Pick<Database, 'sql' | 'atOneMoment' | 'currentNumber'>) {
  return {
    ...createLists(statements),

    summary: (): Promise<StoreSummary> => atOneMoment(summaryOf),

    /** What the mirror said of itself then (ISO 8601 UTC). Null: no verdict is kept from then. */
    statusThen: (at: string): Promise<StatusThen | null> => atOneMoment((to) => statusThen(to, at)),

    /** How far the feed of changes goes. `since`: an instant (ISO 8601 UTC). */
    async feed(since?: string): Promise<FeedState> {
      const [epoch, trimmed] = [await readFact(statements, EPOCH_FACT), await trimmedChanges(statements)];
      const begins = trimmed?.at ?? (await singleValue<string>(statements, sql`SELECT min(at) FROM changes`));
      const first = sql`SELECT min(seq) FROM changes WHERE at >= ${statements.dialect.instant(since ?? null)}`;
      const next = sql`SELECT coalesce((${first}), (SELECT max(seq) FROM changes) + 1, 1)`;
      const before = since === undefined ? 0 : (await singleValue<number>(statements, next))! - 1;
      // If all changes were trimmed, no row has the last number.
      const after = Math.max(trimmed?.through ?? 0, before);
      return { epoch: epoch ?? '', newest: await currentNumber(), trimmed, begins, after };
    },
  };
}

async function statusThen(to: Sql, at: string): Promise<StatusThen | null> {
  const then = to.dialect.instant(at);
  const kinds = await to.query<Omit<KindThen, 'last_full_sync'>>(
    // After a clock was set back two rows of a kind may be of one time: the later counts.
    sql`SELECT kind, verdict, complete, since FROM sync_history WHERE id IN (SELECT max(id) FROM sync_history
      WHERE since <= ${then} AND (until IS NULL OR until > ${then}) GROUP BY kind) ORDER BY kind`,
  );
  if (kinds.length === 0) return null;
  const ofKind = async ({ complete, ...kind }: (typeof kinds)[number]): Promise<KindThen> => {
    const [run] = await to.query<SyncRunThen>(
      sql`SELECT id, started_at, finished_at FROM sync_runs WHERE kind = ${kind.kind} AND outcome = 'complete'
        AND finished_at <= ${then} ORDER BY finished_at DESC LIMIT 1`,
    );
    return { ...kind, complete: Boolean(complete), last_full_sync: run ?? null };
  };
  const open = sql`FROM problems WHERE opened_at <= ${then} AND (resolved_at IS NULL OR resolved_at > ${then})`;
  return {
    kinds: await Promise.all(kinds.map(ofKind)),
    problems: await to.query<ProblemReport>(
      sql`SELECT ${sql.raw(PROBLEM_COLUMNS)} ${open} ORDER BY id LIMIT ${PROBLEMS_SHOWN}`,
    ),
    open_problems: (await singleValue<number>(to, sql`SELECT count(*) ${open}`))!,
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
    StoreSummary['events'] & Pick<StoreSummary, 'oldest_pending_at' | 'last_delivery_at' | 'quarantined'>
  >(
    sql`SELECT (SELECT count(*) FROM events WHERE state = 'pending') AS pending,
        (SELECT count(*) FROM events WHERE state = 'failed') AS failed,
        (SELECT received_at FROM events WHERE state = 'pending' ORDER BY seq LIMIT 1) AS oldest_pending_at,
        (SELECT max(last_delivered_at) FROM (SELECT last_delivered_at FROM events ORDER BY seq DESC LIMIT 1000) AS newest)
          AS last_delivery_at,
        (SELECT count(*) FROM rejections WHERE outcome = 'quarantined' AND dismissed_at IS NULL) AS quarantined`,
  );
  const learned = await query<LearnedPointerReport>(
    sql`SELECT kind, path, event_id, record_id, learned_at, leads FROM learned_pointers ORDER BY kind, path`,
  );
  const { pending, failed, ...waiting } = rest!;
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
    learned_pointers: learned.map((each) => ({ ...each, leads: Boolean(each.leads) })),
    ...(await dialect.sizes(to)),
  };
}

const WORST_FIRST = sql`CASE verdict ${sql.join(
  VERDICTS.map((verdict, rank) => sql.raw(`WHEN '${verdict}' THEN ${rank}`)),
  ' ',
)} END`;
