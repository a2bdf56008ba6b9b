import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { Database, Sql, Unit } from '../database.ts';
import type { SQL } from '../drizzle.ts';
import {
  gapOfFailed,
  RESOLVED_BY_ALL_SYNC_RUNS,
  RESOLVED_BY_LIST,
  RESOLVED_BY_READ,
  type ResolvedGap,
  resolvedByFullSyncOf,
  resolvedChange,
} from '../resolving.ts';
import { events, gaps, quarantine, syncRuns } from '../schema.sqlite.ts';
import type { GapChange, GapKey, Now } from '../store.ts';
import { as, insertInto, is, isOneOf, set, sql } from './sql.ts';

/** Takes a number, so that only a full sync begun later can resolve it; with `coverableAt`, none begun before that. */
export async function openGap(
  unit: Unit,
  gap: GapKey,
  error: string | null,
  nowIso: string,
  coverableAt: number | null = null,
): Promise<void> {
  const number = unit.numbers.next();
  const again = await unit.change(
    sql`UPDATE ${gaps} SET ${set(gaps, {
      attempts: sql`${gaps.attempts} + 1`,
      error: sql`coalesce(${error}, ${gaps.error})`,
      number,
      coverableAt,
    })} WHERE ${isOpen(gap)}`,
  );
  if (again === 0) await addGap(unit, gap, error, nowIso, number, coverableAt);
}

/** Beside one of the same key that is open, as a restore follows another: each is resolved by itself. */
export async function addGap(
  unit: Unit,
  gap: GapKey,
  error: string | null,
  nowIso: string,
  number: number,
  coverableAt: number | null,
): Promise<void> {
  await unit.change(openedGap(gap, error, nowIso, number, coverableAt));
  unit.gapChanges.push({ gap, what: 'opened', error, openForMs: null });
}

/** The statement of it. */
export const openedGap = (
  gap: GapKey,
  error: string | null,
  openedAt: string,
  number: number,
  coverableAt: number | null,
): SQL => insertInto(gaps, { ...gap, openedAt, number, error, coverableAt });

export async function resolveGap(unit: Unit, gap: GapKey, nowIso: string): Promise<void> {
  await resolveWhere(unit, isOpen(gap), nowIso);
}

/** That very one. False: it is not open. */
export async function resolveGapById(unit: Unit, id: number, nowIso: string): Promise<boolean> {
  return (await resolveWhere(unit, sql`${gaps.id} = ${id} AND ${gaps.resolvedAt} IS NULL`, nowIso)) > 0;
}

/** What a person, or a retry that succeeded, has settled: its gap stays while another event or delivery is as it was. */
export async function resolveSettled(
  unit: Unit,
  kind: Kind,
  recordId: string | null,
  nowIso: string,
): Promise<void> {
  const failed = sql`SELECT 1 FROM ${events}${unit.dialect.indexedBy('events_failed')}
    WHERE ${events.state} = 'failed' AND ${events.kind} = ${kind} AND ${is(events.recordId, recordId)}`;
  const waiting = sql`SELECT 1 FROM ${quarantine}
    WHERE ${quarantine.releasedAt} IS NULL AND ${quarantine.kind} = ${kind} AND ${quarantine.recordId} IS NULL`;
  const rest = await unit.query(
    recordId === null
      ? sql`SELECT 1 WHERE EXISTS (${failed}) OR EXISTS (${waiting})`
      : sql`SELECT 1 WHERE EXISTS (${failed})`,
  );
  if (rest.length === 0) await resolveGap(unit, gapOfFailed(kind, recordId), nowIso);
}

export async function tellMoreOfGap(unit: Unit, gap: GapKey, error: string): Promise<void> {
  await unit.change(sql`UPDATE ${gaps} SET ${set(gaps, { error })} WHERE ${isOpen(gap)}`);
}

/** What reading these records made good. */
export async function resolveRecords(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  nowIso: string,
): Promise<void> {
  if (ids.length === 0) return;
  await resolveWhere(
    unit,
    sql`${gaps.kind} = ${kind} AND ${unit.dialect.isAmong(gaps.recordId, ids)} AND ${gaps.resolvedAt} IS NULL
      AND ${isOneOf(gaps.reason, RESOLVED_BY_READ)}`,
    nowIso,
  );
}

