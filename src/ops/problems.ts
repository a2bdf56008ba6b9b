import { type Needs, problemRule, VERDICTS, type Verdict } from '../mirror/problems.ts';
import type { ProblemReport } from '../store/reports.ts';
import type { ProblemReason } from '../store/store.ts';

/** A problem as every surface shows it: its row, and the words of its reason. */
export interface Problem extends Omit<ProblemReport, 'reason'> {
  /** `database`: of the database itself, which no row can be about. */
  reason: ProblemReason | typeof DATABASE;
  sentence: string;
  action: string;
}

export const DATABASE = 'database';
/** No row has this number. */
export const DATABASE_ID = 0;

/** Longer than the time between two heartbeats: one that failed, as during a failover, is no problem yet. */
const UNWRITABLE_MS = 6_000;

export function explained(row: ProblemReport): Problem {
  const { sentence, action } = problemRule(row.reason);
  return { ...row, sentence, action };
}

/** Null: the database can be read (`unreadSince` is null) and written. Wall-clock milliseconds. */
export function databaseProblem(
  { unwritableSince, databaseError }: { unwritableSince: number | null; databaseError: string | null },
  unreadSince: number | null,
  now: number,
): Problem | null {
  const isUnwritable = unwritableSince !== null && now - unwritableSince >= UNWRITABLE_MS;
  const since = unreadSince ?? (isUnwritable ? unwritableSince : null);
  if (since === null) return null;
  return {
    id: DATABASE_ID,
    kind: null,
    record_id: null,
    reason: DATABASE,
    verdict: 'action_required',
    needs: 'you',
    opened_at: new Date(since).toISOString(),
    resolved_at: null,
    times: 1,
    error: databaseError,
    digest: '',
    sentence:
      unreadSince === null
        ? 'The database takes no writes, so nothing that is delivered can be kept.'
        : 'The database cannot be read.',
    action:
      'See whether its disk is full, whether another program holds it, or whether its server is away or read-only; the log has its answer. Deliveries are answered 503, so that the sender tries again.',
  };
}

const rankOf = ({ verdict, needs }: { verdict: Verdict; needs: Needs }) =>
  2 * VERDICTS.indexOf(verdict) + (needs === 'you' ? 0 : 1);

/** The worst first, of equal ones the older. */
export const worstFirst = (problems: readonly Problem[]): Problem[] =>
  problems.toSorted(
    (one, other) => rankOf(one) - rankOf(other) || Date.parse(one.opened_at) - Date.parse(other.opened_at),
  );

/** The command that helps, with the problem's own names in it; null: none does. */
export function commandOf({
  id,
  reason,
  kind,
  record_id,
}: Pick<Problem, 'id' | 'reason' | 'kind' | 'record_id'>) {
  if (reason === DATABASE) return null;
  const names = { ID: String(id), KIND: kind ?? 'KIND', RECORD: record_id ?? 'RECORD' };
  const { command = null } = problemRule(reason);
  return command?.replace(/\b(?:ID|KIND|RECORD)\b/g, (name) => names[name as keyof typeof names]) ?? null;
}

/** Whether a person can accept it; otherwise it ends with its cause, or by its own decision. */
export const isResolvable = ({ reason }: Pick<Problem, 'reason'>): boolean =>
  reason !== DATABASE && problemRule(reason).hasOwnEnd !== true;

export const buttonOf = ({ reason }: Pick<Problem, 'reason'>) =>
  reason === DATABASE ? undefined : problemRule(reason).button;
