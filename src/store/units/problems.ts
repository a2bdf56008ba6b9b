import { createHash } from 'node:crypto';
import { KINDS, type Kind } from '../../compliance/kinds.ts';
import {
  APPROVED,
  PROBLEM_REASONS,
  type ProblemReason,
  problemRule,
  type Resolution,
  type Weight,
  weigh,
} from '../../mirror/problems.ts';
import type { Sql, Unit } from '../database.ts';
import { problems } from '../schema.ts';
import { type SQL, sql } from '../statement.ts';
import type { DirtyTiming, Now, ProblemKey } from '../values.ts';
import { allOf, equals, insertInto, isOneOf, iso, singleValue, update } from './sql.ts';

/** Rows of `problems`: opened, resolved, accepted. What each reason means is in `mirror/problems.ts`. */

const resolvedBy = (resolution: Resolution): readonly ProblemReason[] =>
  PROBLEM_REASONS.filter((reason) => problemRule(reason).resolvedBy.includes(resolution));

export const RESOLVED_BY_READ = resolvedBy('read');
const RESOLVED_BY_FULL_SYNC = resolvedBy('full_sync');
const RESOLVED_BY_LIST = resolvedBy('list');

// ─── opening ──────────────────────────────────────────────────────────────────────────────────────────────

interface How extends Partial<DirtyTiming> {
  /** What a person can accept: it does not open again before this changes. Absent: it shows nothing that stays. */
  stays?: string | undefined;
}

interface OpenRow {
  id: number;
  times: number;
  digest: string;
}

/**
 * Opens the problem, or counts another occurrence if it is open, unless a person has accepted exactly this. Takes a number, so that only
 * a full sync begun later resolves it; with `settleMs`, only one begun a read delay later.
 */
export async function openProblem(
  unit: Unit,
  problem: ProblemKey,
  error: string | null,
  now: Now,
  { settleMs, stays = undefined }: How = {},
): Promise<void> {
  const shown = await whatStays(unit, problem, stays);
  const digest = digestOf(problem, shown ?? error ?? '');
  if (shown !== undefined) {
    if (await isAccepted(unit, problem, shown)) return;
    forget(unit, isOf(problem));
  }
  const open = await unit.query<OpenRow>(
    sql`SELECT id, times, digest FROM problems WHERE ${isOpen(problem)} ORDER BY id`,
  );
  const number = unit.numbers.next();
  const coverableAt = settleMs === undefined ? null : Math.ceil(now.steady + settleMs);
  const acceptable = shown === undefined ? sql`false` : sql`true`;
  if (open.length === 0) {
    await addProblem(unit, problem, {
      error,
      openedAt: iso(now.wall),
      number,
      coverableAt,
      digest,
      acceptable,
    });
    return;
  }
  const times = open[0]!.times + 1;
  // An id that is asked for again and again is not unknown anew: a full sync since the first time counts.
  const isSame = problem.reason === 'unknown_record' && open[0]!.digest === digest;
  // This occurrence may have no read delay to wait for, but an earlier one may still have one.
  const place = isSame ? {} : { number, coverableAt: coverableAt ?? problems.coverableAt };
  const row = { times, error: sql`coalesce(${error}, ${problems.error})`, digest, acceptable, ...place };
  const weight = await weightOf(unit, problem, times);
  await unit.change(update(problems, { ...row, ...weight }, isOpen(problem)));
}

interface NewRow {
  error: string | null;
  openedAt: string;
  number: number;
  coverableAt: number | null;
  digest?: string;
  acceptable?: SQL;
}

/** Adds a problem even if one with the same key is open: after a second restore each is resolved by itself. */
export async function addProblem(unit: Unit, problem: ProblemKey, row: NewRow): Promise<void> {
  const { digest = digestOf(problem, row.error ?? ''), acceptable = sql`false` } = row;
  const weight = await weightOf(unit, problem, 1);
  await unit.change(insertInto(problems, { ...problem, ...row, ...weight, digest, acceptable }));
  unit.problemChanges.push({ problem, what: 'opened', error: row.error, openForMs: null });
}

/** Of a record also the last event about it: another one may mean that the API knows the record now, or shows it otherwise. */
async function whatStays(
  unit: Unit,
  { reason, kind, recordId }: ProblemKey,
  stays: string | undefined,
): Promise<string | undefined> {
  const isAcceptable = reason === 'unknown_record' || stays !== undefined;
  if (recordId === null || !isAcceptable) return stays;
  const dirty = sql`SELECT dirty FROM record_state WHERE kind = ${kind} AND id = ${recordId}`;
  return `${stays ?? ''}${(await singleValue<number>(unit, dirty)) ?? 0}`;
}

