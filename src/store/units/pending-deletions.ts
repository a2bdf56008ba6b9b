import type { Kind } from '../../compliance/kinds.ts';
import { decideDeletions, GUARD_WINDOW_MS, type Leaving, type Said } from '../../mirror/deletions.ts';
import { listed } from '../../platform/errors.ts';
import type { Sql, Unit } from '../database.ts';
import { digestOf } from '../reports.ts';
import { pendingDeletions as pending } from '../schema.ts';
import { sql } from '../statement.ts';
import type { Cause, Now } from '../values.ts';
import { countOf } from './due.ts';
import { endProblem, openProblem, showAs } from './problems.ts';
import { type LoadedRecord, TABLE_OF } from './records.ts';
import { idsOf, iso, singleValue, update } from './sql.ts';

/** Deletions that wait for a person. */

export const BY_PERSON: Cause = { cause: 'person', causeId: null };

const isWaiting = (nowIso: string) =>
  sql`kept_number IS NULL AND (approved_until IS NULL OR approved_until <= ${nowIso})`;

/** Those of approved ones too, which wait for their proof. */
export const pendingIds = (from: Sql, kind: Kind): Promise<string[]> =>
  idsOf(from, sql`SELECT id FROM pending_deletions WHERE kind = ${kind} AND kept_number IS NULL ORDER BY id`);

/** Those that no approval covers. */
export const waitingIds = (from: Sql, kind: Kind, nowIso: string): Promise<string[]> =>
  idsOf(
    from,
    sql`SELECT id FROM pending_deletions WHERE kind = ${kind} AND ${isWaiting(nowIso)} ORDER BY id`,
  );

/** Those with deletions that no approval covers. */
export async function kindsWithPending(from: Sql, nowIso: string): Promise<Kind[]> {
  const rows = await from.query<{ kind: Kind }>(
    sql`SELECT DISTINCT kind FROM pending_deletions WHERE ${isWaiting(nowIso)}`,
  );
  return rows.map(({ kind }) => kind);
}

/** What a person has said of the deletion of these. */
export async function saidOf(
  from: Sql,
  kind: Kind,
  ids: readonly string[],
  nowIso: string,
): Promise<Map<string, Said>> {
  const rows = await from.query<{ id: string; approved: boolean | 0 | 1 | null; keptNumber: number | null }>(
    sql`SELECT id, approved_until > ${nowIso} AS approved, kept_number AS "keptNumber" FROM pending_deletions
      WHERE kind = ${kind} AND ${from.dialect.isAmong(pending.id, ids)}`,
  );
  return new Map(
    rows.map(({ id, approved, keptNumber }) => [id, { approved: Boolean(approved), keptNumber }]),
  );
}

/** Which of these living records of one kind stay alive until a person decides. */
export async function pendingAmong(
  unit: Unit,
  kind: Kind,
  leaving: readonly Pick<Leaving, 'id' | 'announced'>[],
  said: ReadonlyMap<string, Said>,
  percent: number,
  now: Now,
): Promise<string[]> {
  if (leaving.length === 0) return [];
  const ours = new Set(leaving.map(({ id }) => id));
  const rows = TABLE_OF[kind];
  const since = iso(now.wall - GUARD_WINDOW_MS);
  const recent = sql`SELECT count(*) FROM ${rows} WHERE ${rows.deletedAt} >= ${since} AND ${rows.cause} <> ${BY_PERSON.cause}`;
  const waiting = await waitingIds(unit, kind, iso(now.wall));
  const guarded = {
    percent,
    live: await countOf(unit, kind, 'live'),
    recent: (await singleValue<number>(unit, recent))!,
    waiting: waiting.filter((id) => !ours.has(id)).length,
  };
  const asked = leaving.map(({ id, announced }): Leaving => {
    const { approved = false, keptNumber = null } = said.get(id) ?? {};
    return { id, announced, approved, kept: keptNumber !== null };
  });
  return decideDeletions(asked, guarded).pending;
}

