import { problemRule } from '../../mirror/problems.ts';
import type { Database } from '../database.ts';
import { problems, type Row } from '../schema.ts';
import { sql } from '../statement.ts';
import type { Now, ProblemKey, ResolveOutcome } from '../values.ts';
import { settleUnknown } from './due.ts';
import { accept, endProblem, isAccepted, isOpen, openProblem, weighAnew } from './problems.ts';
import { columnsOf, firstRow, iso, singleValue } from './sql.ts';

/** What keeps a kind from being in sync, as the stages and people say. */
export function createProblemVerbs(database: Database) {
  return {
    /** Opens the problem, or counts another occurrence if it is open. `stays`: what a person can accept, until it changes. */
    async openProblem(problem: ProblemKey, error: string | null, now: Now, stays?: string): Promise<void> {
      await database.transact((unit) => openProblem(unit, problem, error, now, { stays }));
    },

    /** What it waited for has happened; `error`: resolved only if that is its last one. False: it is not open. */
    endProblem: (problem: ProblemKey, now: Now, error?: string): Promise<boolean> =>
      database.transact((unit) => endProblem(unit, problem, iso(now.wall), error)),

    /** A person accepts exactly what the open problem with this number shows. Of an unknown id: there is no such record. */
    resolveProblem: (id: number, digest: string, now: Now): Promise<ResolveOutcome> =>
      database.transact(async (unit) => {
        const shown = await firstRow<Row<'problems'>>(
          unit,
          sql`SELECT ${columnsOf(problems)} FROM problems WHERE id = ${id} AND resolved_at IS NULL`,
        );
        if (shown === null) return 'not_open';
        if (shown.digest !== digest) return 'changed';
        const { kind, recordId, reason, number, acceptable } = shown;
        if (problemRule(reason).hasOwnEnd) return 'unfit';
        const nowIso = iso(now.wall);
        if (reason === 'unknown_record' && kind !== null && recordId !== null)
          await settleUnknown(unit, kind, [recordId], number, nowIso);
        await accept(unit, id, acceptable, nowIso);
        if (acceptable && reason === 'incomplete_list' && kind !== null) await weighAnew(unit, kind);
        return 'resolved';
      }),

    /** Since when the problem is open, in wall-clock milliseconds (null: it is not), and whether a person has accepted it as it is. */
    async standing(problem: ProblemKey): Promise<{ openSince: number | null; isAccepted: boolean }> {
      const first = sql`SELECT opened_at FROM problems WHERE ${isOpen(problem)} ORDER BY id LIMIT 1`;
      const since = await singleValue<string>(database.sql, first);
      return {
        openSince: since === null ? null : Date.parse(since),
        isAccepted: await isAccepted(database.sql, problem),
      };
    },
  };
}
