import type { Kind } from '../../compliance/kinds.ts';
import {
  causeOfDeletion,
  decideKept,
  decideTombstone,
  decideUnlisted,
  isKept,
  type Said,
} from '../../mirror/deletions.ts';
import { diffContent } from '../../mirror/merge.ts';
import type { Database, Unit } from '../database.ts';
import { digestOf } from '../reports.ts';
import { pendingDeletions as pending, recordState as states } from '../schema.ts';
import { sql } from '../statement.ts';
import type { Cause, Conclusion, DirtyTiming, Now } from '../values.ts';
import {
  addPending,
  BY_PERSON,
  dropPending,
  isAlive,
  isAnnounced,
  noLongerPending,
  pendingAmong,
  pendingIds,
  saidOf,
  waitingIds,
} from './pending-deletions.ts';
import { resolveRecords, weighPending } from './problems.ts';
import { reading } from './reading.ts';
import {
  type Change,
  type LoadedRecord,
  loadRecords,
  nameEvents,
  TABLE_OF,
  tableName,
  writeContent,
} from './records.ts';
import { saveRecords } from './saving.ts';
import { idsOf, iso, singleValue, update } from './sql.ts';

/** Ids that two complete list scans, the second begun at `beganAt`, did not show, as of `number`. Null: only 404s are the proof. */
type Proof = { absent: readonly string[]; number: number; beganAt: number } | null;

interface Context {
  timing: DirtyTiming;
  cause: Cause;
  /** Of living records whose deletion nobody announced or approved only these are judged; null: all that are proven gone. */
  unannounced: readonly string[] | null;
  guardPercent: number;
}

