import type { Kind } from '../../compliance/kinds.ts';
import { causeOfDeletion, decideDeletions, decideTombstone } from '../../mirror/deletions.ts';
import { listed } from '../../platform/errors.ts';
import type { Database, Sql, Unit } from '../database.ts';
import { pendingDeletions as pending, recordState as states } from '../schema.ts';
import type { Conclusion, Lease, Now } from '../values.ts';
import { countOf } from './due.ts';
import { openGap, resolveGap, resolveRecords } from './gaps.ts';
import {
  type Change,
  type LoadedRecord,
  loadRecords,
  type Records,
  TABLE_OF,
  tableName,
  writeContent,
} from './records.ts';
import { requireLease } from './replicas.ts';
import { idsOf, iso, singleValue, sql, update } from './sql.ts';

/** Ids that two complete list scans did not show, as of `number`. Null: only 404s are the proof. */
type Proof = { absent: readonly string[]; number: number } | null;

interface Context {
  cause: string;
  syncRunId: number | null;
  /** Of living records whose deletion nobody announced or approved only these are judged; null: all that are proven gone. */
  unannounced: readonly string[] | null;
  /** If it is lost, nothing is deleted: rejects with MirrorError `lease_lost`. Absent: there is no other process. */
  lease?: Lease;
}

