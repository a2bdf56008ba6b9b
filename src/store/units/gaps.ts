import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { Database, Sql, Unit } from '../database.ts';
import type { SQL } from '../drizzle.ts';
import { events, gaps, quarantine, syncRuns } from '../schema.ts';
import type { DirtyTiming, GapChange, GapKey, GapReason, Now } from '../store.ts';
import { as, insertInto, is, isOneOf, set, sql, update } from './sql.ts';

/**
 * What resolves a gap besides the one who opened it:
 *
 * - `read`: a read that verifies the very record it names. Of a gap that names none there is no such read.
 * - `full_sync`: a complete full sync of the kind, begun after it last occurred. Of risk assessments, which have no list,
 *   that reads the ids that are known and proves nothing of others; so it resolves only what says that deliveries may
 *   have been lost. An event that was lost whole, about an id that nothing else names, cannot be found by anybody: that
 *   limit is told by `coverage`, and a gap that stood for ever would say no more.
 * - `full_list`: the same, of a kind that has a list, and begun when what the event speaks of can be missing from no page
 *   any more. Every record of the kind was read then, and so the one that the event did not name, whichever it is. Of
 *   risk assessments it stays open: what was accepted and not understood is a difference that we know of.
 * - nothing: whoever opened it closes it, or a person.
 */
type Resolution = 'read' | 'full_sync' | 'full_list';

const RESOLVED_BY: Readonly<Record<GapReason, readonly Resolution[]>> = {
  // Lost deliveries. What they spoke of is read again as far as it can be found.
  downtime: ['full_sync'],
  upstream_unavailable: ['full_sync'],
  rejected_timestamp: ['full_sync'],
  // A full sync that went wrong, by one that did not.
  total_mismatch: ['full_sync'],
  list_incomplete: ['full_sync'],
  // Signed, and not to be understood. Without an id but with a kind it is `no_record_id`; without a kind nothing was
  // accepted (the sender was answered 400), and nothing says that it was about a record at all.
  unusable_delivery: ['read', 'full_sync'],
  conflicting_content: ['read', 'full_sync'],
  // Events that were accepted, and what they said is not in. A retry that succeeds and a discard resolve them too.
  failed_event: ['read'],
  no_record_id: ['full_list'],
  // What lists show comes back with them. Of assessments nobody but a person can know that none is missing.
  restored: ['full_list'],
  unresolved: ['read'],
  // Or by a 404 beside another record of the kind that could be read: then it is `unresolved`.
  unproven_id: ['read'],
  deletions_unproven: ['read'],
  // By a usable answer to that very request. Of a record that is one from its own address, which whoever asks for it tells:
  // that a list shows the record as well says nothing of the address, which nobody would ask again then.
  unreadable_answer: ['full_sync'],
  unaddressable: [],
  // By the first read that is accepted; the first delivery; an approval.
  credentials_rejected: [],
  rejected_signatures: [],
  no_signing_secret: [],
  silence: [],
  deletion_pending: [],
};

const resolvedBy = (resolution: Resolution): readonly GapReason[] =>
  (Object.keys(RESOLVED_BY) as GapReason[]).filter((reason) => RESOLVED_BY[reason].includes(resolution));

/** What a complete reading of the kind makes good, begun after the gap last occurred. */
const RESOLVED_BY_FULL_SYNC = resolvedBy('full_sync');

/** What a verified record makes good. */
export const RESOLVED_BY_READ = resolvedBy('read');

/** What names no record, and is made good by a list that shows every one. */
const RESOLVED_BY_LIST = resolvedBy('full_list');

/** Of which kind a complete full sync makes what good: `kind` is that of the full sync. */
function resolvedByFullSyncOf(kind: Kind): readonly GapReason[] {
  return kind === 'risk_assessment' ? RESOLVED_BY_FULL_SYNC : [...RESOLVED_BY_FULL_SYNC, ...RESOLVED_BY_LIST];
}

/** The gap of an event that could not be processed: by its record, where it names one. */
export function gapOfFailed(kind: Kind | null, recordId: string | null): GapKey {
  if (kind === null) return { reason: 'failed_event', kind: null, recordId: null };
  return { reason: recordId === null ? 'no_record_id' : 'failed_event', kind, recordId };
}

