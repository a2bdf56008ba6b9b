import { KINDS, type Kind } from '../../compliance/kinds.ts';
import {
  gapOfFailed,
  HEALED_BY_ALL_SWEEPS,
  HEALED_BY_READ,
  type HealedGap,
  healedBySweepOf,
  healedChange,
} from '../healing.ts';
import type { GapChange, GapKey, Now } from '../store.ts';
import type { Database, Sql, Unit } from './connection.ts';

/** The same database, whose units tell what they have done to gaps once they are committed. */
export function tellingGaps(database: Database, told: (change: GapChange) => void): Database {
  return {
    ...database,
    async transact(work, first) {
      // Those of the try that was committed: an earlier one has changed nothing.
      let changes: readonly GapChange[] = [];
      const result = await database.transact((unit, read) => {
        changes = unit.gapChanges;
        return work(unit, read);
      }, first);
      changes.forEach(told);
      return result;
    },
  };
}

function noteHealed(unit: Unit, gaps: readonly HealedGap[], nowIso: string): void {
  unit.gapChanges.push(...gaps.map((gap) => healedChange(gap, nowIso)));
}

const HEALED_COLUMNS = 'reason, kind, record_id AS "recordId", opened_at AS "openedAt"';

const listed = (reasons: readonly string[]) => reasons.map((reason) => `'${reason}'`).join(', ');

