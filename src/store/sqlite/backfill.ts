import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { LearnedPointer } from '../../compliance/pointers.ts';
import { MirrorError } from '../../errors.ts';
import {
  causeOfDeletion,
  compareRead,
  decideApply,
  decideBurial,
  decideDeletions,
  decideMissing,
  dueAt,
} from '../../mirror/decide.ts';
import { differingNames } from '../../mirror/merge.ts';
import { assessmentsNamedIn } from '../../process/handlers.ts';
import { gapOfFailed } from '../healing.ts';
import { TABLES } from '../record-rows.ts';
import type { Applied, BackfillStore, DueRecord, Now, ReadMoment, UnreadEvent } from '../store.ts';
import type { Connection, Transact } from './connection.ts';
import type { Gaps } from './gaps.ts';
import { type Held, iso, type Records } from './records.ts';
import { TRIMMED_CHANGES_FACT } from './retention.ts';

/** The latest first. */
export const LEARNED_POINTERS =
  'SELECT kind, path FROM learned_pointers WHERE used = 1 ORDER BY learned_at DESC, path';

type RecordVerbs = Omit<
  BackfillStore,
  | 'startSweep'
  | 'progressSweep'
  | 'finishSweep'
  | 'interruptSweeps'
  | 'openGap'
  | 'healGap'
  | 'resolveGap'
  | 'kindsWantingSweep'
  | 'noteAccess'
  | 'beat'
  | 'lastBeat'
  | 'lastDelivery'
>;

