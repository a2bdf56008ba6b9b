import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { Unit } from '../database.ts';
import { events, rejections } from '../schema.ts';
import { sql } from '../statement.ts';
import type { ProblemKey } from '../values.ts';
import { endProblem, hasList } from './problems.ts';
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

/** Resolves the problem of events that failed, unless another one needs it. */
export async function resolveSettled(
  unit: Unit,
  kind: Kind,
  recordId: string | null,
  nowIso: string,
): Promise<void> {
  const left = await unit.query(
    sql`SELECT 1 FROM events${unit.dialect.indexedBy('events_failed')}
      WHERE state = 'failed' AND kind = ${kind} AND ${equals(events.recordId, recordId)} LIMIT 1`,
  );
  if (left.length === 0) await endProblem(unit, problemOfFailed(kind, recordId), nowIso);
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