export async function resolveAfterFullSync(
  unit: Unit,
  { kind, number, beganAt }: { kind: Kind; number: number; beganAt: number },
  nowIso: string,
): Promise<void> {
  await resolveWhere(
    unit,
    sql`${gaps.kind} = ${kind} AND ${gaps.recordId} IS NULL AND ${gaps.resolvedAt} IS NULL AND ${gaps.number} <= ${number}
      AND (${gaps.coverableAt} IS NULL OR ${gaps.coverableAt} <= ${beganAt})
      AND ${isOneOf(gaps.reason, resolvedByFullSyncOf(kind))}`,
    nowIso,
  );
  // A gap of the whole mirror is resolved once every kind has been read completely since.
  await resolveWhere(
    unit,
    sql`${gaps.kind} IS NULL AND ${gaps.resolvedAt} IS NULL AND ${isOneOf(gaps.reason, RESOLVED_BY_ALL_SYNC_RUNS)}
      AND (SELECT count(DISTINCT ${syncRuns.kind}) FROM ${syncRuns}
        WHERE ${syncRuns.outcome} = 'complete' AND ${syncRuns.number} >= ${gaps.number}) = ${KINDS.length}`,
    nowIso,
  );
}

/** Whether anything is open that a list of the kind would make good. */
export async function hasUnnamed({ query }: Sql, kind: Kind): Promise<boolean> {
  const open = await query(
    sql`SELECT 1 FROM ${gaps} WHERE ${gaps.kind} = ${kind} AND ${gaps.recordId} IS NULL AND ${gaps.resolvedAt} IS NULL
      AND ${isOneOf(gaps.reason, RESOLVED_BY_LIST)} LIMIT 1`,
  );
  return open.length > 0;
}

export async function kindsWantingFullSync({ query }: Sql, now: Now): Promise<Kind[]> {
  const steady = Math.floor(now.steady);
  const wanting = KINDS.map(
    (kind) =>
      sql`SELECT ${kind} AS kind WHERE EXISTS (SELECT 1 FROM ${gaps} WHERE ${gaps.resolvedAt} IS NULL AND ${gaps.recordId} IS NULL
        AND ((${gaps.kind} = ${kind} AND ${isOneOf(gaps.reason, resolvedByFullSyncOf(kind))})
          OR (${gaps.kind} IS NULL AND ${isOneOf(gaps.reason, RESOLVED_BY_ALL_SYNC_RUNS)}))
        AND (${gaps.coverableAt} IS NULL OR ${gaps.coverableAt} <= ${steady})
        AND NOT EXISTS (SELECT 1 FROM ${syncRuns} WHERE ${syncRuns.kind} = ${kind} AND ${syncRuns.outcome} = 'complete'
          AND ${syncRuns.number} >= ${gaps.number}
          AND (${gaps.coverableAt} IS NULL OR ${syncRuns.beganAt} >= ${gaps.coverableAt})))`,
  );
  const rows = await query<{ kind: Kind }>(sql.join(wanting, sql.raw(' UNION ALL ')));
  return KINDS.filter((kind) => rows.some((row) => row.kind === kind));
}

const isOpen = ({ reason, kind, recordId }: GapKey) =>
  sql`${gaps.reason} = ${reason} AND ${is(gaps.kind, kind)} AND ${is(gaps.recordId, recordId)} AND ${gaps.resolvedAt} IS NULL`;

/** Returns how many. */
async function resolveWhere(unit: Unit, condition: SQL, nowIso: string): Promise<number> {
  const resolved = await unit.query<ResolvedGap>(
    sql`UPDATE ${gaps} SET ${set(gaps, { resolvedAt: nowIso })} WHERE ${condition}
      RETURNING ${as({ reason: gaps.reason, kind: gaps.kind, recordId: gaps.recordId, openedAt: gaps.openedAt })}`,
  );
  unit.gapChanges.push(...resolved.map((gap) => resolvedChange(gap, nowIso)));
  return resolved.length;
}

/** The same database, whose units tell what they have done to gaps once they are committed. */
export function tellingGaps<D extends Database>(database: D, told: (change: GapChange) => void): D {
  const transact: Database['transact'] = async (work, first) => {
    // Those of the try that was committed: an earlier one has changed nothing.
    let changes: readonly GapChange[] = [];
    const result = await database.transact((unit, read) => {
      changes = unit.gapChanges;
      return work(unit, read);
    }, first);
    changes.forEach(told);
    return result;
  };
  return { ...database, transact };
}
