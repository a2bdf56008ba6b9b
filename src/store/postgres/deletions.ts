import type { Kind } from '../../compliance/kinds.ts';
import { MirrorError } from '../../errors.ts';
import { causeOfDeletion, decideBurial, decideDeletions } from '../../mirror/decide.ts';
import type { BackfillStore, Conclusion, Now } from '../store.ts';
import type { Database, Sql, Unit } from './connection.ts';
import { countLive } from './due.ts';
import { healGap, healRecords } from './gaps.ts';
import { type Change, type Held, isoOf, loadRecords, saveRecords, writeContent } from './records.ts';
import { instantOf } from './types.ts';

type DeletionVerbs = Pick<
  BackfillStore,
  | 'concludeDeletions'
  | 'holdDeletion'
  | 'confirmDeletions'
  | 'countProofs'
  | 'someLiveRecord'
  | 'heldDeletions'
>;
type Proof = Parameters<BackfillStore['concludeDeletions']>[1];
type Context = Parameters<BackfillStore['concludeDeletions']>[2];

/** What is asked of the newest records, to find one that lives. */
const LIVE_LOOKED_AT = 20;

/** The verbs that turn proven absences into tombstones, or hold them for an operator. */
export function createDeletionVerbs(database: Database): DeletionVerbs {
  const { sql } = database;
  return {
    async concludeDeletions(kind, proof, context, now) {
      return await database.transact(async (unit) => {
        await requireLease(unit, context);
        const candidates = await candidatesOf(unit, kind, proof, context.onlyAnnounced);
        if (candidates.size === 0) return { deleted: [], held: [], waiting: await countHeld(unit, kind) };
        return await conclude(unit, kind, candidates, context, now);
      });
    },

    async holdDeletion(kind, id, sweepId, now) {
      await database.transact(async (unit) => {
        await hold(unit, kind, [id], await sweepFor(unit, kind, sweepId), instantOf(now.wall));
      });
    },

    async confirmDeletions(sweepId, untilWall, ids) {
      return await database.transact(async (unit) => {
        const rows = await unit.query<{ kind: Kind; id: string }>(
          `UPDATE held_deletions SET consent_until = $1 WHERE sweep_id = $2 AND ($3::text[] IS NULL OR id = ANY ($3::text[]))
           RETURNING kind, id`,
          [instantOf(untilWall), sweepId, ids ?? null],
        );
        return { kind: rows[0]?.kind ?? 'policy', ids: rows.map((row) => row.id).sort() };
      });
    },

    async countProofs(kind) {
      const [row] = await sql.query<{ awaiting: number; proven: number }>(
        `SELECT count(*) FILTER (WHERE NOT proven AND attempts = 0) AS awaiting, count(*) FILTER (WHERE proven) AS proven
         FROM record_state WHERE kind = $1 AND missing_since IS NOT NULL`,
        [kind],
      );
      return row ?? { awaiting: 0, proven: 0 };
    },

    async someLiveRecord(kind, besides) {
      const rows = await sql.query<{ id: string }>(
        `SELECT id FROM record_state WHERE kind = $1 AND id <> $2 AND returned AND unverified_since IS NULL
         ORDER BY read_number DESC LIMIT $3`,
        [kind, besides, LIVE_LOOKED_AT],
      );
      const ids = rows.map((row) => row.id);
      const records = await loadRecords(sql, kind, ids);
      return ids.find((id) => records.get(id)?.row?.deletedAt === null) ?? null;
    },

    async heldDeletions(wall) {
      return await sql.query<{ kind: Kind; id: string; sweepId: number }>(
        `SELECT kind, id, sweep_id AS "sweepId" FROM held_deletions
         WHERE consent_until IS NULL OR consent_until <= $1 ORDER BY kind, id`,
        [instantOf(wall)],
      );
    },
  };
}

/** Has an operator agreed to the deletion of the record? */
export async function isConsented(sql: Sql, kind: Kind, id: string, nowIso: string): Promise<boolean> {
  return (await consented(sql, kind, [id], nowIso)).has(id);
}

/** Nothing is held of these records any more; with the last one of the kind, nothing is left to ask anybody. */
export async function letGo(unit: Unit, kind: Kind, ids: readonly string[], nowIso: string): Promise<void> {
  if (ids.length === 0) return;
  const gone = await unit.change('DELETE FROM held_deletions WHERE kind = $1 AND id = ANY ($2::text[])', [
    kind,
    ids,
  ]);
  if (gone === 0 || (await countHeld(unit, kind)) > 0) return;
  await healGap(unit, { reason: 'deletion_held', kind, recordId: null }, nowIso);
}