/** Takes a number, so that only a sweep begun later can heal it; with `coverableAt`, none begun before that. */
export async function openGap(
  unit: Unit,
  gap: GapKey,
  error: string | null,
  nowIso: string,
  coverableAt: number | null = null,
): Promise<void> {
  const number = unit.numbers.next();
  const { where, values } = sameGap(gap, 3);
  const again = await unit.change(
    `UPDATE gaps SET attempts = attempts + 1, error = coalesce($1, error), number = $2, coverable_at = $3 WHERE ${where}`,
    [error, number, coverableAt, ...values],
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
  await unit.change(
    `INSERT INTO gaps (reason, kind, record_id, opened_at, number, error, coverable_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7)`,
    [gap.reason, gap.kind, gap.recordId, nowIso, number, error, coverableAt],
  );
  unit.gapChanges.push({ gap, what: 'opened', error, openForMs: null });
}

export async function healGap(unit: Unit, gap: GapKey, nowIso: string): Promise<void> {
  const { where, values } = sameGap(gap, 1);
  const healed = await unit.query<HealedGap>(
    `UPDATE gaps SET healed_at = $1 WHERE ${where} RETURNING ${HEALED_COLUMNS}`,
    [nowIso, ...values],
  );
  noteHealed(unit, healed, nowIso);
}

/** That very one. False: it is not open. */
export async function resolveGap(unit: Unit, id: number, nowIso: string): Promise<boolean> {
  const resolved = await unit.query<HealedGap>(
    `UPDATE gaps SET healed_at = $1 WHERE id = $2 AND healed_at IS NULL RETURNING ${HEALED_COLUMNS}`,
    [nowIso, id],
  );
  noteHealed(unit, resolved, nowIso);
  return resolved.length > 0;
}

/** What a person, or a retry that succeeded, has settled: its gap stays while another event or delivery is as it was. */
export async function healSettled(
  unit: Unit,
  kind: Kind,
  recordId: string | null,
  nowIso: string,
): Promise<void> {
  const [rest] = await unit.query<{ open: boolean }>(
    recordId === null
      ? `SELECT EXISTS (SELECT 1 FROM events WHERE state = 'dead' AND kind = $1 AND record_id IS NULL)
           OR EXISTS (SELECT 1 FROM quarantine WHERE released_at IS NULL AND kind = $1 AND record_id IS NULL) AS open`
      : `SELECT EXISTS (SELECT 1 FROM events WHERE state = 'dead' AND kind = $1 AND record_id = $2) AS open`,
    recordId === null ? [kind] : [kind, recordId],
  );
  if (rest?.open === false) await healGap(unit, gapOfFailed(kind, recordId), nowIso);
}

export async function tellMoreOfGap(unit: Unit, gap: GapKey, error: string): Promise<void> {
  const { where, values } = sameGap(gap, 1);
  await unit.change(`UPDATE gaps SET error = $1 WHERE ${where}`, [error, ...values]);
}

/** A null is spelled out: a comparison that takes null for equal finds nothing in an index. */
function sameGap(gap: GapKey, before: number): { where: string; values: string[] } {
  const equal = [
    ['reason', gap.reason],
    ['kind', gap.kind],
    ['record_id', gap.recordId],
  ] as const;
  const values = equal.flatMap(([, value]) => (value === null ? [] : [value]));
  let at = before;
  const conditions = equal.map(([column, value]) => {
    if (value === null) return `${column} IS NULL`;
    at += 1;
    return `${column} = $${at}`;
  });
  return { where: `${conditions.join(' AND ')} AND healed_at IS NULL`, values };
}

/** What reading these records made good. */
export async function healRecords(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  nowIso: string,
): Promise<void> {
  if (ids.length === 0) return;
  const healed = await unit.query<HealedGap>(
    `UPDATE gaps SET healed_at = $1 WHERE kind = $2 AND record_id = ANY ($3::text[]) AND healed_at IS NULL
     AND reason IN (${listed(HEALED_BY_READ)}) RETURNING ${HEALED_COLUMNS}`,
    [nowIso, kind, ids],
  );
  noteHealed(unit, healed, nowIso);
}

export async function healAfterSweep(
  unit: Unit,
  { kind, number, beganAt }: { kind: Kind; number: number; beganAt: number },
  nowIso: string,
): Promise<void> {
  const ofKind = await unit.query<HealedGap>(
    `UPDATE gaps SET healed_at = $1 WHERE kind = $2 AND record_id IS NULL AND healed_at IS NULL AND number <= $3
     AND (coverable_at IS NULL OR coverable_at <= $4)
     AND reason IN (${listed(healedBySweepOf(kind))}) RETURNING ${HEALED_COLUMNS}`,
    [nowIso, kind, number, beganAt],
  );
  // A gap of the whole mirror is healed once every kind has been read completely since.
  const mirrorWide = await unit.query<HealedGap>(
    `UPDATE gaps SET healed_at = $1 WHERE kind IS NULL AND healed_at IS NULL AND reason IN (${listed(HEALED_BY_ALL_SWEEPS)})
     AND (SELECT count(DISTINCT s.kind) FROM sweeps s WHERE s.outcome = 'complete' AND s.number >= gaps.number) = 3
     RETURNING ${HEALED_COLUMNS}`,
    [nowIso],
  );
  noteHealed(unit, [...ofKind, ...mirrorWide], nowIso);
}

const WANTING = KINDS.map(
  (kind, place) =>
    `SELECT ${place} AS place, '${kind}' AS kind WHERE EXISTS (SELECT 1 FROM gaps g WHERE g.healed_at IS NULL
       AND g.record_id IS NULL AND ((g.kind = '${kind}' AND g.reason IN (${listed(healedBySweepOf(kind))}))
         OR (g.kind IS NULL AND g.reason IN (${listed(HEALED_BY_ALL_SWEEPS)})))
       AND (g.coverable_at IS NULL OR g.coverable_at <= $1)
       AND NOT EXISTS (SELECT 1 FROM sweeps s WHERE s.kind = '${kind}' AND s.outcome = 'complete'
         AND s.number >= g.number AND (g.coverable_at IS NULL OR s.began_at >= g.coverable_at)))`,
).join(' UNION ALL ');

export async function kindsWantingSweep(sql: Sql, now: Now): Promise<Kind[]> {
  const rows = await sql.query<{ kind: Kind }>(`${WANTING} ORDER BY place`, [Math.floor(now.steady)]);
  return rows.map((row) => row.kind);
}