/** The verbs that bring rows into step with the API. */
export function createBackfillVerbs(
  db: Connection,
  transact: Transact,
  records: Records,
  gaps: Gaps,
): RecordVerbs {
  const currentNumber = db.prepare('SELECT value FROM counter').pluck();
  const rehint = db.prepare(
    `UPDATE record_state SET hint_at = ?, first_hint_at = ?, due_at = ?, attempts = 0, missing_since = NULL,
       missing_number = NULL, proven = 0 WHERE unverified_since IS NOT NULL`,
  );
  // All of them, not only those that seem to lie ahead: a clock set forward makes the last read look old.
  const showAnew = KINDS.map((kind) =>
    db.prepare(
      `UPDATE ${TABLES[kind]} SET shown = (SELECT json_group_object(key, ?) FROM json_each(shown))
       WHERE unverified_since IS NOT NULL AND shown IS NOT NULL`,
    ),
  );
  const settleReads = db.prepare('UPDATE record_state SET read_ended_at = ? WHERE read_ended_at IS NOT NULL');
  const coverAnew = db.prepare(
    'UPDATE gaps SET coverable_at = ? WHERE coverable_at IS NOT NULL AND healed_at IS NULL',
  );
  const selectUnread = db.prepare(
    `SELECT seq, id, type, kind, attempts, body FROM events INDEXED BY events_sought
     WHERE state = 'dead' AND next_attempt_at <= ? AND kind IS NOT NULL AND record_id IS NULL AND body IS NOT NULL
     ORDER BY next_attempt_at LIMIT ?`,
  );
  const putOffUnread = db.prepare(
    `UPDATE events SET attempts = attempts + 1, error = ?, next_attempt_at = ?, processed_at = ?
     WHERE seq = ? AND state = 'dead' AND record_id IS NULL`,
  );
  const seekAnew = db.prepare(
    `UPDATE events INDEXED BY events_sought SET next_attempt_at = ?, processed_at = ?
     WHERE state = 'dead' AND next_attempt_at IS NOT NULL AND processed_at > ?`,
  );
  const selectSearched = db.prepare('SELECT searched FROM record_state WHERE kind = ? AND id = ?').pluck();
  const selectNaming = db.prepare(
    `SELECT seq, id, type, kind, attempts, body FROM events WHERE seq IN (SELECT value FROM json_each(?))
     AND state <> 'discarded' AND body IS NOT NULL ORDER BY seq LIMIT ?`,
  );
  const selectUnreadable = db
    .prepare(
      `SELECT record_id FROM gaps WHERE reason = 'unreadable_answer' AND kind = ? AND record_id IS NOT NULL AND healed_at IS NULL
       ORDER BY number LIMIT ?`,
    )
    .pluck();
  const neverShown = Object.fromEntries(
    KINDS.map((kind) => [
      kind,
      db
        .prepare(
          `SELECT id FROM record_state s WHERE kind = '${kind}' AND returned = 0 AND hint > 0 AND id > ?
           AND NOT EXISTS (SELECT 1 FROM ${TABLES[kind]} r WHERE r.id = s.id) ORDER BY id LIMIT ?`,
        )
        .pluck(),
    ]),
  );
  const selectShown = db
    .prepare(
      `SELECT id FROM record_state WHERE kind = ? AND returned = 1 AND id IN (SELECT value FROM json_each(?)) ORDER BY id`,
    )
    .pluck();
  const selectLearned = db.prepare(LEARNED_POINTERS);
  const learnPointer = db.prepare(
    `INSERT INTO learned_pointers (kind, path, event_id, record_id, learned_at, used) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (kind, path) DO UPDATE SET event_id = excluded.event_id, record_id = excluded.record_id,
       learned_at = excluded.learned_at, used = max(used, excluded.used)`,
  );
  const selectDue = db.prepare(
    `SELECT id, attempts, missing_since, hint_at AS hintAt, first_hint_at AS firstHintAt FROM record_state
     WHERE kind = ? AND due_at <= ? ORDER BY due_at LIMIT ?`,
  );
  const countDue = db
    .prepare('SELECT count(*) FROM (SELECT 1 FROM record_state WHERE kind = ? AND due_at <= ? LIMIT ?)')
    .pluck();
  const putOff = db.prepare('UPDATE record_state SET due_at = ? WHERE kind = ? AND id = ?');
  const nextDue = db
    .prepare('SELECT min(due_at) FROM record_state WHERE kind = ? AND due_at IS NOT NULL')
    .pluck();
  const makeKnown = db.prepare(
    `INSERT INTO record_state (kind, id, hint_at, first_hint_at, unverified_since, due_at) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (kind, id) DO NOTHING`,
  );
  const makeDue = db.prepare(
    `INSERT INTO record_state (kind, id, hint_at, first_hint_at, unverified_since, due_at) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (kind, id) DO UPDATE SET due_at = excluded.due_at, attempts = 0`,
  );
  const failRead = db.prepare(
    'UPDATE record_state SET attempts = attempts + 1, error = ?, due_at = ? WHERE kind = ? AND id = ?',
  );
  const unseen = (kind: Kind) =>
    db
      .prepare(
        `SELECT s.id FROM record_state s LEFT JOIN ${TABLES[kind]} r ON r.id = s.id
         WHERE s.kind = '${kind}' AND s.sweep_id IS NOT ? AND s.hint <= ? AND coalesce(r.change_seq, 0) <= ?
         AND ((r.id IS NOT NULL AND r.deleted_at IS NULL) OR s.unverified_since IS NOT NULL) ORDER BY s.id`,
      )
      .pluck();
  const unseenByKind = Object.fromEntries(KINDS.map((kind) => [kind, unseen(kind)])) as Record<
    Kind,
    ReturnType<typeof unseen>
  >;
  const selectKnown = (kind: Kind) =>
    db.prepare(
      `SELECT s.id, r.id IS NOT NULL AND r.deleted_at IS NULL AS alive FROM record_state s
       LEFT JOIN ${TABLES[kind]} r ON r.id = s.id WHERE s.kind = '${kind}' AND s.id > ? ORDER BY s.id LIMIT ?`,
    );
  const knownIds = Object.fromEntries(KINDS.map((kind) => [kind, selectKnown(kind)])) as Record<
    Kind,
    ReturnType<typeof selectKnown>
  >;
  const hintedSince = db.prepare('SELECT id FROM record_state WHERE kind = ? AND hint > ?').pluck();
  const changedSince = db.prepare('SELECT record_id FROM changes WHERE seq > ? AND kind = ?').pluck();
  const writtenSince = (kind: Kind) =>
    db.prepare(`SELECT id FROM ${TABLES[kind]} WHERE change_seq > ?`).pluck();
  const changesTrimmed = db
    .prepare(`SELECT json_extract(value, '$.through') FROM facts WHERE name = '${TRIMMED_CHANGES_FACT}'`)
    .pluck();
  const selectProven = db
    .prepare('SELECT id FROM record_state WHERE kind = ? AND proven = 1 AND missing_since IS NOT NULL')
    .pluck();
  const countProofs = db.prepare(
    `SELECT count(*) FILTER (WHERE proven = 0 AND attempts = 0) AS awaiting, count(*) FILTER (WHERE proven = 1) AS proven
     FROM record_state WHERE kind = ? AND missing_since IS NOT NULL`,
  );
  const hold = db.prepare(
    `INSERT INTO held_deletions (kind, id, sweep_id, held_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (kind, id) DO UPDATE SET sweep_id = excluded.sweep_id`,
  );
  const unhold = db.prepare('DELETE FROM held_deletions WHERE kind = ? AND id = ?');
  const countHeld = db.prepare('SELECT count(*) FROM held_deletions WHERE kind = ?').pluck();
  const consented = db
    .prepare('SELECT 1 FROM held_deletions WHERE kind = ? AND id = ? AND consent_until > ?')
    .pluck();
  const listHeld = db.prepare(
    'SELECT kind, id, sweep_id AS sweepId FROM held_deletions WHERE consent_until IS NULL OR consent_until <= ? ORDER BY kind, id',
  );
  const leaseHeld = db.prepare('SELECT 1 FROM leases WHERE name = ? AND owner = ? AND fence = ?');
  const lastSweep = db.prepare('SELECT max(id) FROM sweeps WHERE kind = ?').pluck();
  const consent = db.prepare(
    `UPDATE held_deletions SET consent_until = ?
     WHERE sweep_id = ? AND (? IS NULL OR id IN (SELECT value FROM json_each(?))) RETURNING kind, id`,
  );
  const someLive = db
    .prepare(
      `SELECT id FROM record_state WHERE kind = ? AND id <> ? AND returned = 1 AND unverified_since IS NULL
       ORDER BY read_number DESC LIMIT 20`,
    )
    .pluck();
  const cycle = db
    .prepare(
      `SELECT id FROM record_state WHERE kind = ? AND sweep_id IS NOT ?
       ORDER BY unverified_since IS NULL, read_number LIMIT ?`,
    )
    .pluck();
  const markSwept = db.prepare('UPDATE record_state SET sweep_id = ? WHERE kind = ? AND id = ?');
  const countKnown = db.prepare('SELECT known FROM record_counts WHERE kind = ?').pluck();

  /** Nothing is held of this record any more; with the last one of its kind, nothing is left to ask anybody. */
  function letGo(kind: Kind, id: string, nowIso: string): void {
    if (unhold.run(kind, id).changes === 0 || (countHeld.get(kind) as number) > 0) return;
    gaps.heal({ reason: 'deletion_held', kind, recordId: null }, nowIso);
  }

  function applyOne(
    kind: Kind,
    object: { id: string; data: Record<string, unknown> },
    read: ReadMoment,
    context: Parameters<BackfillStore['applyReads']>[3],
    nowIso: string,
    numbers: Parameters<Parameters<Transact>[0]>[0],
  ): Applied {
    const held = records.load(kind, object.id);
    const { unverifiedSince } = held.state;
    const wasAlive = held.row !== null && held.row.deletedAt === null && held.state.returned;
    const decision = decideApply(kind, object.data, read, held, context.timing);
    held.state = decision.state;
    if (decision.row !== null && decision.change !== null) {
      records.write(held, decision.row, decision.change, context.cause, nowIso, numbers);
    }
    if (decision.confirmed && held.row !== null) held.row.verifiedAt = nowIso;
    records.saveState(held, null, context.sweepId);
    if (decision.row !== null) records.saveRow(held);
    else records.saveTrust(held);
    const verified = held.state.unverifiedSince === null;
    if (verified) {
      gaps.healRecord(kind, object.id, nowIso);
      letGo(kind, object.id, nowIso);
    }
    const differences = decision.change === null ? [] : differingNames(decision.change);
    return {
      id: object.id,
      outcome: decision.outcome,
      differences,
      verified,
      lagMs: verified && unverifiedSince !== null ? read.endedWall - unverifiedSince : null,
      witness: wasAlive,
      announced: unverifiedSince !== null,
      lacks: decision.lacks,
    };
  }

  function bury(held: Held, cause: string, now: Now, numbers: Parameters<Parameters<Transact>[0]>[0]): void {
    const nowIso = iso(now.wall);
    const { row, change, state } = decideBurial(held.kind, held, now, nowIso);
    held.state = state;
    if (row !== null && change !== null) records.write(held, row, change, cause, nowIso, numbers);
    if (held.row !== null) held.row.verifiedAt = nowIso;
    records.saveState(held);
    records.saveRow(held);
    letGo(held.kind, held.id, nowIso);
    gaps.healRecord(held.kind, held.id, nowIso);
  }

  return {
    async currentNumber() {
      return currentNumber.get() as number;
    },

    async rehintUnverified(now, timing) {
      return transact(() => {
        settleReads.run(now.steady);
        for (const statement of showAnew) statement.run(now.steady);
        coverAnew.run(Math.ceil(now.steady + timing.settleMs));
        return rehint.run(now.steady, now.steady, now.steady + timing.settleMs).changes;
      });
    },

    async unreadEvents(now, limit) {
      return selectUnread.all(iso(now.wall), limit) as UnreadEvent[];
    },

    async seekAnew(now) {
      const nowIso = iso(now.wall);
      transact(() => seekAnew.run(nowIso, nowIso, nowIso));
    },

    async putOffUnread(event, error, againWall, now) {
      transact(() => {
        if (putOffUnread.run(error, iso(againWall), iso(now.wall), event.seq).changes === 0) return;
        gaps.tellMore(gapOfFailed(event.kind, null), `event ${event.id}: ${error}`);
      });
    },

    async unreadableRecords(kind, limit) {
      return selectUnreadable.all(kind, limit) as string[];
    },

    async neverShown(kind, after, limit) {
      return neverShown[kind]!.all(after, limit) as string[];
    },

    async eventsNaming(kind, id, { after, through, limit }) {
      const from = after ?? (selectSearched.get(kind, id) as number | undefined) ?? 0;
      const numbers = records.eventsAbout(kind, id, from, through ?? (currentNumber.get() as number));
      return selectNaming.all(JSON.stringify(numbers), limit) as UnreadEvent[];
    },

    async noteSearched(kind, id, { through, event, named }, now, timing) {
      transact((numbers) => {
        const held = records.load(kind, id);
        if (held.known && held.state.searched < through) {
          held.state = { ...held.state, searched: through };
          records.saveState(held);
        }
        for (const other of named) {
          if (records.load(kind, other).state.hint > event) continue;
          records.hint(kind, other, numbers.next(), now, iso(now.wall), timing);
        }
      });
    },

    async shownIds(kind, ids) {
      return selectShown.all(kind, JSON.stringify(ids)) as string[];
    },

    async learnedPointers() {
      return selectLearned.all() as LearnedPointer[];
    },

    async learnPointer({ kind, path, eventId, recordId, isUsed }, now) {
      transact(() => learnPointer.run(kind, path, eventId, recordId, iso(now.wall), isUsed ? 1 : 0));
    },

    async dueRecords(kind, now, timing, limit) {
      const due: DueRecord[] = [];
      const later: [number, string][] = [];
      const rows = selectDue.all(kind, now.steady, limit) as {
        id: string;
        attempts: number;
        missing_since: number | null;
        hintAt: number | null;
        firstHintAt: number | null;
      }[];
      for (const row of rows) {
        const at = dueAt(row, timing);
        const waits = at !== null && at > now.steady && row.attempts === 0 && row.missing_since === null;
        if (waits) later.push([at, row.id]);
        else due.push({ kind, id: row.id, attempts: row.attempts, missing: row.missing_since !== null });
      }
      if (later.length > 0) transact(() => later.forEach(([at, id]) => void putOff.run(at, kind, id)));
      return due;
    },

    async countDue(kind, now, atMost) {
      return countDue.get(kind, now.steady, atMost) as number;
    },

    async nextDueAt(kind) {
      return nextDue.get(kind) as number | null;
    },

    async makeKnown(kind, ids, now) {
      return transact(() =>
        ids.reduce(
          (count, id) =>
            count + makeKnown.run(kind, id, now.steady, now.steady, iso(now.wall), now.steady).changes,
          0,
        ),
      );
    },

    async makeDue(kind, ids, now) {
      transact(() => {
        for (const id of ids) makeDue.run(kind, id, now.steady, now.steady, iso(now.wall), now.steady);
      });
    },

    async applyReads(kind, objects, read, context) {
      const nowIso = iso(read.endedWall);
      return transact((numbers) => {
        const applied = objects.map((object) => applyOne(kind, object, read, context, nowIso, numbers));
        const mentioned = new Set(
          objects.flatMap((object) => assessmentsNamedIn(object.data, kind, context.pointers)),
        );
        for (const id of mentioned) {
          makeKnown.run('risk_assessment', id, read.endedAt, read.endedAt, nowIso, read.endedAt);
        }
        return applied;
      });
    },

    async compareReads(kind, objects, read) {
      return objects.map(({ id, data }) => compareRead(kind, { id, data }, read, records.load(kind, id)));
    },

    async knownIds(kind, after, limit) {
      const rows = knownIds[kind].all(after, limit) as { id: string; alive: 0 | 1 }[];
      return rows.map(({ id, alive }) => ({ id, alive: alive === 1 }));
    },

    async countLive(kind) {
      return records.countLive(kind);
    },

    async recordMissing(kind, id, read, context) {
      return transact(() => {
        const held = records.load(kind, id);
        if (!held.known) return 'known';
        const agreed = consented.get(kind, id, iso(read.endedWall)) !== undefined;
        const decision = decideMissing(read, held, { ...context, agreed }, context.timing);
        held.state = decision.state;
        records.saveState(held);
        records.saveTrust(held);
        return decision.outcome;
      });
    },

    async recordReadFailure(kind, id, error, retryAtMs) {
      transact(() => failRead.run(error, retryAtMs, kind, id));
    },

    async unseenBy(kind, sweepId, number) {
      return unseenByKind[kind].all(sweepId, number, number) as string[];
    },

    async touchedSince(kind, number) {
      const numbersSince = (currentNumber.get() as number) - number;
      const isShort = numbersSince < (countKnown.get(kind) as number);
      const isWhole = ((changesTrimmed.get() as number | undefined) ?? 0) <= number;
      // The feed's end as a rule. Each row is asked where they are fewer, or where retention has taken some of the feed.
      const written = isShort && isWhole ? changedSince.all(number, kind) : writtenSince(kind).all(number);
      return new Set([...hintedSince.all(kind, number), ...written] as string[]);
    },

    async concludeDeletions(kind, proof, context, now) {
      return transact((numbers) => {
        const { lease } = context;
        if (lease !== undefined && leaseHeld.get(lease.name, lease.owner, lease.fence) === undefined) {
          throw new MirrorError('lease_lost', `another process has taken over "${lease.name}"`);
        }
        const proven = (selectProven.all(kind) as string[]).map((id) => records.load(kind, id));
        const absent = (proof?.absent ?? [])
          .map((id) => records.load(kind, id))
          .filter(
            (held) => held.state.hint <= (proof?.number ?? 0) && held.state.write <= (proof?.number ?? 0),
          );
        const candidates = new Map(
          [...proven.filter(stillProven), ...absent]
            .filter((held) => !context.onlyAnnounced || held.state.deleteEvent !== null)
            .map((held) => [held.id, held] as const),
        );
        const waiting = () => countHeld.get(kind) as number;
        if (candidates.size === 0) return { deleted: [], held: [], waiting: waiting() };
        const nowIso = iso(now.wall);
        const verdict = decideDeletions(
          [...candidates.values()].map((held) => ({
            id: held.id,
            // What is not shown alive needs nobody's consent to stay that way.
            announced: held.state.deleteEvent !== null || held.row === null || held.row.deletedAt !== null,
            consented: consented.get(kind, held.id, nowIso) !== undefined,
          })),
          records.countLive(kind),
          (listHeld.all(nowIso) as { kind: Kind; id: string }[]).filter(
            (held) => held.kind === kind && !candidates.has(held.id),
          ).length,
        );
        const deleted = verdict.deleted.flatMap((id) => {
          const held = candidates.get(id)!;
          const cause = causeOfDeletion(held);
          bury(held, context.cause, now, numbers);
          return cause === null ? [] : [{ id, cause }];
        });
        const sweepId = sweepFor(kind, context.sweepId);
        for (const id of verdict.held) {
          const held = candidates.get(id)!;
          held.state = { ...held.state, missingSince: null, missingNumber: null, proven: false, dueAt: null };
          held.state.unverifiedSince ??= now.wall;
          records.saveState(held);
          records.saveTrust(held);
          hold.run(kind, id, sweepId, nowIso);
        }
        return { deleted, held: verdict.held, waiting: waiting() };
      });
    },

    async holdDeletion(kind, id, sweepId, now) {
      transact(() => hold.run(kind, id, sweepFor(kind, sweepId), iso(now.wall)));
    },

    async confirmDeletions(sweepId, untilWall, ids) {
      return transact(() => {
        const among = ids === undefined ? null : JSON.stringify(ids);
        const rows = consent.all(iso(untilWall), sweepId, among, among) as { kind: Kind; id: string }[];
        return { kind: rows[0]?.kind ?? 'policy', ids: rows.map((row) => row.id).sort() };
      });
    },

    async countProofs(kind) {
      return countProofs.get(kind) as { awaiting: number; proven: number };
    },

    async someLiveRecord(kind, besides) {
      for (const id of someLive.all(kind, besides) as string[]) {
        const { row } = records.load(kind, id);
        if (row !== null && row.deletedAt === null) return id;
      }
      return null;
    },

    async cycleRecords(kind, sweepId, limit) {
      return cycle.all(kind, sweepId, limit) as string[];
    },

    async markSwept(kind, id, sweepId) {
      transact(() => markSwept.run(sweepId, kind, id));
    },

    async countKnown(kind) {
      return countKnown.get(kind) as number;
    },

    async heldDeletions(wall) {
      return listHeld.all(iso(wall)) as { kind: Kind; id: string; sweepId: number }[];
    },
  };

  function sweepFor(kind: Kind, sweepId: number | null): number {
    return sweepId ?? (lastSweep.get(kind) as number | null) ?? 0;
  }

  function stillProven(held: Held): boolean {
    const { hint, write, missingNumber } = held.state;
    return missingNumber !== null && hint <= missingNumber && write <= missingNumber;
  }
}
