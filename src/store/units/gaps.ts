import { randomBytes } from 'node:crypto';
import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { Database, Sql, Unit } from '../database.ts';
import { events, gaps, type SQL } from '../schema.ts';
import type { DirtyTiming, GapChange, GapKey, GapReason, Now } from '../values.ts';
import { allOf, equals, insertInto, isOneOf, iso, readFact, sql, update, writeFact } from './sql.ts';

/**
 * What resolves a gap, besides an operator and the code that opened it:
 *
 * - `read`: a read that verifies the record that the gap names.
 * - `full_sync`: a complete full sync of the kind, begun after the gap last occurred. Risk assessments have no list, so theirs reads only
 *   known ids, and cannot find a lost event about an id that nothing else names. It resolves the gap nevertheless: `coverage` reports
 *   that limit, and a gap that stays open for ever would add nothing.
 * - `full_list`: a complete full sync of a kind with a list, begun a consistency window after the gap last occurred. It has read every
 *   record, also the one that the event did not name. For risk assessments the gap stays open, as a known difference.
 */
type Resolution = 'read' | 'full_sync' | 'full_list';

const RESOLVED_BY: Readonly<Record<GapReason, readonly Resolution[]>> = {
  // Lost deliveries.
  downtime: ['full_sync'],
  upstream_unavailable: ['full_sync'],
  rejected_timestamp: ['full_sync'],
  // A full sync was not complete: the next complete one resolves these.
  total_mismatch: ['full_sync'],
  list_incomplete: ['full_sync'],
  deletions_unproven: ['full_sync'],
  // Signed, but unusable. With a kind and no id it is `no_record_id`. Without a kind it was answered 400, and may be about no record.
  unusable_delivery: ['read', 'full_sync'],
  conflicting_content: ['read', 'full_sync'],
  // Accepted events that are not in the rows. A successful retry or a discard resolves these too.
  failed_event: ['read'],
  no_record_id: ['full_list'],
  // A list shows all its records again. Only an operator can know that no assessment is missing.
  restored: ['full_list'],
  // What it was about is not known any more: only an operator can know that no assessment is missing.
  trimmed_event: [],
  unresolved: ['read'],
  // A 404, while another record of the kind can be read, turns it into `unresolved`.
  unproven_id: ['read'],
  // A usable answer to the same request resolves it. For a record that is its own address; not `read`, because a list that shows the
  // record would then resolve the gap, and the address would not be read again.
  unreadable_answer: ['full_sync'],
  unaddressable: [],
  // Resolved by the code that opened them: after the first accepted read, the first delivery, or the approval.
  credentials_rejected: [],
  rejected_signatures: [],
  no_signing_secret: [],
  silence: [],
  deletion_pending: [],
};

const resolvedBy = (resolution: Resolution): readonly GapReason[] =>
  (Object.keys(RESOLVED_BY) as GapReason[]).filter((reason) => RESOLVED_BY[reason].includes(resolution));

const RESOLVED_BY_FULL_SYNC = resolvedBy('full_sync');
export const RESOLVED_BY_READ = resolvedBy('read');
const RESOLVED_BY_LIST = resolvedBy('full_list');

function resolvedByFullSyncOf(kind: Kind): readonly GapReason[] {
  return kind === 'risk_assessment' ? RESOLVED_BY_FULL_SYNC : [...RESOLVED_BY_FULL_SYNC, ...RESOLVED_BY_LIST];
}

/** The gap for an event or a delivery that was not understood. */
export function gapOf(
  reason: 'failed_event' | 'unusable_delivery' | 'conflicting_content',
  kind: Kind | null,
  recordId: string | null,
): GapKey {
  if (kind === null) return { reason, kind, recordId: null };
  return { reason: recordId === null ? 'no_record_id' : reason, kind, recordId };
}
export const gapOfFailed = (kind: Kind, recordId: string | null) => gapOf('failed_event', kind, recordId);

/** Takes a number, so that only a full sync begun later resolves the gap. With `timing`: one begun a consistency window later. */
export async function openGap(
  unit: Unit,
  gap: GapKey,
  error: string | null,
  now: Now,
  timing?: DirtyTiming,
): Promise<void> {
  const number = unit.numbers.next();
  const coverableAt = timing === undefined ? null : Math.ceil(now.steady + timing.settleMs);
  const lastError = sql`coalesce(${error}, ${gaps.error})`;
  // This occurrence may have no window to wait for, but an earlier one may still have one.
  const waitsUntil = coverableAt ?? gaps.coverableAt;
  const again = { attempts: sql`${gaps.attempts} + 1`, error: lastError, number, coverableAt: waitsUntil };
  if ((await unit.change(update(gaps, again, isOpen(gap)))) > 0) return;
  await addGap(unit, gap, { error, openedAt: iso(now.wall), number, coverableAt });
}