/** The verbs that turn proven absences into tombstones or pending deletions. */
export function createDeletionVerbs(database: Database, records: Records) {
  const { sql: statements } = database;

  async function conclude(
    unit: Unit,
    kind: Kind,
    candidates: ReadonlyMap<string, LoadedRecord>,
    agreed: ReadonlySet<string>,
    context: Context,
    now: Now,
  ): Promise<Conclusion> {
    const nowIso = iso(now.wall);
    const waiting = new Set(
      await idsOf(
        unit,
        sql`SELECT id FROM pending_deletions WHERE kind = ${kind} AND ${isNotApproved(nowIso)}`,
      ),
    );
    const others = [...waiting].filter((id) => !candidates.has(id));
    const verdict = decideDeletions(
      [...candidates.values()].map(({ id, state, row }) => ({
        id,
        announced: isAnnounced({ state, row }),
        approved: agreed.has(id),
      })),
      await countOf(unit, kind, 'live'),
      others.length,
    );
    const changes: Change[] = [];
    const deleted = verdict.deleted.flatMap((id) => {
      const candidate = candidates.get(id)!;
      const cause = causeOfDeletion(candidate);
      const change = makeTombstone(candidate, context.cause, now, unit);
      if (change !== null) changes.push(change);
      return cause === null ? [] : [{ id, cause }];
    });
    for (const id of verdict.pending) {
      const candidate = candidates.get(id)!;
      const undecided = { missingSince: null, missingNumber: null, proven: false, dueAt: null };
      candidate.state = { ...candidate.state, ...undecided };
      candidate.state.unverifiedSince ??= now.wall;
    }
    const judged = [...verdict.deleted, ...verdict.pending].map((id) => candidates.get(id)!);
    records.save(unit, judged, changes, nowIso);
    await dropPending(unit, kind, verdict.deleted, nowIso);
    await resolveRecords(unit, kind, verdict.deleted, nowIso);
    // If all of these wait already, they keep the number of their sync run: a person may be about to approve it.
    if (!verdict.pending.every((id) => waiting.has(id))) {
      const syncRunId = await fullSyncFor(unit, kind, context.syncRunId);
      addPending(unit, kind, verdict.pending, syncRunId, nowIso);
    }
    if (verdict.pending.length > 0) {
      const all = [...others, ...verdict.pending].sort();
      const text = `${all.length} at once, without a delete event: ${listed(all)}`;
      await openGap(unit, { reason: 'deletion_pending', kind, recordId: null }, text, now);
    }
    return { deleted, pending: verdict.pending };
  }

  async function candidatesOf(unit: Unit, kind: Kind, proof: Proof): Promise<LoadedRecord[]> {
    const proven = await idsOf(
      unit,
      sql`SELECT id FROM record_state${unit.dialect.indexedBy('record_state_missing')}
        WHERE kind = ${kind} AND proven AND missing_since IS NOT NULL ORDER BY id`,
    );
    const absent = proof?.absent ?? [];
    const loaded = await loadRecords(unit, kind, [...proven, ...absent]);
    const number = proof?.number ?? 0;
    const recordsOf = (ids: readonly string[]) => ids.map((id) => loaded.get(id)!);
    return [
      ...recordsOf(proven).filter((record) => isUntouchedSince(record, record.state.missingNumber)),
      ...recordsOf(absent).filter((record) => isUntouchedSince(record, number)),
    ];
  }

  /** One that waits already keeps the number of its sync run: a person may be about to approve it. */
  async function askAbout(
    unit: Unit,
    { kind, id, syncRunId, text }: { kind: Kind; id: string; syncRunId: number | null; text: string },
    now: Now,
  ): Promise<void> {
    const [waiting] = await unit.query<{ own: number; others: number }>(
      sql`SELECT count(*) FILTER (WHERE id = ${id}) AS own, count(*) FILTER (WHERE id <> ${id}) AS others
        FROM pending_deletions WHERE kind = ${kind}`,
    );
    const { own, others } = waiting!;
    if (own === 0) addPending(unit, kind, [id], await fullSyncFor(unit, kind, syncRunId), iso(now.wall));
    const error = others === 0 ? text : `${text}; ${others} more ${others === 1 ? 'waits' : 'wait'}`;
    await openGap(unit, { reason: 'deletion_pending', kind, recordId: null }, error, now);
  }

  return {
    /** Turns proven absences into tombstones, or into pending deletions with a gap that asks an operator. */
    concludeDeletions: (kind: Kind, proof: Proof, context: Context, now: Now): Promise<Conclusion> =>
      database.transact(async (unit) => {
        await requireLease(unit, context.lease);
        const candidates = await candidatesOf(unit, kind, proof);
        const ids = candidates.map(({ id }) => id);
        const agreed = await approvedAmong(unit, kind, ids, iso(now.wall));
        // An approval may end before the full sync that it led to.
        const wanted = context.unannounced && new Set([...context.unannounced, ...agreed]);
        const judged = candidates.filter((one) => wanted === null || wanted.has(one.id) || isAnnounced(one));
        if (judged.length === 0) return { deleted: [], pending: [] };
        return await conclude(unit, kind, new Map(judged.map((one) => [one.id, one])), agreed, context, now);
      }),

    /** For a deletion that no witness can confirm: it waits for an operator. `syncRunId` null: the last full sync of the kind. */
    async addPendingDeletion(kind: Kind, id: string, syncRunId: number | null, now: Now): Promise<void> {
      const text = `no other live record could be read to compare with: ${id}`;
      await database.transact((unit) => askAbout(unit, { kind, id, syncRunId, text }, now));
    },

    /**
     * The API does not show the record. If a row shows it alive, its deletion waits for an operator (`pending`), or it is `approved`.
     * Null: no row does.
     */
    askToDelete: (
      kind: Kind,
      id: string,
      { why, syncRunId }: { why: string; syncRunId: number | null },
      now: Now,
    ): Promise<'pending' | 'approved' | null> =>
      database.transact(async (unit) => {
        const row = await unit.query(
          sql`SELECT 1 FROM ${TABLE_OF[kind]} WHERE id = ${id} AND deleted_at IS NULL`,
        );
        if (row.length === 0) return null;
        if (await isApproved(unit, kind, id, iso(now.wall))) return 'approved';
        await askAbout(unit, { kind, id, syncRunId, text: `${id}: ${why}` }, now);
        return 'pending';
      }),

    /** A person has approved the record's deletion, and the approval is not over. */
    isApproved: (kind: Kind, id: string, wall: number): Promise<boolean> =>
      isApproved(statements, kind, id, iso(wall)),

    /** Approves these deletions, as far as that sync run has found them. Returns the approved ids. */
    approveDeletions: (
      kind: Kind,
      ids: readonly string[],
      syncRunId: number,
      untilWall: number,
    ): Promise<string[]> =>
      database.transact(async (unit) => {
        const named = sql`kind = ${kind} AND ${unit.dialect.isAmong(pending.id, ids)} AND sync_run_id = ${syncRunId}`;
        const approved = update(pending, { approvedUntil: iso(untilWall) }, named);
        return (await idsOf(unit, sql`${approved} RETURNING id`)).sort();
      }),

    /** How many records wait for their second 404, and how many have it and wait for `concludeDeletions`. */
    async countProofs(kind: Kind): Promise<{ awaiting: number; proven: number }> {
      const [row] = await statements.query<{ awaiting: number; proven: number }>(
        sql`SELECT count(*) FILTER (WHERE NOT proven AND attempts = 0) AS awaiting, count(*) FILTER (WHERE proven) AS proven
          FROM record_state${statements.dialect.indexedBy('record_state_missing')}
          WHERE kind = ${kind} AND missing_since IS NOT NULL`,
      );
      return row!;
    },

    /** A verified live record, not one of `besides`, to be read as a witness: if possible one whose last read succeeded. */
    async someLiveRecord(kind: Kind, besides: readonly string[]): Promise<string | null> {
      const deleted = sql`${TABLE_OF[kind]} AS r${statements.dialect.indexedBy(`${tableName(kind)}_deleted`)}`;
      // With NOT IN, PostgreSQL compares each record with each deleted one when these are more than it may keep in memory.
      return await singleValue<string>(
        statements,
        sql`SELECT id FROM record_state WHERE kind = ${kind} AND NOT ${statements.dialect.isAmong(states.id, besides)} AND returned
          AND unverified_since IS NULL
          AND NOT EXISTS (SELECT 1 FROM ${deleted} WHERE r.id = record_state.id AND r.deleted_at IS NOT NULL)
          ORDER BY attempts > 0, read_number DESC LIMIT 1`,
      );
    },

    /** How many deletions are not approved at `wall`, by sync run. */
    pendingDeletions: (wall: number): Promise<{ sync_run_id: number; kind: Kind; count: number }[]> =>
      statements.query<{ sync_run_id: number; kind: Kind; count: number }>(
        sql`SELECT sync_run_id, kind, count(*) AS count FROM pending_deletions
          WHERE ${isNotApproved(iso(wall))} GROUP BY sync_run_id, kind ORDER BY kind, sync_run_id`,
      ),
  };
}

