import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { Sql, Unit } from '../database.ts';
import type { SQL } from '../drizzle.ts';
import {
  gapOfFailed,
  HEALED_BY_ALL_SWEEPS,
  HEALED_BY_LIST,
  HEALED_BY_READ,
  type HealedGap,
  healedBySweepOf,
  healedChange,
} from '../healing.ts';
import { events, gaps, quarantine, sweeps } from '../schema.sqlite.ts';
import type { GapKey, Now } from '../store.ts';
import { as, insertInto, is, isOneOf, set, sql } from './sql.ts';

/** Takes a number, so that only a sweep begun later can heal it; with `coverableAt`, none begun before that. */
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

export async function healGap(unit: Unit, gap: GapKey, nowIso: string): Promise<void> {
  await healWhere(unit, isOpen(gap), nowIso);
}

/** That very one. False: it is not open. */
export async function resolveGap(unit: Unit, id: number, nowIso: string): Promise<boolean> {
  return (await healWhere(unit, sql`${gaps.id} = ${id} AND ${gaps.healedAt} IS NULL`, nowIso)) > 0;
}

/** What a person, or a retry that succeeded, has settled: its gap stays while another event or delivery is as it was. */
export async function healSettled(
  unit: Unit,
  kind: Kind,
  recordId: string | null,
  nowIso: string,
): Promise<void> {
  const failed = sql`SELECT 1 FROM ${events}${unit.dialect.indexedBy('events_dead')}
    WHERE ${events.state} = 'dead' AND ${events.kind} = ${kind} AND ${is(events.recordId, recordId)}`;
  const waiting = sql`SELECT 1 FROM ${quarantine}
    WHERE ${quarantine.releasedAt} IS NULL AND ${quarantine.kind} = ${kind} AND ${quarantine.recordId} IS NULL`;
  const rest = await unit.query(
    recordId === null
      ? sql`SELECT 1 WHERE EXISTS (${failed}) OR EXISTS (${waiting})`
      : sql`SELECT 1 WHERE EXISTS (${failed})`,
  );
  if (rest.length === 0) await healGap(unit, gapOfFailed(kind, recordId), nowIso);
}

export async function tellMoreOfGap(unit: Unit, gap: GapKey, error: string): Promise<void> {
  await unit.change(sql`UPDATE ${gaps} SET ${set(gaps, { error })} WHERE ${isOpen(gap)}`);
}

/** What reading these records made good. */
export async function healRecords(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  nowIso: string,
): Promise<void> {
  if (ids.length === 0) return;
  await healWhere(
    unit,
    sql`${gaps.kind} = ${kind} AND ${unit.dialect.isAmong(gaps.recordId, ids)} AND ${gaps.healedAt} IS NULL
      AND ${isOneOf(gaps.reason, HEALED_BY_READ)}`,
    nowIso,
  );
}

export async function healAfterSweep(
  unit: Unit,
  { kind, number, beganAt }: { kind: Kind; number: number; beganAt: number },
  nowIso: string,
): Promise<void> {
  await healWhere(
    unit,
    sql`${gaps.kind} = ${kind} AND ${gaps.recordId} IS NULL AND ${gaps.healedAt} IS NULL AND ${gaps.number} <= ${number}
      AND (${gaps.coverableAt} IS NULL OR ${gaps.coverableAt} <= ${beganAt})
      AND ${isOneOf(gaps.reason, healedBySweepOf(kind))}`,
    nowIso,
  );
  // A gap of the whole mirror is healed once every kind has been read completely since.
  await healWhere(
    unit,
    sql`${gaps.kind} IS NULL AND ${gaps.healedAt} IS NULL AND ${isOneOf(gaps.reason, HEALED_BY_ALL_SWEEPS)}
      AND (SELECT count(DISTINCT ${sweeps.kind}) FROM ${sweeps}
        WHERE ${sweeps.outcome} = 'complete' AND ${sweeps.number} >= ${gaps.number}) = ${KINDS.length}`,
    nowIso,
  );
}

/** Whether anything is open that a list of the kind would make good. */
export async function hasUnnamed({ query }: Sql, kind: Kind): Promise<boolean> {
  const open = await query(
    sql`SELECT 1 FROM ${gaps} WHERE ${gaps.kind} = ${kind} AND ${gaps.recordId} IS NULL AND ${gaps.healedAt} IS NULL
      AND ${isOneOf(gaps.reason, HEALED_BY_LIST)} LIMIT 1`,
  );
  return open.length > 0;
}

export async function kindsWantingSweep({ query }: Sql, now: Now): Promise<Kind[]> {
  const steady = Math.floor(now.steady);
  const wanting = KINDS.map(
    (kind) =>
      sql`SELECT ${kind} AS kind WHERE EXISTS (SELECT 1 FROM ${gaps} WHERE ${gaps.healedAt} IS NULL AND ${gaps.recordId} IS NULL
        AND ((${gaps.kind} = ${kind} AND ${isOneOf(gaps.reason, healedBySweepOf(kind))})
          OR (${gaps.kind} IS NULL AND ${isOneOf(gaps.reason, HEALED_BY_ALL_SWEEPS)}))
        AND (${gaps.coverableAt} IS NULL OR ${gaps.coverableAt} <= ${steady})
        AND NOT EXISTS (SELECT 1 FROM ${sweeps} WHERE ${sweeps.kind} = ${kind} AND ${sweeps.outcome} = 'complete'
          AND ${sweeps.number} >= ${gaps.number}
          AND (${gaps.coverableAt} IS NULL OR ${sweeps.beganAt} >= ${gaps.coverableAt})))`,
  );
  const rows = await query<{ kind: Kind }>(sql.join(wanting, sql.raw(' UNION ALL ')));
  return KINDS.filter((kind) => rows.some((row) => row.kind === kind));
}

const isOpen = ({ reason, kind, recordId }: GapKey) =>
  sql`${gaps.reason} = ${reason} AND ${is(gaps.kind, kind)} AND ${is(gaps.recordId, recordId)} AND ${gaps.healedAt} IS NULL`;

/** Returns how many. */
async function healWhere(unit: Unit, condition: SQL, nowIso: string): Promise<number> {
  const healed = await unit.query<HealedGap>(
    sql`UPDATE ${gaps} SET ${set(gaps, { healedAt: nowIso })} WHERE ${condition}
      RETURNING ${as({ reason: gaps.reason, kind: gaps.kind, recordId: gaps.recordId, openedAt: gaps.openedAt })}`,
  );
  unit.gapChanges.push(...healed.map((gap) => healedChange(gap, nowIso)));
  return healed.length;
}