async function requireLease(sql: Sql, { lease }: Context): Promise<void> {
  if (lease === undefined) return;
  const rows = await sql.query(
    'SELECT 1 FROM leases WHERE name = $1 AND owner = $2 AND fence = $3 FOR SHARE',
    [lease.name, lease.owner, lease.fence],
  );
  if (rows.length === 0) {
    throw new MirrorError('lease_lost', `another process has taken over "${lease.name}"`);
  }
}

async function candidatesOf(
  unit: Unit,
  kind: Kind,
  proof: Proof,
  onlyAnnounced: boolean,
): Promise<Map<string, Held>> {
  const rows = await unit.query<{ id: string }>(
    'SELECT id FROM record_state WHERE kind = $1 AND proven AND missing_since IS NOT NULL ORDER BY id',
    [kind],
  );
  const proven = rows.map((row) => row.id);
  const absent = proof?.absent ?? [];
  const records = await loadRecords(unit, kind, [...proven, ...absent]);
  const number = proof?.number ?? 0;
  const candidates = [
    ...proven.filter((id) => isUntouchedSince(records.get(id)!, records.get(id)!.state.missingNumber)),
    ...absent.filter((id) => isUntouchedSince(records.get(id)!, number)),
  ];
  return new Map(
    candidates
      .map((id) => [id, records.get(id)!] as const)
      .filter(([, held]) => !onlyAnnounced || held.state.deleteEvent !== null),
  );
}

const isUntouchedSince = ({ state }: Held, number: number | null) =>
  number !== null && state.hint <= number && state.write <= number;

async function conclude(
  unit: Unit,
  kind: Kind,
  candidates: ReadonlyMap<string, Held>,
  context: Context,
  now: Now,
): Promise<Conclusion> {
  const nowIso = isoOf(now.wall);
  const agreed = await consented(unit, kind, [...candidates.keys()], nowIso);
  const waiting = await unit.query<{ id: string }>(
    'SELECT id FROM held_deletions WHERE kind = $1 AND (consent_until IS NULL OR consent_until <= $2)',
    [kind, nowIso],
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
    const held = candidates.get(id)!;
    const cause = causeOfDeletion(held);
    const change = bury(held, context.cause, now, unit);
    if (change !== null) changes.push(change);
    return cause === null ? [] : [{ id, cause }];
  });
  for (const id of verdict.held) {
    const held = candidates.get(id)!;
    held.state = { ...held.state, missingSince: null, missingNumber: null, proven: false, dueAt: null };
    held.state.unverifiedSince ??= now.wall;
  }
  const judged = [...verdict.deleted, ...verdict.held].map((id) => candidates.get(id)!);
  saveRecords(unit, judged, changes, nowIso);
  await letGo(unit, kind, verdict.deleted, nowIso);
  await healRecords(unit, kind, verdict.deleted, nowIso);
  await hold(unit, kind, verdict.held, await sweepFor(unit, kind, context.sweepId), nowIso);
  return { deleted, held: verdict.held, waiting: await countHeld(unit, kind) };
}

function bury(held: Held, cause: string, now: Now, { numbers }: Unit): Change | null {
  const nowIso = isoOf(now.wall);
  const { row, change, state } = decideBurial(held.kind, held, now, nowIso);
  held.state = state;
  const written =
    row === null || change === null ? null : writeContent(held, row, change, { cause, nowIso, numbers });
  if (held.row !== null) held.row.verifiedAt = nowIso;
  return written;
}

async function hold(
  sql: Sql,
  kind: Kind,
  ids: readonly string[],
  sweepId: number,
  nowIso: string,
): Promise<void> {
  if (ids.length === 0) return;
  await sql.change(
    `INSERT INTO held_deletions (kind, id, sweep_id, held_at) SELECT $1, id, $3::bigint, $4::timestamptz
     FROM unnest($2::text[]) AS id ON CONFLICT (kind, id) DO UPDATE SET sweep_id = excluded.sweep_id`,
    [kind, ids, sweepId, nowIso],
  );
}

async function sweepFor(sql: Sql, kind: Kind, sweepId: number | null): Promise<number> {
  if (sweepId !== null) return sweepId;
  const [row] = await sql.query<{ last: number | null }>(
    'SELECT max(id) AS last FROM sweeps WHERE kind = $1',
    [kind],
  );
  return row?.last ?? 0;
}

async function consented(sql: Sql, kind: Kind, ids: readonly string[], nowIso: string): Promise<Set<string>> {
  const rows = await sql.query<{ id: string }>(
    'SELECT id FROM held_deletions WHERE kind = $1 AND id = ANY ($2::text[]) AND consent_until > $3',
    [kind, ids, nowIso],
  );
  return new Set(rows.map((row) => row.id));
}

async function countHeld(sql: Sql, kind: Kind): Promise<number> {
  const [row] = await sql.query<{ n: number }>('SELECT count(*) AS n FROM held_deletions WHERE kind = $1', [
    kind,
  ]);
  return row?.n ?? 0;
}
