import type { Kind } from '../../compliance/kinds.ts';
import { MirrorError } from '../../errors.ts';
import { causeOfDeletion, decideBurial, decideDeletions } from '../../mirror/decide.ts';
import type { Database, Sql, Unit } from '../database.ts';
import { pendingDeletions as held, leases, recordState as states, syncRuns } from '../schema.sqlite.ts';
import type { BackfillStore, Conclusion, Now } from '../store.ts';
import { countLive } from './due.ts';
import { resolveGap, resolveRecords } from './gaps.ts';
import { type Change, type Held, type Records, writeContent } from './records.ts';
import { as, excluded, iso, set, sql } from './sql.ts';

type DeletionVerbs = Pick<
  BackfillStore,
  | 'concludeDeletions'
  | 'holdForApproval'
  | 'approveDeletions'
  | 'countProofs'
  | 'someLiveRecord'
  | 'pendingDeletions'
>;
type Proof = Parameters<BackfillStore['concludeDeletions']>[1];
type Context = Parameters<BackfillStore['concludeDeletions']>[2];

/** What is asked of the newest records, to find one that lives. */
const LIVE_LOOKED_AT = 20;

/** The verbs that turn proven absences into tombstones, or hold them for an operator. */
export function createDeletionVerbs(database: Database, records: Records): DeletionVerbs {
  const { sql: statements } = database;

  async function conclude(
    unit: Unit,
    kind: Kind,
    candidates: ReadonlyMap<string, Held>,
    context: Context,
    now: Now,
  ): Promise<Conclusion> {
    const nowIso = iso(now.wall);
    const agreed = await consented(unit, kind, [...candidates.keys()], nowIso);
    const waiting = await unit.query<{ id: string }>(
      sql`SELECT ${held.id} FROM ${held} WHERE ${held.kind} = ${kind} AND ${hasNoConsent(nowIso)}`,
    );
    const verdict = decideDeletions(
      [...candidates.values()].map(({ id, state, row }) => ({
        id,
        // What is not shown alive needs nobody's consent to stay that way.
        announced: state.deleteEvent !== null || row === null || row.deletedAt !== null,
        consented: agreed.has(id),
      })),
      await countLive(unit, kind),
      waiting.filter(({ id }) => !candidates.has(id)).length,
    );
    const changes: Change[] = [];
    const deleted = verdict.deleted.flatMap((id) => {
      const candidate = candidates.get(id)!;
      const cause = causeOfDeletion(candidate);
      const change = bury(candidate, context.cause, now, unit);
      if (change !== null) changes.push(change);
      return cause === null ? [] : [{ id, cause }];
    });
    for (const id of verdict.held) {
      const candidate = candidates.get(id)!;
      const undecided = { missingSince: null, missingNumber: null, proven: false, dueAt: null };
      candidate.state = { ...candidate.state, ...undecided };
      candidate.state.unverifiedSince ??= now.wall;
    }
    const judged = [...verdict.deleted, ...verdict.held].map((id) => candidates.get(id)!);
    records.save(unit, judged, changes, nowIso);
    await letGo(unit, kind, verdict.deleted, nowIso);
    await resolveRecords(unit, kind, verdict.deleted, nowIso);
    const syncRunId = await fullSyncFor(unit, kind, context.syncRunId);
    hold(unit, kind, verdict.held, syncRunId, nowIso);
    return { deleted, held: verdict.held, waiting: await countHeld(unit, kind) };
  }

  async function candidatesOf(
    unit: Unit,
    kind: Kind,
    proof: Proof,
    onlyAnnounced: boolean,
  ): Promise<Map<string, Held>> {
    const rows = await unit.query<{ id: string }>(
      sql`SELECT ${states.id} FROM ${states}${unit.dialect.indexedBy('record_state_missing')}
        WHERE ${states.kind} = ${kind} AND ${states.proven}
        AND ${states.missingSince} IS NOT NULL ORDER BY ${states.id}`,
    );
    const proven = rows.map((row) => row.id);
    const absent = proof?.absent ?? [];
    const loaded = await records.load(unit, kind, [...proven, ...absent]);
    const number = proof?.number ?? 0;
    const candidates = [
      ...proven.filter((id) => isUntouchedSince(loaded.get(id)!, loaded.get(id)!.state.missingNumber)),
      ...absent.filter((id) => isUntouchedSince(loaded.get(id)!, number)),
    ];
    return new Map(
      candidates
        .map((id) => [id, loaded.get(id)!] as const)
        .filter(([, { state }]) => !onlyAnnounced || state.deleteEvent !== null),
    );
  }

  return {
    concludeDeletions: (kind, proof, context, now) =>
      database.transact(async (unit) => {
        await requireLease(unit, context);
        const candidates = await candidatesOf(unit, kind, proof, context.onlyAnnounced);
        if (candidates.size === 0) return { deleted: [], held: [], waiting: await countHeld(unit, kind) };
        return await conclude(unit, kind, candidates, context, now);
      }),

    async holdForApproval(kind, id, syncRunId, now) {
      await database.transact(async (unit) =>
        hold(unit, kind, [id], await fullSyncFor(unit, kind, syncRunId), iso(now.wall)),
      );
    },

    approveDeletions: (syncRunId, untilWall, ids) =>
      database.transact(async (unit) => {
        const among = ids === undefined ? sql`true` : unit.dialect.isAmong(held.id, ids);
        const rows = await unit.query<{ kind: Kind; id: string }>(
          sql`UPDATE ${held} SET ${set(held, { consentUntil: iso(untilWall) })} WHERE ${held.syncRunId} = ${syncRunId} AND ${among}
            RETURNING ${as({ kind: held.kind, id: held.id })}`,
        );
        return { kind: rows[0]?.kind ?? 'policy', ids: rows.map((row) => row.id).sort() };
      }),

    async countProofs(kind) {
      const [row] = await statements.query<{ awaiting: number; proven: number }>(
        sql`SELECT count(*) FILTER (WHERE NOT ${states.proven} AND ${states.attempts} = 0) AS awaiting,
            count(*) FILTER (WHERE ${states.proven}) AS proven
          FROM ${states}${statements.dialect.indexedBy('record_state_missing')}
          WHERE ${states.kind} = ${kind} AND ${states.missingSince} IS NOT NULL`,
      );
      return row!;
    },

    async someLiveRecord(kind, besides) {
      const rows = await statements.query<{ id: string }>(
        sql`SELECT ${states.id} FROM ${states} WHERE ${states.kind} = ${kind} AND ${states.id} <> ${besides}
          AND ${states.returned} AND ${states.unverifiedSince} IS NULL
          ORDER BY ${states.readNumber} DESC LIMIT ${LIVE_LOOKED_AT}`,
      );
      const ids = rows.map((row) => row.id);
      const loaded = await records.load(statements, kind, ids);
      return ids.find((id) => loaded.get(id)?.row?.deletedAt === null) ?? null;
    },

    pendingDeletions: (wall) =>
      statements.query<{ kind: Kind; id: string; syncRunId: number }>(
        sql`SELECT ${as({ kind: held.kind, id: held.id, syncRunId: held.syncRunId })} FROM ${held}
          WHERE ${hasNoConsent(iso(wall))} ORDER BY ${held.kind}, ${held.id}`,
      ),
  };
}