const DIGEST_LETTERS = 16;

/** Of what the problem shows. */
function digestOf({ reason, kind, recordId }: ProblemKey, shown: string): string {
  const text = JSON.stringify([reason, kind, recordId, shown]);
  return createHash('sha256').update(text).digest('hex').slice(0, DIGEST_LETTERS);
}

async function weightOf(unit: Unit, { reason, kind, recordId }: ProblemKey, times: number): Promise<Weight> {
  const isAsked = kind !== null && problemRule(reason).unlisted !== undefined;
  const isOfList = isAsked && listMayShow(kind, recordId);
  return weigh(reason, { kind, recordId, times, hasList: isOfList && (await hasList(unit, kind)) });
}

/** A list of assessments is of ids that a person has named: what the API says of one of them is not its to settle. */
const listMayShow = (kind: Kind, recordId: string | null) => kind !== 'risk_assessment' || recordId === null;

const isForList = (kind: Kind) =>
  sql`kind = ${kind} AND ${isOneOf(problems.reason, RESOLVED_BY_LIST)} AND (kind <> 'risk_assessment' OR record_id IS NULL)`;

/** Whether a list shows all records of the kind, as far as is known: not if a person has accepted that it hides some. */
const isListed = (
  kind: Kind,
) => sql`NOT EXISTS (SELECT 1 FROM facts WHERE name = 'events_only' AND value = '1')
  AND NOT EXISTS (SELECT 1 FROM problems WHERE ${isOf({ reason: 'incomplete_list', kind, recordId: null })} AND accepted_at IS NOT NULL)
  AND (${kind} <> 'risk_assessment' OR EXISTS (SELECT 1 FROM ${lastWhole(kind)} AS s WHERE s.listed))`;

export async function hasList(unit: Sql, kind: Kind): Promise<boolean> {
  return (await unit.query(sql`SELECT 1 WHERE ${isListed(kind)}`)).length > 0;
}

/** Writes anew what the open problems of a kind mean whose meaning depends on a list. */
export async function weighAnew(unit: Unit, kind: Kind): Promise<void> {
  const listed = await hasList(unit, kind);
  const asked = PROBLEM_REASONS.filter((reason) => problemRule(reason).unlisted !== undefined);
  for (const reason of asked)
    for (const recordId of ['', null]) {
      const { verdict, needs } = weigh(reason, {
        kind,
        recordId,
        times: 1,
        hasList: listed && listMayShow(kind, recordId),
      });
      const which = sql`reason = ${reason} AND kind = ${kind} AND resolved_at IS NULL
        AND record_id IS ${sql.raw(recordId === null ? '' : 'NOT')} NULL`;
      await unit.change(update(problems, { verdict, needs }, which));
    }
}

/** Nobody has to act once all pending deletions are approved, until an approval has ended. */
export function weighPending(unit: Unit, nowIso: string): void {
  const asking = weigh('pending_deletions', { kind: null, recordId: null, times: 1, hasList: true });
  const waits = sql`EXISTS (SELECT 1 FROM pending_deletions d WHERE d.kind = problems.kind
    AND d.kept_number IS NULL AND (d.approved_until IS NULL OR d.approved_until <= ${unit.dialect.instant(nowIso)}))`;
  for (const [{ verdict, needs }, which] of [
    [asking, waits],
    [APPROVED, sql`NOT ${waits}`],
  ] as const)
    unit.send(
      update(
        problems,
        { verdict, needs },
        sql`reason = 'pending_deletions' AND resolved_at IS NULL AND verdict <> ${verdict} AND ${which}`,
      ),
    );
}

/** What an open problem shows is something else by now. `digest`: of what names itself, pending deletions, by their ids. */
export async function showAs(unit: Unit, problem: ProblemKey, what: { digest?: string; error?: string }) {
  await unit.change(update(problems, what, isOpen(problem)));
}

// ─── accepting ────────────────────────────────────────────────────────────────────────────────────────────

/** Whether a person has accepted the problem; with `shown`, exactly that. */
export async function isAccepted(unit: Sql, problem: ProblemKey, shown?: string): Promise<boolean> {
  const same = shown === undefined ? sql`true` : sql`digest = ${digestOf(problem, shown)}`;
  const found = await unit.query(
    sql`SELECT 1 FROM problems WHERE ${isOf(problem)} AND accepted_at IS NOT NULL AND ${same} LIMIT 1`,
  );
  return found.length > 0;
}