/** The verbs that turn proven absences into tombstones or pending deletions. */
export function createDeletionVerbs(database: Database) {
  const { sql: statements } = database;

  async function conclude(
    unit: Unit,
    kind: Kind,
    candidates: ReadonlyMap<string, LoadedRecord>,
    said: ReadonlyMap<string, Said>,
    context: Context,
    now: Now,
  ): Promise<Omit<Conclusion, 'left'>> {
    const nowIso = iso(now.wall);
    const isSettled = ({ id, state }: LoadedRecord) => isKept(state, said.get(id)?.keptNumber);
    const leaving = [...candidates.values()].filter((one) => isAlive(one) && !isSettled(one));
    const asked = leaving.map((one) => ({ id: one.id, announced: isAnnounced(one) }));
    const pending = await pendingAmong(unit, kind, asked, said, context.guardPercent, now);
    const changes: Change[] = [];
    const gone: string[] = [];
    const conclusion: Omit<Conclusion, 'left'> = { deleted: [], pending };
    for (const candidate of candidates.values()) {
      const { id, state } = candidate;
      if (isAlive(candidate) && isSettled(candidate)) {
        candidate.state = decideKept({ ...state, dueAt: null });
      } else if (pending.includes(id)) {
        const undecided = { missingSince: null, missingNumber: null, proven: false, dueAt: null };
        candidate.state = { ...state, ...undecided, unverifiedSince: state.unverifiedSince ?? now.wall };
      } else {
        gone.push(id);
        const cause = causeOfDeletion(candidate);
        if (cause !== null) conclusion.deleted.push({ id, cause });
        const change = makeTombstone(
          candidate,
          said.get(id)?.approved ? BY_PERSON : context.cause,
          now,
          unit,
        );
        if (change !== null) changes.push(change);
      }
    }
    await nameEvents(unit, changes, candidates);
    saveRecords(unit, candidates.values(), changes, nowIso);
    await dropPending(unit, kind, gone, nowIso);
    await resolveRecords(unit, kind, gone, nowIso);
    await addPending(unit, kind, pending, now);
    return conclusion;
  }

  /** Those that the API may not show yet are put off. */
  async function candidatesOf(
    unit: Unit,
    kind: Kind,
    proof: Proof,
    timing: DirtyTiming,
    nowIso: string,
  ): Promise<LoadedRecord[]> {
    const proven = await idsOf(
      unit,
      sql`SELECT id FROM record_state${unit.dialect.indexedBy('record_state_missing')}
        WHERE kind = ${kind} AND proven AND missing_since IS NOT NULL ORDER BY id`,
    );
    const absent = proof?.absent ?? [];
    const loaded = await loadRecords(unit, kind, [...proven, ...absent]);
    const number = proof?.number ?? 0;
    const recordsOf = (ids: readonly string[]) => ids.map((id) => loaded.get(id)!);
    const early: LoadedRecord[] = [];
    const gone = recordsOf(absent).filter((record) => {
      if (proof === null || !isUntouchedSince(record, number)) return false;
      const state = decideUnlisted(record, proof, timing);
      if (state === null) return true;
      record.state = state;
      early.push(record);
      return false;
    });
    if (early.length > 0) saveRecords(unit, early, [], nowIso);
    return [
      ...recordsOf(proven).filter((record) => isUntouchedSince(record, record.state.missingNumber)),
      ...gone,
    ];
  }

  /** Without an API nothing proves what an event has announced: the person does. */
  async function deleteAnnounced(unit: Unit, kind: Kind, ids: readonly string[], now: Now): Promise<void> {
    const nowIso = iso(now.wall);
    const announced = [...(await loadRecords(unit, kind, ids)).values()].filter(isAnnounced);
    const changes = announced.map((record) => {
      const tombstone = { ...record.row!, deletedAt: nowIso };
      const context = { cause: BY_PERSON, nowIso, numbers: unit.numbers };
      return writeContent(record, tombstone, diffContent(record.row, tombstone)!, context);
    });
    saveRecords(unit, announced, changes, nowIso);
    await dropPending(
      unit,
      kind,
      announced.map(({ id }) => id),
      nowIso,
    );
  }

  return {
    /** Turns proven absences into tombstones, or into pending deletions with a problem that asks an operator. */
    concludeDeletions: (kind: Kind, proof: Proof, context: Context, now: Now): Promise<Conclusion> =>
      database.transact(async (unit) => {
        const candidates = await candidatesOf(unit, kind, proof, context.timing, iso(now.wall));
        const ids = candidates.map(({ id }) => id);
        const said = await saidOf(unit, kind, ids, iso(now.wall));
        const { unannounced } = context;
        const judged = candidates.filter(
          (one) =>
            unannounced === null ||
            unannounced.includes(one.id) ||
            // An approval may end before the full sync that it led to.
            said.get(one.id)?.approved ||
            !isAlive(one) ||
            isAnnounced(one),
        );
        const left = candidates.length - judged.length;
        if (judged.length === 0) return { deleted: [], pending: [], left };
        const byId = new Map(judged.map((one) => [one.id, one]));
        return { ...(await conclude(unit, kind, byId, said, context, now)), left };
      }),

    /**
     * The API does not show the record, and nothing can prove that it is gone: if a row shows it alive, and so many reads in a row have
     * failed, its deletion waits for a person.
     */
    askToDelete: (
      kind: Kind,
      id: string,
      why: string,
      now: Now,
      failures = 0,
    ): Promise<'pending' | 'approved' | null> =>
      database.transact(async (unit) => {
        const record = (await loadRecords(unit, kind, [id])).get(id)!;
        if (!isAlive(record) || record.state.attempts < failures) return null;
        const said = (await saidOf(unit, kind, [id], iso(now.wall))).get(id);
        if (said?.approved) return 'approved';
        if (!isKept(record.state, said?.keptNumber)) await addPending(unit, kind, [id], now, why);
        return 'pending';
      }),

    /** A person has approved the record's deletion, and the approval is not over. */
    isApproved: async (kind: Kind, id: string, wall: number): Promise<boolean> =>
      (await saidOf(statements, kind, [id], iso(wall))).get(id)?.approved === true,

    /**
     * What a person decides about exactly the pending deletions of this digest. Approved until then: the next proof deletes them; without
     * an API (`eventsOnly`) this does. Kept: the records stay, until the API shows them or an event announces them anew. Returns their
     * ids; null: these are others by now.
     */
    decideDeletions: (
      kind: Kind,
      digest: string,
      decision: 'keep' | { untilWall: number; eventsOnly: boolean },
      now: Now,
    ): Promise<string[] | null> =>
      database.transact(async (unit) => {
        const nowIso = iso(now.wall);
        const ids = await pendingIds(unit, kind);
        if (ids.length === 0 || digestOf(kind, ids) !== digest) return null;
        const named = sql`kind = ${kind} AND ${unit.dialect.isAmong(pending.id, ids)}`;
        if (decision === 'keep') {
          const kept = [...(await loadRecords(unit, kind, ids)).values()];
          for (const record of kept) record.state = decideKept(record.state);
          saveRecords(unit, kept, [], nowIso);
          const refused = { approvedUntil: null, keptNumber: unit.numbers.next() };
          await unit.change(update(pending, refused, named));
          await noLongerPending(unit, kind, ids, nowIso);
          return ids;
        }
        await unit.change(update(pending, { approvedUntil: iso(decision.untilWall) }, named));
        weighPending(unit, nowIso);
        if (decision.eventsOnly) await deleteAnnounced(unit, kind, ids, now);
        return ids;
      }),

    /**
     * A living record, not one of `besides`, to be read as a witness, and its failed reads in a row: if possible one that is verified, or
     * whose last read succeeded. `verified`: no other. `shownBy`: only what this full sync has seen.
     */
    someLiveRecord: reading(
      async (
        kind: Kind,
        besides: readonly string[],
        { verified = false, shownBy = null }: { verified?: boolean; shownBy?: number | null } = {},
      ): Promise<{ id: string; attempts: number } | null> => {
        const { dialect } = statements;
        const deleted = sql`${TABLE_OF[kind]} AS r${dialect.indexedBy(`${tableName(kind)}_deleted`)}`;
        const isVerified = verified ? sql`unverified_since IS NULL` : sql`true`;
        const isShown = shownBy === null ? sql`true` : sql`sync_run_id >= ${shownBy}`;
        // With NOT IN, PostgreSQL compares each record with each deleted one when these are more than it may keep in memory.
        const found = await statements.query<{ id: string; attempts: number }>(
          sql`SELECT id, attempts FROM record_state WHERE kind = ${kind} AND NOT ${dialect.isAmong(states.id, besides)} AND returned
            AND ${isVerified} AND ${isShown}
            AND NOT EXISTS (SELECT 1 FROM ${deleted} WHERE r.id = record_state.id AND r.deleted_at IS NOT NULL)
            ORDER BY unverified_since IS NOT NULL, attempts > 0, read_number DESC LIMIT 1`,
        );
        return found[0] ?? null;
      },
    ),

    /** The pending deletions of a kind: what names exactly these, and until when all of them are approved; null: not all are. */
    pendingOf: reading(async (kind: Kind, wall: number) => {
      const ids = await pendingIds(statements, kind);
      const waiting = await waitingIds(statements, kind, iso(wall));
      const until = sql`SELECT min(approved_until) FROM pending_deletions WHERE kind = ${kind} AND kept_number IS NULL`;
      const approvedUntil = waiting.length > 0 ? null : await singleValue<string>(statements, until);
      return { count: ids.length, digest: digestOf(kind, ids), approvedUntil };
    }),
  };
}

const isUntouchedSince = ({ state }: LoadedRecord, number: number | null) =>
  number !== null && state.dirty <= number && state.write <= number;

function makeTombstone(candidate: LoadedRecord, cause: Cause, now: Now, { numbers }: Unit): Change | null {
  const nowIso = iso(now.wall);
  const { row, change, state } = decideTombstone(candidate, now, nowIso);
  candidate.state = state;
  const written =
    row === null || change === null ? null : writeContent(candidate, row, change, { cause, nowIso, numbers });
  if (candidate.row !== null) candidate.row.verifiedAt = nowIso;
  return written;
}
