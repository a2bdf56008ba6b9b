import { KINDS, type Kind } from '../../compliance/kinds.ts';
import {
  gapOfFailed,
  HEALED_BY_ALL_SWEEPS,
  HEALED_BY_READ,
  type HealedGap,
  healedBySweepOf,
  healedChange,
} from '../healing.ts';
import type { GapChange, GapKey, Now, Store } from '../store.ts';
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
    `UPDATE gaps SET attempts = attempts + 1, error = coalesce(?, error), number = ?, coverable_at = ?
     WHERE reason = ? AND kind IS ? AND record_id IS ? AND healed_at IS NULL`,
  );
  const insert = db.prepare(
    'INSERT INTO gaps (reason, kind, record_id, opened_at, number, error, coverable_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
  );
  const resolveOne = db.prepare(
    `UPDATE gaps SET healed_at = ? WHERE id = ? AND healed_at IS NULL RETURNING ${HEALED_COLUMNS}`,
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
  const healSwept = (kind: Kind) =>
    db.prepare(
      `UPDATE gaps SET healed_at = ? WHERE kind = '${kind}' AND record_id IS NULL AND healed_at IS NULL AND number <= ?
       AND coalesce(coverable_at, ?) <= ? AND reason IN (${quoted(healedBySweepOf(kind))}) RETURNING ${HEALED_COLUMNS}`,
    );
  const healSweptByKind = Object.fromEntries(KINDS.map((kind) => [kind, healSwept(kind)])) as Record<
    Kind,
    ReturnType<typeof healSwept>
  >;
  // A gap of the whole mirror is healed once every kind has been read completely since.
  const healMirrorWide = db.prepare(
    `UPDATE gaps SET healed_at = ? WHERE kind IS NULL AND healed_at IS NULL AND reason IN (${quoted(HEALED_BY_ALL_SWEEPS)})
     AND (SELECT count(DISTINCT s.kind) FROM sweeps s WHERE s.outcome = 'complete' AND s.number >= gaps.number) = 3
     RETURNING ${HEALED_COLUMNS}`,
  );
  const wants = (kind: Kind) =>
    db
      .prepare(
        `SELECT 1 FROM gaps g WHERE g.healed_at IS NULL AND g.record_id IS NULL
         AND ((g.kind = '${kind}' AND g.reason IN (${quoted(healedBySweepOf(kind))}))
           OR (g.kind IS NULL AND g.reason IN (${quoted(HEALED_BY_ALL_SWEEPS)})))
         AND (g.coverable_at IS NULL OR g.coverable_at <= ?)
         AND NOT EXISTS (SELECT 1 FROM sweeps s WHERE s.kind = '${kind}' AND s.outcome = 'complete'
           AND s.number >= g.number AND (g.coverable_at IS NULL OR s.began_at >= g.coverable_at))`,
      )
      .pluck();
  const wantsByKind = KINDS.map((kind) => [kind, wants(kind)] as const);
  const anyFailed = db
    .prepare(
      "SELECT 1 FROM events INDEXED BY events_dead WHERE state = 'dead' AND kind = ? AND record_id IS ?",
    )
    .pluck();
  const anyQuarantined = db
    .prepare('SELECT 1 FROM quarantine WHERE released_at IS NULL AND kind = ? AND record_id IS NULL')
    .pluck();
  const tellMore = db.prepare(
    'UPDATE gaps SET error = ? WHERE reason = ? AND kind IS ? AND record_id IS ? AND healed_at IS NULL',
  );

  /** Beside one of the same key that is open, as a restore follows another: each is resolved by itself. */
  function add(
    gap: GapKey,
    error: string | null,
    nowIso: string,
    number: number,
    coverableAt: number | null,
  ): void {
    insert.run(gap.reason, gap.kind, gap.recordId, nowIso, number, error, coverableAt);
    note({ gap, what: 'opened', error, openForMs: null });
  }

  function heal(gap: GapKey, nowIso: string): void {
    noteHealed(healOne.all(nowIso, gap.reason, gap.kind, gap.recordId), nowIso);
  }

  function noteHealed(gaps: readonly unknown[], nowIso: string): void {
    for (const gap of gaps as HealedGap[]) note(healedChange(gap, nowIso));
  }

  return {
    /** Takes a number, so that only a sweep begun later can heal it; with `coverableAt`, none begun before that. */
    open(
      gap: GapKey,
      error: string | null,
      nowIso: string,
      numbers: Numbers,
      coverableAt: number | null = null,
    ): void {
      const number = numbers.next();
      if (again.run(error, number, coverableAt, gap.reason, gap.kind, gap.recordId).changes > 0) return;
      add(gap, error, nowIso, number, coverableAt);
    },
    add,
    heal,
    /** That very one. False: it is not open. */
    resolve(id: number, nowIso: string): boolean {
      const resolved = resolveOne.all(nowIso, id);
      noteHealed(resolved, nowIso);
      return resolved.length > 0;
    },
    healRecord(kind: Kind, id: string, nowIso: string): void {
      for (const gap of openOfRecord.all(kind, id) as GapKey[]) heal(gap, nowIso);
    },
    /** What a person, or a retry that succeeded, has settled: its gap stays while another event or delivery is as it was. */
    healSettled(kind: Kind, recordId: string | null, nowIso: string): void {
      if (anyFailed.get(kind, recordId) !== undefined) return;
      if (recordId === null && anyQuarantined.get(kind) !== undefined) return;
      heal(gapOfFailed(kind, recordId), nowIso);
    },
    tellMore(gap: GapKey, error: string): void {
      tellMore.run(error, gap.reason, gap.kind, gap.recordId);
    },
    healAfterSweep(sweep: { kind: Kind; number: number; beganAt: number }, nowIso: string): void {
      const { kind, number, beganAt } = sweep;
      noteHealed(healSweptByKind[kind].all(nowIso, number, beganAt, beganAt), nowIso);
      noteHealed(healMirrorWide.all(nowIso), nowIso);
    },
    kindsWantingSweep(now: Now): Kind[] {
      return wantsByKind.flatMap(([kind, asked]) => (asked.get(now.steady) === undefined ? [] : [kind]));
    },
  };
}