/** Whether a problem shows, or has shown and a person accepts, that nobody knows the record of its event with this number. */
export async function isAskedAbout(unit: Sql, kind: Kind, id: string, dirty: number): Promise<boolean> {
  const problem = { reason: 'unknown_record', kind, recordId: id } as const;
  const held = await unit.query(
    sql`SELECT 1 FROM problems WHERE ${isOf(problem)} AND ${isHeld} AND digest = ${digestOf(problem, String(dirty))} LIMIT 1`,
  );
  return held.length > 0;
}

/** What was accepted is gone, or has changed. */
function forget(unit: Unit, condition: SQL): void {
  unit.send(update(problems, { acceptedAt: null }, sql`accepted_at IS NOT NULL AND ${condition}`));
}

/** A person resolves the open problem with this number: what it shows holds as accepted while that stays. */
export async function accept(unit: Unit, id: number, isLasting: boolean, nowIso: string): Promise<void> {
  await resolveWhere(unit, sql`id = ${id}`, nowIso);
  if (isLasting) await unit.change(update(problems, { acceptedAt: nowIso }, sql`id = ${id}`));
}

// ─── resolving ────────────────────────────────────────────────────────────────────────────────────────────

/** False: it is not open. Either way nothing of it is accepted any more. `error`: only if it is the last one. */
export async function endProblem(
  unit: Unit,
  problem: ProblemKey,
  nowIso: string,
  error?: string,
): Promise<boolean> {
  const same = error === undefined ? sql`true` : sql`error = ${error}`;
  return (await resolveWhere(unit, sql`${isOf(problem)} AND ${same}`, nowIso)) > 0;
}

/** Resolves those of a reason, whatever they are about. */
export const endAll = (unit: Unit, reasons: readonly ProblemReason[], nowIso: string) =>
  resolveWhere(unit, isOneOf(problems.reason, reasons), nowIso);

/** By default: reads have verified these records, or they are proven gone, or a person says that there are none. */
export async function resolveRecords(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  nowIso: string,
  reasons: readonly ProblemReason[] = RESOLVED_BY_READ,
): Promise<void> {
  if (ids.length === 0) return;
  await resolveWhere(
    unit,
    sql`kind = ${kind} AND ${unit.dialect.isAmong(problems.recordId, ids)} AND ${isOneOf(problems.reason, reasons)}`,
    nowIso,
  );
}

interface WholeRun {
  kind: Kind;
  number: number;
  beganAt: number;
  /** It has read a list that shows all records of the kind. */
  listed: boolean;
  /** It has read all but what a person has accepted that the list does not show. */
  isAccepted: boolean;
}

/** Returns the ids that the API does not know, and that a list has shown to be none. */
export async function resolveAfterFullSync(
  unit: Unit,
  { kind, number, beganAt, listed, isAccepted }: WholeRun,
  nowIso: string,
): Promise<string[]> {
  const isCovered = sql`kind = ${kind} AND number <= ${number} AND (coverable_at IS NULL OR coverable_at <= ${beganAt})`;
  // What was accepted stays so.
  const stays = isAccepted ? sql`resolved_at IS NULL` : sql`true`;
  await resolveWhere(
    unit,
    sql`${isCovered} AND ${stays} AND record_id IS NULL AND ${isOneOf(problems.reason, RESOLVED_BY_FULL_SYNC)}`,
    nowIso,
  );
  // It may have been overdue only since it began.
  await endProblem(unit, { reason: 'full_sync_overdue', kind, recordId: null }, nowIso);
  // A problem of all kinds is resolved when every kind has had a complete full sync since.
  await resolveWhere(
    unit,
    sql`kind IS NULL AND ${isOneOf(problems.reason, RESOLVED_BY_FULL_SYNC)} AND ${allOf(KINDS.map(wasReadSince))}`,
    nowIso,
  );
  if (!listed) return [];
  const isSettled = sql`${isCovered} AND ${isForList(kind)} AND ${isOfNewest}`;
  const unknown = await unit.query<{ id: string }>(
    sql`SELECT record_id AS id FROM problems WHERE ${isSettled} AND ${isHeld} AND reason = 'unknown_record' AND record_id IS NOT NULL`,
  );
  await resolveWhere(unit, isSettled, nowIso);
  await weighAnew(unit, kind);
  return unknown.map(({ id }) => id);
}