/** The gap of a delivery that is in quarantine. */
export function gapOfQuarantined(
  reason: 'unusable_delivery' | 'conflicting_content',
  kind: Kind | null,
  recordId: string | null,
): GapKey {
  if (kind === null) return { reason, kind: null, recordId: null };
  return { reason: recordId === null ? 'no_record_id' : reason, kind, recordId };
}

/** From when on (steady) a full sync may begin that resolves a gap which opens now: what it reads may be as old as SETTLE. */
export function coverableAt(gap: GapKey, now: Now, timing: DirtyTiming): number | null {
  return gap.reason === 'no_record_id' ? Math.ceil(now.steady + timing.settleMs) : null;
}

/** Takes a number, so that only a full sync begun later can resolve it; with `coverableAt`, none begun before that. */
export async function openGap(
  unit: Unit,
  gap: GapKey,
  error: string | null,
  nowIso: string,
  coverableAt: number | null = null,
): Promise<void> {
  const number = unit.numbers.next();
  const again = await unit.change(
    sql`UPDATE ${gaps} SET ${set(gaps, {
      attempts: sql`${gaps.attempts} + 1`,
      error: sql`coalesce(${error}, ${gaps.error})`,
      number,
      coverableAt,
    })} WHERE ${isOpen(gap)}`,
  );
  if (again === 0) await addGap(unit, gap, error, nowIso, number, coverableAt);
}

/** Beside one of the same key that is open, as a restore follows another: each is resolved by itself. */
export async function addGap(
  unit: Unit,
  gap: GapKey,
  error: string | null,
  nowIso: string,
  number: number,
  coverableAt: number | null,
): Promise<void> {
  await unit.change(insertInto(gaps, { ...gap, openedAt: nowIso, number, error, coverableAt }));
  unit.gapChanges.push({ gap, what: 'opened', error, openForMs: null });
}

export async function resolveGap(unit: Unit, gap: GapKey, nowIso: string): Promise<void> {
  await resolveWhere(unit, isOpen(gap), nowIso);
}

/** That very one. False: it is not open. */
export async function resolveGapById(unit: Unit, id: number, nowIso: string): Promise<boolean> {
  return (await resolveWhere(unit, sql`${gaps.id} = ${id} AND ${gaps.resolvedAt} IS NULL`, nowIso)) > 0;
}

/** What a person, or a retry that succeeded, has settled: its gap stays while another event or delivery is as it was. */
export async function resolveSettled(
  unit: Unit,
  kind: Kind,
  recordId: string | null,
  nowIso: string,
): Promise<void> {
  const failed = sql`SELECT 1 FROM ${events}${unit.dialect.indexedBy('events_failed')}
    WHERE ${events.state} = 'failed' AND ${events.kind} = ${kind} AND ${is(events.recordId, recordId)}`;
  const waiting = sql`SELECT 1 FROM ${quarantine}
    WHERE ${quarantine.releasedAt} IS NULL AND ${quarantine.kind} = ${kind} AND ${quarantine.recordId} IS NULL`;
  // Opened for an id that the API does not know as well: what a list says of that one is still to come.
  const unlisted = sql`SELECT 1 FROM ${gaps} WHERE ${kind !== 'risk_assessment'} AND ${gaps.kind} = ${kind}
    AND ${gaps.reason} = 'unresolved' AND ${gaps.resolvedAt} IS NULL`;
  const rest = await unit.query(
    recordId === null
      ? sql`SELECT 1 WHERE EXISTS (${failed}) OR EXISTS (${waiting}) OR EXISTS (${unlisted})`
      : sql`SELECT 1 WHERE EXISTS (${failed})`,
  );
  if (rest.length === 0) await resolveGap(unit, gapOfFailed(kind, recordId), nowIso);
}

export async function tellMoreOfGap(unit: Unit, gap: GapKey, error: string): Promise<void> {
  await unit.change(update(gaps, { error }, isOpen(gap)));
}