/** Adds a gap even if one with the same key is open: after a second restore each is resolved by itself. */
async function addGap(
  unit: Unit,
  gap: GapKey,
  row: { error: string | null; openedAt: string; number: number; coverableAt: number | null },
): Promise<void> {
  await unit.change(insertInto(gaps, { ...gap, ...row }));
  unit.gapChanges.push({ gap, what: 'opened', error: row.error, openForMs: null });
}

/** Takes a gap's key or id. False: it is not open. */
export async function resolveGap(unit: Unit, gap: GapKey | number, nowIso: string): Promise<boolean> {
  const which = typeof gap === 'number' ? sql`id = ${gap} AND resolved_at IS NULL` : isOpen(gap);
  return (await resolveWhere(unit, which, nowIso)) > 0;
}

/** Resolves the gap of events that were not understood, unless another failed event or quarantined delivery needs it. */
export async function resolveSettled(
  unit: Unit,
  kind: Kind,
  recordId: string | null,
  nowIso: string,
): Promise<void> {
  const rest = [
    sql`SELECT 1 FROM events${unit.dialect.indexedBy('events_failed')}
      WHERE state = 'failed' AND kind = ${kind} AND ${equals(events.recordId, recordId)}`,
  ];
  if (recordId === null)
    rest.push(
      sql`SELECT 1 FROM quarantine WHERE released_at IS NULL AND kind = ${kind} AND record_id IS NULL`,
    );
  // The gap also stands for ids that the API does not know, and for deliveries released since it was opened, until a list is read.
  if (recordId === null && kind !== 'risk_assessment')
    rest.push(
      sql`SELECT 1 FROM gaps WHERE kind = ${kind} AND reason = 'unresolved' AND resolved_at IS NULL`,
      sql`SELECT 1 FROM quarantine WHERE kind = ${kind} AND record_id IS NULL
        AND released_at >= (SELECT min(opened_at) FROM gaps WHERE ${isOpen(gapOfFailed(kind, null))})`,
    );
  const found = rest.map((each) => sql`EXISTS (${each})`);
  const left = await unit.query(sql`SELECT 1 WHERE ${sql.join(found, sql.raw(' OR '))}`);
  if (left.length === 0) await resolveGap(unit, gapOfFailed(kind, recordId), nowIso);
}

/** Resolves the gaps of a record's deliveries that were not understood, once a person has released the last of them. */
export async function resolveReleased(
  unit: Unit,
  kind: Kind,
  recordId: string,
  nowIso: string,
): Promise<void> {
  const left = await unit.query(
    sql`SELECT 1 FROM quarantine WHERE released_at IS NULL AND kind = ${kind} AND record_id = ${recordId} LIMIT 1`,
  );
  if (left.length > 0) return;
  for (const reason of ['unusable_delivery', 'conflicting_content'] as const)
    await resolveGap(unit, gapOf(reason, kind, recordId), nowIso);
}

export async function setGapError(unit: Unit, gap: GapKey, error: string): Promise<void> {
  await unit.change(update(gaps, { error }, isOpen(gap)));
}

export async function resolveRecords(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  nowIso: string,
): Promise<void> {
  if (ids.length === 0) return;
  await resolveWhere(
    unit,
    sql`kind = ${kind} AND ${unit.dialect.isAmong(gaps.recordId, ids)} AND resolved_at IS NULL
      AND ${isOneOf(gaps.reason, RESOLVED_BY_READ)}`,
    nowIso,
  );
}

export async function resolveAfterFullSync(
  unit: Unit,
  { kind, number, beganAt }: { kind: Kind; number: number; beganAt: number },
  nowIso: string,
): Promise<void> {
  await resolveWhere(
    unit,
    sql`kind = ${kind} AND record_id IS NULL AND resolved_at IS NULL AND number <= ${number}
      AND (coverable_at IS NULL OR coverable_at <= ${beganAt}) AND ${isOneOf(gaps.reason, resolvedByFullSyncOf(kind))}`,
    nowIso,
  );
  // A gap of the whole mirror is resolved when every kind has had a complete full sync since.
  await resolveWhere(
    unit,
    sql`kind IS NULL AND resolved_at IS NULL AND ${isOneOf(gaps.reason, RESOLVED_BY_FULL_SYNC)} AND ${allOf(KINDS.map(wasReadSince))}`,
    nowIso,
  );
}

/** The last complete full sync of a kind. A gap that it does not resolve is not resolved by an earlier one either. */
export const lastComplete = (kind: Kind) =>
  sql`(SELECT id, number, began_at, started_at FROM sync_runs WHERE kind = ${kind} AND outcome = 'complete' ORDER BY number DESC, id DESC LIMIT 1)`;

