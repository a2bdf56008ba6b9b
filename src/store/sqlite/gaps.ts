import type { Kind } from '../../compliance/kinds.ts';
import { HEALED_BY_READ, HEALED_BY_SWEEP } from '../healing.ts';
import type { GapKey } from '../store.ts';
import type { Connection, Numbers } from './connection.ts';

export type Gaps = ReturnType<typeof createGaps>;

export function createGaps(db: Connection) {
  const quoted = (reasons: readonly string[]) => reasons.map((reason) => `'${reason}'`).join(', ');
  const again = db.prepare(
    `UPDATE gaps SET attempts = attempts + 1, error = coalesce(?, error), number = ?
     WHERE reason = ? AND kind IS ? AND record_id IS ? AND healed_at IS NULL`,
  );
  const insert = db.prepare(
    'INSERT INTO gaps (reason, kind, record_id, opened_at, number, error) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const heal = db.prepare(
    'UPDATE gaps SET healed_at = ? WHERE reason = ? AND kind IS ? AND record_id IS ? AND healed_at IS NULL',
  );
  const healRecord = db.prepare(
    `UPDATE gaps SET healed_at = ? WHERE kind = ? AND record_id = ? AND healed_at IS NULL
     AND reason IN (${quoted(HEALED_BY_READ)})`,
  );
  const healSwept = db.prepare(
    `UPDATE gaps SET healed_at = ? WHERE kind = ? AND record_id IS NULL AND healed_at IS NULL AND number <= ?
     AND reason IN (${quoted(HEALED_BY_SWEEP)}) RETURNING reason, kind, record_id AS recordId`,
  );
  // A gap of the whole mirror is healed once every kind has been read completely since.
  const healMirrorWide = db.prepare(
    `UPDATE gaps SET healed_at = ? WHERE kind IS NULL AND healed_at IS NULL AND reason IN (${quoted(HEALED_BY_SWEEP)})
     AND (SELECT count(DISTINCT s.kind) FROM sweeps s WHERE s.outcome = 'complete' AND s.number >= gaps.number) = 3
     RETURNING reason, kind, record_id AS recordId`,
  );
  const wanting = db
    .prepare(
      `SELECT k.kind FROM (SELECT 'policy' AS kind UNION ALL SELECT 'risk_assessment' UNION ALL SELECT 'vendor') k
       WHERE EXISTS (SELECT 1 FROM gaps g WHERE g.healed_at IS NULL AND g.record_id IS NULL
         AND (g.kind = k.kind OR g.kind IS NULL) AND g.reason IN (${quoted(HEALED_BY_SWEEP)})
         AND NOT EXISTS (SELECT 1 FROM sweeps s
           WHERE s.kind = k.kind AND s.outcome = 'complete' AND s.number >= g.number))`,
    )
    .pluck();

  return {
    /** True: it was not open before. Takes a number, so that only a sweep begun later can heal it. */
    open(gap: GapKey, error: string | null, nowIso: string, numbers: Numbers): boolean {
      const number = numbers.next();
      if (again.run(error, number, gap.reason, gap.kind, gap.recordId).changes > 0) return false;
      insert.run(gap.reason, gap.kind, gap.recordId, nowIso, number, error);
      return true;
    },
    heal(gap: GapKey, nowIso: string): boolean {
      return heal.run(nowIso, gap.reason, gap.kind, gap.recordId).changes > 0;
    },
    healRecord(kind: Kind, id: string, nowIso: string): void {
      healRecord.run(nowIso, kind, id);
    },
    healAfterSweep(kind: Kind, sweepNumber: number, nowIso: string): GapKey[] {
      return [...healSwept.all(nowIso, kind, sweepNumber), ...healMirrorWide.all(nowIso)] as GapKey[];
    },
    kindsWantingSweep(): Kind[] {
      return wanting.all() as Kind[];
    },
  };
}