/** What reading these records made good. */
export async function resolveRecords(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  nowIso: string,
): Promise<void> {
  if (ids.length === 0) return;
  await resolveWhere(
    unit,
    sql`${gaps.kind} = ${kind} AND ${unit.dialect.isAmong(gaps.recordId, ids)} AND ${gaps.resolvedAt} IS NULL
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
    sql`${gaps.kind} = ${kind} AND ${gaps.recordId} IS NULL AND ${gaps.resolvedAt} IS NULL AND ${gaps.number} <= ${number}
      AND (${gaps.coverableAt} IS NULL OR ${gaps.coverableAt} <= ${beganAt})
      AND ${isOneOf(gaps.reason, resolvedByFullSyncOf(kind))}`,
    nowIso,
  );
  // A gap of the whole mirror is resolved once every kind has been read completely since.
  await resolveWhere(
    unit,
    sql`${gaps.kind} IS NULL AND ${gaps.resolvedAt} IS NULL AND ${isOneOf(gaps.reason, RESOLVED_BY_FULL_SYNC)}
      AND (SELECT count(DISTINCT ${syncRuns.kind}) FROM ${syncRuns}
        WHERE ${syncRuns.outcome} = 'complete' AND ${syncRuns.number} >= ${gaps.number}) = ${KINDS.length}`,
    nowIso,
  );
}

/** Whether anything is open that a list of the kind would make good. */
export async function hasUnnamed({ query }: Sql, kind: Kind): Promise<boolean> {
  const open = await query(
    sql`SELECT 1 FROM ${gaps} WHERE ${gaps.kind} = ${kind} AND ${gaps.recordId} IS NULL AND ${gaps.resolvedAt} IS NULL
      AND ${isOneOf(gaps.reason, RESOLVED_BY_LIST)} LIMIT 1`,
  );
  return open.length > 0;
}

export async function kindsWantingFullSync({ query }: Sql, now: Now): Promise<Kind[]> {
  const steady = Math.floor(now.steady);
  const wanting = KINDS.map(
    (kind) =>
      sql`SELECT ${kind} AS kind WHERE EXISTS (SELECT 1 FROM ${gaps} WHERE ${gaps.resolvedAt} IS NULL AND ${gaps.recordId} IS NULL
        AND ((${gaps.kind} = ${kind} AND ${isOneOf(gaps.reason, resolvedByFullSyncOf(kind))})
          OR (${gaps.kind} IS NULL AND ${isOneOf(gaps.reason, RESOLVED_BY_FULL_SYNC)}))
        AND (${gaps.coverableAt} IS NULL OR ${gaps.coverableAt} <= ${steady})
        AND NOT EXISTS (SELECT 1 FROM ${syncRuns} WHERE ${syncRuns.kind} = ${kind} AND ${syncRuns.outcome} = 'complete'
          AND ${syncRuns.number} >= ${gaps.number}
          AND (${gaps.coverableAt} IS NULL OR ${syncRuns.beganAt} >= ${gaps.coverableAt})))`,
  );
  const rows = await query<{ kind: Kind }>(sql.join(wanting, sql.raw(' UNION ALL ')));
  return KINDS.filter((kind) => rows.some((row) => row.kind === kind));
}

const isOpen = ({ reason, kind, recordId }: GapKey) =>
  sql`${gaps.reason} = ${reason} AND ${is(gaps.kind, kind)} AND ${is(gaps.recordId, recordId)} AND ${gaps.resolvedAt} IS NULL`;

/** Returns how many. */
async function resolveWhere(unit: Unit, condition: SQL, nowIso: string): Promise<number> {
  const resolved = await unit.query<GapKey & { openedAt: string }>(
    sql`UPDATE ${gaps} SET ${set(gaps, { resolvedAt: nowIso })} WHERE ${condition}
      RETURNING ${as({ reason: gaps.reason, kind: gaps.kind, recordId: gaps.recordId, openedAt: gaps.openedAt })}`,
  );
  for (const { openedAt, ...gap } of resolved) {
    const openForMs = Date.parse(nowIso) - Date.parse(openedAt);
    unit.gapChanges.push({ gap, what: 'resolved', error: null, openForMs });
  }
  return resolved.length;
}

/** The same database, whose units tell what they have done to gaps once they are committed. */
export function tellingGaps<D extends Database>(database: D, told: (change: GapChange) => void): D {
  const transact: Database['transact'] = async (work, first) => {
    // Those of the try that was committed: an earlier one has changed nothing.
    let changes: readonly GapChange[] = [];
    const result = await database.transact((unit, read) => {
      changes = unit.gapChanges;
      return work(unit, read);
    }, first);
    changes.forEach(told);
    return result;
  };
  return { ...database, transact };
}