/** The kind was read in full since the gap last occurred, and after the window that it waits for. */
const wasReadSince = (kind: Kind) =>
  sql`EXISTS (SELECT 1 FROM ${lastComplete(kind)} AS s
    WHERE s.number >= gaps.number AND (coverable_at IS NULL OR s.began_at >= coverable_at))`;

/** The fact with the last sync run that may have begun with other credentials than the present ones, or at another address. */
export const LAST_RUN_BEFORE_ACCESS = 'last_run_before_access';

/** Whether a gap is open that only a complete list of the kind resolves. */
export async function hasUnnamed({ query }: Sql, kind: Kind): Promise<boolean> {
  const open = await query(
    sql`SELECT 1 FROM gaps WHERE kind = ${kind} AND record_id IS NULL AND resolved_at IS NULL
      AND ${isOneOf(gaps.reason, RESOLVED_BY_LIST)} LIMIT 1`,
  );
  return open.length > 0;
}

export async function kindsWantingFullSync({ query }: Sql, now: Now): Promise<Kind[]> {
  const steady = Math.floor(now.steady);
  const wanting = KINDS.map(
    (kind) =>
      sql`SELECT ${kind} AS kind WHERE EXISTS (SELECT 1 FROM gaps WHERE resolved_at IS NULL AND record_id IS NULL
        AND ((kind = ${kind} AND ${isOneOf(gaps.reason, resolvedByFullSyncOf(kind))})
          OR (kind IS NULL AND ${isOneOf(gaps.reason, RESOLVED_BY_FULL_SYNC)}))
        AND (coverable_at IS NULL OR coverable_at <= ${steady})
        AND NOT ${wasReadSince(kind)})
        OR EXISTS (SELECT 1 FROM facts WHERE name = ${LAST_RUN_BEFORE_ACCESS}
          AND CAST(value AS bigint) >= coalesce((SELECT id FROM ${lastComplete(kind)} AS s), 0))`,
  );
  const rows = await query<{ kind: Kind }>(sql.join(wanting, sql.raw(' UNION ALL ')));
  return rows.map((row) => row.kind);
}

export const isOpen = ({ reason, kind, recordId }: GapKey) =>
  sql`reason = ${reason} AND ${equals(gaps.kind, kind)} AND ${equals(gaps.recordId, recordId)} AND resolved_at IS NULL`;

async function resolveWhere(unit: Unit, condition: SQL, nowIso: string): Promise<number> {
  const resolved = await unit.query<GapKey & { openedAt: string }>(
    sql`${update(gaps, { resolvedAt: nowIso }, condition)}
      RETURNING reason, kind, record_id AS "recordId", opened_at AS "openedAt"`,
  );
  for (const { openedAt, ...gap } of resolved) {
    const openForMs = Date.parse(nowIso) - Date.parse(openedAt);
    unit.gapChanges.push({ gap, what: 'resolved', error: null, openForMs });
  }
  return resolved.length;
}

/** Wraps a database, so that gap changes are reported after each commit. The first watcher also gets the earlier ones. */
export function withGapWatcher<D extends Database>(database: D) {
  const early: GapChange[] = [];
  let onChange = (change: GapChange): void => void early.push(change);
  const transact: Database['transact'] = async (work, first, isRedone) => {
    // Those of the last try, since earlier tries were rolled back.
    let changes: readonly GapChange[] = [];
    const result = await database.transact(
      (unit, read) => {
        changes = unit.gapChanges;
        return work(unit, read);
      },
      first,
      isRedone,
    );
    for (const change of changes) onChange(change);
    return result;
  };
  return {
    database: { ...database, transact },
    watchGaps(next: (change: GapChange) => void): void {
      onChange = next;
      early.splice(0).forEach(next);
    },
  };
}

/** The fact that identifies a database's epoch: a new epoch begins when a copy is put in its place. */
export const EPOCH_FACT = 'epoch';
const EPOCH_BYTES = 8;

/**
 * Begins a new epoch, and in the same commit opens a gap for each kind: accepted events may be lost. `copiedAt`: when the copy was made
 * (ISO 8601); null: the copy does not say, so the last heartbeat counts.
 */
export async function beginEpoch(unit: Unit, copiedAt: string | null, now: Now): Promise<void> {
  const from = copiedAt ?? (await readFact(unit, 'heartbeat')) ?? 'an unknown time';
  const to = iso(now.wall);
  const error = `a copy of the database was put back: what was accepted from ${from} to ${to} is not in it`;
  const settleMs = Number((await readFact(unit, 'settle_ms')) ?? 0);
  const coverableAt = Math.ceil(now.steady + settleMs);
  for (const kind of KINDS) {
    const gap = { reason: 'restored', kind, recordId: null } as const;
    await addGap(unit, gap, { error, openedAt: to, number: unit.numbers.next(), coverableAt });
  }
  await writeFact(unit, EPOCH_FACT, randomBytes(EPOCH_BYTES).toString('hex'));
}
