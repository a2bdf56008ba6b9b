import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { Unit } from '../database.ts';
import { events, rejections } from '../schema.ts';
import { sql } from '../statement.ts';
import type { ProblemKey } from '../values.ts';
import { endProblem, hasList, resolveRecords, showAs } from './problems.ts';
import { TABLE_OF } from './records.ts';
import { equals } from './sql.ts';

/** The problems of events and deliveries that were not understood. */

/** The problem of an event that failed. */
export const problemOfFailed = (kind: Kind, recordId: string | null): ProblemKey => ({
  reason: recordId === null ? 'unknown_record' : 'failed_event',
  kind,
  recordId,
});

/** The problems of a delivery in quarantine: one of each kind that it may be about. */
export function problemsOfDelivery(
  isConflicting: boolean,
  kind: Kind | null,
  recordId: string | null,
): ProblemKey[] {
  // With the id of an event whose type belongs to no kind it is about none of them.
  if (isConflicting && (kind === null || recordId !== null))
    return [{ reason: 'conflicting_content', kind, recordId }];
  return (kind === null ? KINDS : [kind]).map((each) => ({ reason: 'quarantined', kind: each, recordId }));
}

/** Resolves the problem of events that failed, unless another one needs it: then it shows the newest of those. */
export async function resolveSettled(
  unit: Unit,
  kind: Kind,
  recordId: string | null,
  nowIso: string,
): Promise<void> {
  const [left] = await unit.query<{ id: string; error: string }>(
    sql`SELECT id, error FROM events${unit.dialect.indexedBy('events_failed')}
      WHERE state = 'failed' AND kind = ${kind} AND ${equals(events.recordId, recordId)} ORDER BY seq DESC LIMIT 1`,
  );
  const problem = problemOfFailed(kind, recordId);
  if (left === undefined) await endProblem(unit, problem, nowIso);
  else await showAs(unit, problem, { error: `event ${left.id}: ${left.error}` });
}

/** A quarantined delivery that waits for a person. */
export const IS_WAITING = sql.raw("outcome = 'quarantined' AND dismissed_at IS NULL");

/**
 * Resolves the problems of deliveries in quarantine once a person has dismissed the last of them, where nothing else could: of what has no
 * list, and of an assessment that the API may not know. `isTaken`: it was taken as an event after all, which settles what it was about.
 */
export async function resolveDismissed(
  unit: Unit,
  about: Kind | null,
  recordId: string | null,
  nowIso: string,
  isTaken = false,
): Promise<void> {
  for (const kind of about === null ? KINDS : [about]) {
    if (!isTaken && (await hasList(unit, kind))) continue;
    const left = await unit.query(
      sql`SELECT 1 FROM rejections WHERE ${IS_WAITING} AND (kind = ${kind} OR kind IS NULL)
        AND ${equals(rejections.recordId, recordId)} LIMIT 1`,
    );
    if (left.length > 0) continue;
    for (const reason of ['quarantined', 'conflicting_content'] as const)
      await endProblem(unit, { reason, kind, recordId }, nowIso);
  }
}

/** Removes a record that the API has never shown and nothing names any more, and resolves its problems. */
export async function forgetUnnamed(unit: Unit, kind: Kind, id: string, nowIso: string): Promise<void> {
  const forgotten = await unit.change(
    sql`DELETE FROM record_state WHERE kind = ${kind} AND id = ${id} AND NOT returned
      AND NOT EXISTS (SELECT 1 FROM events WHERE record_id = ${id} AND kind = ${kind})
      AND NOT EXISTS (SELECT 1 FROM ${TABLE_OF[kind]} WHERE id = ${id})
      AND NOT EXISTS (SELECT 1 FROM rejections WHERE ${IS_WAITING} AND kind = ${kind} AND record_id = ${id})`,
  );
  if (forgotten === 0) return;
  await resolveRecords(unit, kind, [id], nowIso);
  await endProblem(unit, { reason: 'unreadable_answer', kind, recordId: id }, nowIso);
}