/** Of living records whose deletion events announce now: those that stay alive until a person decides. */
export async function guardAnnounced(
  unit: Unit,
  announced: readonly LoadedRecord[],
  percent: number,
  now: Now,
): Promise<Set<LoadedRecord>> {
  const waiting: LoadedRecord[] = [];
  for (const [kind, ofKind] of Map.groupBy(announced, (record) => record.kind)) {
    const leaving = ofKind.map(({ id }) => ({ id, announced: true }));
    const ids = ofKind.map(({ id }) => id);
    const said = await saidOf(unit, kind, ids, iso(now.wall));
    const pending = new Set(await pendingAmong(unit, kind, leaving, said, percent, now));
    waiting.push(...ofKind.filter(({ id }) => pending.has(id)));
  }
  return new Set(waiting);
}

/** After these were shown: what of them waits for a person, and what does not any more. */
export async function noteAnnounced(unit: Unit, announced: readonly LoadedRecord[], now: Now): Promise<void> {
  for (const [kind, ofKind] of Map.groupBy(announced, (record) => record.kind)) {
    const gone = ofKind.filter((record) => !isAlive(record)).map(({ id }) => id);
    await dropPending(unit, kind, gone, iso(now.wall));
    const waiting = ofKind.filter((record) => isAlive(record) && isAnnounced(record)).map(({ id }) => id);
    await addPending(unit, kind, waiting, now);
  }
}

/** The API shows these records, or they are deleted: nobody need decide about them. */
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
  if (gone > 0) await noLongerPending(unit, kind, ids, nowIso);
}

/** After the last one of the kind, resolves its problem. */
export async function noLongerPending(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  nowIso: string,
): Promise<void> {
  const rows = TABLE_OF[kind];
  await unit.change(update(rows, { deletionPendingSince: null }, unit.dialect.isAmong(rows.id, ids)));
  // Approved ones count too: they still wait for the next proof.
  const problem = { reason: 'pending_deletions', kind, recordId: null } as const;
  const left = await pendingIds(unit, kind);
  if (left.length > 0) await showAs(unit, problem, { digest: digestOf(kind, left) });
  else await endProblem(unit, problem, nowIso);
}

export const isAlive = ({ row }: LoadedRecord) => row !== null && row.deletedAt === null;

export const isAnnounced = ({ state }: LoadedRecord) => state.deleteEvent !== null;

/** In one statement each, since a service that lost its data may have as many as it had records. */
export async function addPending(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  now: Now,
  why?: string,
): Promise<void> {
  if (ids.length === 0) return;
  const nowIso = iso(now.wall);
  const { dialect } = unit;
  const rows = TABLE_OF[kind];
  unit.send(
    sql`INSERT INTO pending_deletions AS p (kind, id, pending_since)
      SELECT ${kind}, listed.id, ${dialect.instant(nowIso)} FROM ${dialect.listed(ids)} WHERE true
      ON CONFLICT (kind, id) DO UPDATE SET kept_number = NULL,
        pending_since = CASE WHEN p.kept_number IS NULL THEN p.pending_since ELSE excluded.pending_since END`,
  );
  const isNew = sql`deletion_pending_since IS NULL AND ${dialect.isAmong(rows.id, ids)}`;
  unit.send(update(rows, { deletionPendingSince: nowIso }, isNew));
  const waiting = await waitingIds(unit, kind, nowIso);
  const others = waiting.filter((id) => !ids.includes(id)).length;
  const rest = others === 0 ? '' : `; ${others} more ${others === 1 ? 'waits' : 'wait'}`;
  const text =
    why === undefined
      ? `${waiting.length} within a short time: ${listed(waiting)}`
      : `${listed(ids)}: ${why}${rest}`;
  const problem = { reason: 'pending_deletions', kind, recordId: null } as const;
  await openProblem(unit, problem, text, now);
  await showAs(unit, problem, { digest: digestOf(kind, await pendingIds(unit, kind)) });
}
