import type { Database } from '../database.ts';
import {
  type KindThen,
  PROBLEMS_SHOWN,
  type ProblemReport,
  type StatusThen,
  type SyncRunThen,
} from '../reports.ts';
import { sql } from '../statement.ts';
import { PROBLEM_COLUMNS } from './lists.ts';
import { singleValue } from './sql.ts';

/** What the mirror said of itself at an earlier time. */
export function createStatusThen({ atOneMoment }: Pick<Database, 'atOneMoment'>) {
  return {
    /** `at`: ISO 8601 UTC. Null: no verdict is kept from then. The records of then are `listRecords`. */
    statusThen: (at: string): Promise<StatusThen | null> =>
      atOneMoment(async (to) => {
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
      }),
  };
}