const hasNoConsent = (nowIso: string) =>
  sql`(${held.consentUntil} IS NULL OR ${held.consentUntil} <= ${nowIso})`;

/** Has an operator agreed to the deletion of the record? */
export async function isConsented(unit: Sql, kind: Kind, id: string, nowIso: string): Promise<boolean> {
  return (await consented(unit, kind, [id], nowIso)).has(id);
}

async function consented(
  unit: Sql,
  kind: Kind,
  ids: readonly string[],
  nowIso: string,
): Promise<Set<string>> {
  const rows = await unit.query<{ id: string }>(
    sql`SELECT ${held.id} FROM ${held} WHERE ${held.kind} = ${kind} AND ${unit.dialect.isAmong(held.id, ids)}
      AND ${held.consentUntil} > ${nowIso}`,
  );
  return new Set(rows.map((row) => row.id));
}

/** Nothing is held of these records any more; with the last one of the kind, nothing is left to ask anybody. */
export async function letGo(unit: Unit, kind: Kind, ids: readonly string[], nowIso: string): Promise<void> {
  if (ids.length === 0) return;
  const gone = await unit.change(
    sql`DELETE FROM ${held} WHERE ${held.kind} = ${kind} AND ${unit.dialect.isAmong(held.id, ids)}`,
  );
  if (gone === 0 || (await countHeld(unit, kind)) > 0) return;
  await resolveGap(unit, { reason: 'deletion_pending', kind, recordId: null }, nowIso);
}

async function requireLease(unit: Unit, { lease }: Context): Promise<void> {
  if (lease === undefined) return;
  const { name, owner, fence } = leases;
  const rows = await unit.query(
    sql`SELECT 1 FROM ${leases} WHERE ${name} = ${lease.name} AND ${owner} = ${lease.owner} AND ${fence} = ${lease.fence}
      ${unit.dialect.forShare}`,
  );
  if (rows.length === 0) {
    throw new MirrorError('lease_lost', `another process has taken over "${lease.name}"`);
  }
}

const isUntouchedSince = ({ state }: Held, number: number | null) =>
  number !== null && state.dirty <= number && state.write <= number;

function bury(candidate: Held, cause: string, now: Now, { numbers }: Unit): Change | null {
  const nowIso = iso(now.wall);
  const { row, change, state } = decideBurial(candidate.kind, candidate, now, nowIso);
  candidate.state = state;
  const written =
    row === null || change === null ? null : writeContent(candidate, row, change, { cause, nowIso, numbers });
  if (candidate.row !== null) candidate.row.verifiedAt = nowIso;
  return written;
}

/** In one statement: a service that lost its data has as many as it had records. */
function hold(unit: Unit, kind: Kind, ids: readonly string[], syncRunId: number, heldAt: string): void {
  if (ids.length === 0) return;
  const { dialect } = unit;
  unit.send(
    sql`INSERT INTO ${held} (kind, id, sync_run_id, held_at)
      SELECT ${kind}, listed.id, CAST(${syncRunId} AS bigint), ${dialect.instant(heldAt)} FROM ${dialect.listed(ids)} WHERE true
      ON CONFLICT (kind, id) DO UPDATE SET ${set(held, { syncRunId: excluded(held.syncRunId) })}`,
  );
}

async function fullSyncFor(unit: Sql, kind: Kind, syncRunId: number | null): Promise<number> {
  if (syncRunId !== null) return syncRunId;
  const [row] = await unit.query<{ last: number | null }>(
    sql`SELECT max(${syncRuns.id}) AS last FROM ${syncRuns} WHERE ${syncRuns.kind} = ${kind}`,
  );
  return row?.last ?? 0;
}

async function countHeld(unit: Sql, kind: Kind): Promise<number> {
  const [row] = await unit.query<{ n: number }>(
    sql`SELECT count(*) AS n FROM ${held} WHERE ${held.kind} = ${kind}`,
  );
  return row!.n;
}
