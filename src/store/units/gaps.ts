import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { Database, Sql, Unit } from '../database.ts';
import type { SQL } from '../drizzle.ts';
import { events, gaps, quarantine, syncRuns } from '../schema.ts';
import type { DirtyTiming, GapChange, GapKey, GapReason, Now } from '../store.ts';
import { as, insertInto, is, isOneOf, set, sql, update } from './sql.ts';

/**
 * What resolves a gap, besides the code that opened it or an operator:
 *
 * - `read`: a read that verifies the record that the gap names.
 * - `full_sync`: a complete full sync of the kind, begun after the gap last occurred. For risk assessments, which have no list, it
 *   reads only known ids; so it resolves only gaps that say that deliveries may have been lost. A lost event about an id that
 *   nothing else names cannot be found at all: `coverage` reports that limit, and a gap that is open for ever would add nothing.
 * - `full_list`: the same for a kind with a list, begun when the event's change must be on its page. Every record was then read,
 *   the one that the event did not name included. For risk assessments the gap stays open, as a known difference.
 */
type Resolution = 'read' | 'full_sync' | 'full_list';

const RESOLVED_BY: Readonly<Record<GapReason, readonly Resolution[]>> = {
  // Lost deliveries.
  downtime: ['full_sync'],
  upstream_unavailable: ['full_sync'],
  rejected_timestamp: ['full_sync'],
  // A full sync with an error, by one without.
  total_mismatch: ['full_sync'],
  list_incomplete: ['full_sync'],
  // Signed, but unusable. With a kind and no id it is `no_record_id`. Without a kind nothing was accepted (the answer was 400),
  // and it may not be about a record at all.
  unusable_delivery: ['read', 'full_sync'],
  conflicting_content: ['read', 'full_sync'],
  // Accepted events that are not in the rows. A successful retry and a discard resolve them too.
  failed_event: ['read'],
  no_record_id: ['full_list'],
  // Lists bring their records back. That no assessment is missing, only an operator can know.
  restored: ['full_list'],
  unresolved: ['read'],
  // Or by a 404 while another record of the kind can be read: then it is `unresolved`.
  unproven_id: ['read'],
  deletions_unproven: ['read'],
  // By a usable answer to the same request. For a record that is its own address, and the reader of it resolves the gap: with
  // `read`, a list that shows the record would resolve it too, and the address would not be asked again.
  unreadable_answer: ['full_sync'],
  unaddressable: [],
  // By the first accepted read; the first delivery; an approval.
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

export function gapOfFailed(kind: Kind | null, recordId: string | null): GapKey {
  if (kind === null) return { reason: 'failed_event', kind: null, recordId: null };
  return { reason: recordId === null ? 'no_record_id' : 'failed_event', kind, recordId };
}

export function gapOfQuarantined(
  reason: 'unusable_delivery' | 'conflicting_content',
  kind: Kind | null,
  recordId: string | null,
): GapKey {
  if (kind === null) return { reason, kind: null, recordId: null };
  return { reason: recordId === null ? 'no_record_id' : reason, kind, recordId };
}

/** The earliest begin (steady) of a full sync that resolves a gap opened now: what it reads may be as old as SETTLE. */
export function coverableAt(gap: GapKey, now: Now, timing: DirtyTiming): number | null {
  return gap.reason === 'no_record_id' ? Math.ceil(now.steady + timing.settleMs) : null;
}

/** Takes a number, so that only a full sync begun later resolves the gap; with `coverableAt`, none begun before that. */
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

/** Also if one of the same key is open, as after a second restore: each is resolved separately. */
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

/** False: it is not open. */
export async function resolveGapById(unit: Unit, id: number, nowIso: string): Promise<boolean> {
  return (await resolveWhere(unit, sql`${gaps.id} = ${id} AND ${gaps.resolvedAt} IS NULL`, nowIso)) > 0;
}

/** After an operator or a successful retry: the gap stays while another event or delivery of the same record is unprocessed. */
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
  // The gap also covers ids that the API does not know, until a list is read.
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

/** A gap is open that a complete list of the kind resolves. */
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

/** The same database, which reports the gap changes of each unit after its commit. */
export function tellingGaps<D extends Database>(database: D, onChange: (change: GapChange) => void): D {
  const transact: Database['transact'] = async (work, first) => {
    // Of the last try, which is committed: earlier ones were rolled back.
    let changes: readonly GapChange[] = [];
    const result = await database.transact((unit, read) => {
      changes = unit.gapChanges;
      return work(unit, read);
    }, first);
    changes.forEach(onChange);
    return result;
  };
  return { ...database, transact };
}