const isNotApproved = (nowIso: string) => sql`(approved_until IS NULL OR approved_until <= ${nowIso})`;

export async function isApproved(unit: Sql, kind: Kind, id: string, nowIso: string): Promise<boolean> {
  return (await approvedAmong(unit, kind, [id], nowIso)).has(id);
}

async function approvedAmong(
  unit: Sql,
  kind: Kind,
  ids: readonly string[],
  nowIso: string,
): Promise<Set<string>> {
  const approved = sql`SELECT id FROM pending_deletions
    WHERE kind = ${kind} AND ${unit.dialect.isAmong(pending.id, ids)} AND approved_until > ${nowIso}`;
  return new Set(await idsOf(unit, approved));
}

/** Ends the wait of these records' deletions. After the last one of the kind, resolves its gap. */
export async function dropPending(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  nowIso: string,
): Promise<void> {
  if (ids.length === 0) return;
  const gone = await unit.change(
    sql`DELETE FROM pending_deletions WHERE kind = ${kind} AND ${unit.dialect.isAmong(pending.id, ids)}`,
  );
  if (gone === 0) return;
  // Approved ones count too: they still wait for the next proof.
  const left = await singleValue<number>(
    unit,
    sql`SELECT count(*) FROM pending_deletions WHERE kind = ${kind}`,
  );
  if (left! > 0) return;
  await resolveGap(unit, { reason: 'deletion_pending', kind, recordId: null }, nowIso);
}

/** Or without a live row, so that there is nothing to lose. */
const isAnnounced = ({ state, row }: Pick<LoadedRecord, 'state' | 'row'>) =>
  state.deleteEvent !== null || row === null || row.deletedAt !== null;

const isUntouchedSince = ({ state }: LoadedRecord, number: number | null) =>
  number !== null && state.dirty <= number && state.write <= number;

function makeTombstone(candidate: LoadedRecord, cause: string, now: Now, { numbers }: Unit): Change | null {
  const nowIso = iso(now.wall);
  const { row, change, state } = decideTombstone(candidate.kind, candidate, now, nowIso);
  candidate.state = state;
  const written =
    row === null || change === null ? null : writeContent(candidate, row, change, { cause, nowIso, numbers });
  if (candidate.row !== null) candidate.row.verifiedAt = nowIso;
  return written;
}

/** In one statement, since a service that lost its data may have as many as it had records. */
function addPending(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  syncRunId: number,
  pendingSince: string,
): void {
  if (ids.length === 0) return;
  const { dialect } = unit;
  unit.send(
    sql`INSERT INTO pending_deletions (kind, id, sync_run_id, pending_since)
      SELECT ${kind}, listed.id, CAST(${syncRunId} AS bigint), ${dialect.instant(pendingSince)} FROM ${dialect.listed(ids)} WHERE true
      ON CONFLICT (kind, id) DO UPDATE SET sync_run_id = excluded.sync_run_id`,
  );
}

async function fullSyncFor(unit: Sql, kind: Kind, syncRunId: number | null): Promise<number> {
  if (syncRunId !== null) return syncRunId;
  return (await singleValue<number>(unit, sql`SELECT max(id) FROM sync_runs WHERE kind = ${kind}`)) ?? 0;
}