/** An event that came since may be about a record that the API does not show yet: its own reads, which wait for that, come first. */
const isOfNewest = sql`(reason <> 'unknown_record' OR record_id IS NULL OR NOT EXISTS
  (SELECT 1 FROM record_state AS s WHERE s.kind = problems.kind AND s.id = problems.record_id AND s.dirty >= problems.number))`;

/** Outcomes of a sync run that has read all that it could: of an accepted one a person has accepted what its list does not show. */
const WHOLE = sql.raw(`('complete', 'accepted')`);

/** The last whole sync run of a kind. A problem that it does not resolve is not resolved by an earlier one either. */
export const lastWhole = (kind: Kind) =>
  sql`(SELECT id, number, began_at, started_at, finished_at, listed FROM sync_runs
    WHERE kind = ${kind} AND outcome IN ${WHOLE} ORDER BY number DESC, id DESC LIMIT 1)`;

/** The kind was read in full since the problem last occurred, and after the read delay that it waits for. */
const wasReadSince = (kind: Kind) =>
  sql`EXISTS (SELECT 1 FROM ${lastWhole(kind)} AS s
    WHERE s.number >= problems.number AND (coverable_at IS NULL OR s.began_at >= coverable_at))`;

/** Facts with the last sync run that says nothing of what there is now: it read with other credentials, or before an outage. */
export const LAST_RUN_BEFORE_ACCESS = 'last_run_before_access';
export const LAST_RUN_BEFORE_OUTAGE = 'last_run_before_outage';

/** Whether a problem is open that only a complete list of the kind resolves. */
export async function hasUnnamed({ query }: Sql, kind: Kind): Promise<boolean> {
  const open = await query(
    sql`SELECT 1 FROM problems WHERE kind = ${kind} AND record_id IS NULL AND resolved_at IS NULL
      AND ${isOneOf(problems.reason, RESOLVED_BY_LIST)} LIMIT 1`,
  );
  return open.length > 0;
}

/** Kinds with an open problem that a full sync begun now would resolve, or not read in full with the present credentials. */
export async function kindsWantingFullSync({ query }: Sql, now: Now): Promise<Kind[]> {
  const steady = Math.floor(now.steady);
  const wanting = KINDS.map(
    (kind) =>
      sql`SELECT ${kind} AS kind WHERE EXISTS (SELECT 1 FROM problems WHERE resolved_at IS NULL
        AND ((record_id IS NULL AND (kind = ${kind} OR kind IS NULL) AND ${isOneOf(problems.reason, RESOLVED_BY_FULL_SYNC)})
          OR (${isForList(kind)} AND ${isListed(kind)}))
        AND (coverable_at IS NULL OR coverable_at <= ${steady})
        AND NOT ${wasReadSince(kind)})
        OR EXISTS (SELECT 1 FROM facts WHERE name IN (${LAST_RUN_BEFORE_ACCESS}, ${LAST_RUN_BEFORE_OUTAGE})
          AND CAST(value AS bigint) >= coalesce((SELECT id FROM ${lastWhole(kind)} AS s), 0))`,
  );
  const rows = await query<{ kind: Kind }>(sql.join(wanting, ' UNION ALL '));
  return rows.map((row) => row.kind);
}

/** Open or accepted. */
const isHeld = sql.raw('(resolved_at IS NULL OR accepted_at IS NOT NULL)');

const isOf = ({ reason, kind, recordId }: ProblemKey) =>
  sql`reason = ${reason} AND ${equals(problems.kind, kind)} AND ${equals(problems.recordId, recordId)}`;

export const isOpen = (problem: ProblemKey) => sql`${isOf(problem)} AND resolved_at IS NULL`;

/** Resolves the open ones, and forgets that a person has accepted others. Returns how many were open. */
async function resolveWhere(unit: Unit, condition: SQL, nowIso: string): Promise<number> {
  const resolved = await unit.query<ProblemKey & { openedAt: string }>(
    sql`${update(problems, { resolvedAt: nowIso }, sql`resolved_at IS NULL AND ${condition}`)}
      RETURNING reason, kind, record_id AS "recordId", opened_at AS "openedAt"`,
  );
  forget(unit, condition);
  for (const { openedAt, ...problem } of resolved) {
    const openForMs = Date.parse(nowIso) - Date.parse(openedAt);
    unit.problemChanges.push({ problem, what: 'resolved', error: null, openForMs });
  }
  return resolved.length;
}
