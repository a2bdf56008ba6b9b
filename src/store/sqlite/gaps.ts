import type { Kind } from '../../compliance/kinds.ts';
import { HEALED_BY_READ, HEALED_BY_SWEEP, type HealedGap, healedChange } from '../healing.ts';
import type { GapChange, GapKey, Store } from '../store.ts';
import type { Connection, Numbers, Transact } from './connection.ts';

/** What the open transaction has done to gaps. There is one at a time: this engine's run from begin to end in one go. */
export interface GapNotes {
  note(change: GapChange): void;
  watch: Store['watchGaps'];
  /** Tells what was noted once it is committed, and forgets it with a transaction that failed. */
  telling(transact: Transact): Transact;
}

export function createGapNotes(): GapNotes {
  let noted: GapChange[] = [];
  let told: (change: GapChange) => void = () => undefined;
  return {
    note(change) {
      noted.push(change);
    },
    watch(next) {
      told = next;
    },
    telling: (transact) => (work) => {
      let committed: readonly GapChange[] = [];
      try {
        const result = transact(work);
        committed = noted;
        return result;
      } finally {
        if (noted.length > 0) noted = [];
        committed.forEach(told);
      }
    },
  };
}

const HEALED_COLUMNS = 'reason, kind, record_id AS recordId, opened_at AS openedAt';

export type Gaps = ReturnType<typeof createGaps>;

export function createGaps(db: Connection, { note }: Pick<GapNotes, 'note'>) {
  const quoted = (reasons: readonly string[]) => reasons.map((reason) => `'${reason}'`).join(', ');
  const again = db.prepare(
    `UPDATE gaps SET attempts = attempts + 1, error = coalesce(?, error), number = ?
     WHERE reason = ? AND kind IS ? AND record_id IS ? AND healed_at IS NULL`,
  );
  const insert = db.prepare(
    'INSERT INTO gaps (reason, kind, record_id, opened_at, number, error) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const healOne = db.prepare(
    `UPDATE gaps SET healed_at = ? WHERE reason = ? AND kind IS ? AND record_id IS ? AND healed_at IS NULL
     RETURNING ${HEALED_COLUMNS}`,
  );
  // Looked for first: nearly no record has one, and each that is read would pay for an UPDATE that tells what it changed.
  const openOfRecord = db.prepare(
    `SELECT reason, kind, record_id AS recordId FROM gaps WHERE kind = ? AND record_id = ? AND healed_at IS NULL
     AND reason IN (${quoted(HEALED_BY_READ)})`,
  );
  const healSwept = db.prepare(
    `UPDATE gaps SET healed_at = ? WHERE kind = ? AND record_id IS NULL AND healed_at IS NULL AND number <= ?
     AND reason IN (${quoted(HEALED_BY_SWEEP)}) RETURNING ${HEALED_COLUMNS}`,
  );
  // A gap of the whole mirror is healed once every kind has been read completely since.
  const healMirrorWide = db.prepare(
    `UPDATE gaps SET healed_at = ? WHERE kind IS NULL AND healed_at IS NULL AND reason IN (${quoted(HEALED_BY_SWEEP)})
     AND (SELECT count(DISTINCT s.kind) FROM sweeps s WHERE s.outcome = 'complete' AND s.number >= gaps.number) = 3
     RETURNING ${HEALED_COLUMNS}`,
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

  function heal(gap: GapKey, nowIso: string): void {
    noteHealed(healOne.all(nowIso, gap.reason, gap.kind, gap.recordId), nowIso);
  }

  function noteHealed(gaps: readonly unknown[], nowIso: string): void {
    for (const gap of gaps as HealedGap[]) note(healedChange(gap, nowIso));
  }

  return {
    /** Takes a number, so that only a sweep begun later can heal it. */
    open(gap: GapKey, error: string | null, nowIso: string, numbers: Numbers): void {
      const number = numbers.next();
      if (again.run(error, number, gap.reason, gap.kind, gap.recordId).changes > 0) return;
      insert.run(gap.reason, gap.kind, gap.recordId, nowIso, number, error);
      note({ gap, what: 'opened', error, openForMs: null });
    },
    heal,
    healRecord(kind: Kind, id: string, nowIso: string): void {
      for (const gap of openOfRecord.all(kind, id) as GapKey[]) heal(gap, nowIso);
    },
    healAfterSweep(kind: Kind, sweepNumber: number, nowIso: string): void {
      noteHealed(healSwept.all(nowIso, kind, sweepNumber), nowIso);
      noteHealed(healMirrorWide.all(nowIso), nowIso);
    },
    kindsWantingSweep(): Kind[] {
      return wanting.all() as Kind[];
    },
  };
}
