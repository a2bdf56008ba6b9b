import { DELETE_TYPES, type Kind } from '../../compliance/kinds.ts';
import type { Database, Unit } from '../database.ts';
import { events, kindState, recordState, syncRuns } from '../schema.ts';
import { json, type SQL, sql } from '../statement.ts';
import type { Now, SyncRunEnd, SyncRunOutcome, SyncRunProgress } from '../values.ts';
import { settleUnknown } from './due.ts';
import { hasUnnamed, isAccepted, openProblem, resolveAfterFullSync } from './problems.ts';
import { reading } from './reading.ts';
import { TABLE_OF } from './records.ts';
import { idsOf, insertInto, isOneOf, iso, readFact, singleValue, update } from './sql.ts';

/** Sync runs, and what they have not seen. */
export function createFullSyncVerbs(database: Database) {
  const { sql: statements } = database;
  return {
    /** Only one of a kind runs at a time: an open one becomes `interrupted`. `hasUnnamed`: a problem is open that a full list resolves. */
    startSyncRun: (
      kind: Kind,
      reason: string,
      now: Now,
    ): Promise<{ id: number; number: number; hasUnnamed: boolean }> =>
      database.transact(async (unit) => {
        const number = unit.numbers.current();
        const startedAt = iso(now.wall);
        await unit.change(interrupted(startedAt, sql`kind = ${kind} AND finished_at IS NULL`));
        const began = { kind, reason, startedAt, number, beganAt: Math.floor(now.steady) };
        const id = await singleValue<number>(unit, sql`${insertInto(syncRuns, began)} RETURNING id`);
        return { id: id!, number, hasUnnamed: await hasUnnamed(unit, kind) };
      }),

    async progressSyncRun(id: number, progress: SyncRunProgress): Promise<void> {
      await database.transact((unit) => saveProgress(unit, id, progress));
    },

    /**
     * A complete one resolves earlier problems. If it found unannounced differences, the verdict holds only from now on. Returns the outcome:
     * an incomplete one is `accepted` if a person has accepted what its list does not show.
     */
    finishSyncRun: (
      id: number,
      { outcome, error, progress, stays, listed = false, agedMs = 0, number = 0, ...found }: SyncRunEnd,
      now: Now,
    ): Promise<SyncRunOutcome> =>
      database.transact(async (unit) => {
        await saveProgress(unit, id, progress);
        const finishedAt = iso(now.wall);
        if (agedMs > 0) await countAsEarlier(unit, id, agedMs, number);
        const running = sql`id = ${id} AND finished_at IS NULL`;
        const [run] = await unit.query<WholeRun>(
          sql`SELECT id, kind, number, began_at AS "beganAt" FROM sync_runs WHERE ${running}`,
        );
        // Another replica took over, and the run is `interrupted`.
        if (run === undefined) return 'interrupted';
        const problem = { reason: 'incomplete_list', kind: run.kind, recordId: null } as const;
        const isAsAccepted =
          outcome === 'incomplete' && stays !== undefined && (await isAccepted(unit, problem, stays));
        const ended = isAsAccepted ? 'accepted' : outcome;
        const end = { finishedAt, outcome: ended, error, listed: listed ? sql`true` : sql`false` };
        const differences = json(found.differences);
        await unit.change(update(syncRuns, { ...end, differences }, running));
        if (found.hasDifferences)
          await unit.change(update(kindState, { since: finishedAt }, sql`kind = ${run.kind}`));
        if (isAsAccepted) {
          await askAboutUnlisted(unit, run, now);
          await resolveAfterFullSync(unit, { ...run, listed: false, isAccepted: true }, finishedAt);
        }
        if (outcome === 'complete') {
          const unknown = await resolveAfterFullSync(unit, { ...run, listed, isAccepted: false }, finishedAt);
          await settleUnknown(unit, run.kind, unknown, run.number, finishedAt);
        }
        return ended;
      }),

    /** At start: a crash or a stop has interrupted the open ones. */
    async interruptSyncRuns(now: Now): Promise<void> {
      await database.transact((unit) => unit.change(interrupted(iso(now.wall), sql`finished_at IS NULL`)));
    },

    /** Ids that are alive or unverified, which the sync run has not seen, and which nothing has touched since `number`. */
    unseenBy: reading(
      (kind: Kind, syncRunId: number, number: number): Promise<string[]> =>
        idsOf(
          statements,
          sql`SELECT s.id FROM record_state s LEFT JOIN ${TABLE_OF[kind]} r ON r.id = s.id
          WHERE s.kind = ${kind} AND s.sync_run_id IS DISTINCT FROM ${syncRunId}
            AND s.dirty <= ${number} AND coalesce(r.change_seq, 0) <= ${number}
            AND ((r.id IS NOT NULL AND r.deleted_at IS NULL) OR s.unverified_since IS NOT NULL) ORDER BY s.id`,
        ),
    ),

    /** Ids that events accepted up to `number` are about, as of living records, and that no read has confirmed since. */
    announced: reading(
      (kind: Kind, number: number): Promise<string[]> =>
        idsOf(
          statements,
          sql`SELECT s.id FROM record_state s WHERE s.kind = ${kind} AND s.unverified_since IS NOT NULL AND s.dirty > s.confirmed
            AND s.dirty <= ${number} AND s.delete_event IS NULL ORDER BY s.id`,
        ),
    ),

    /** Ids that events or writes have touched since `number`. */
    touchedSince: reading(
      async (kind: Kind, number: number): Promise<Set<string>> =>
        new Set(
          await idsOf(
            statements,
            sql`SELECT id FROM record_state WHERE kind = ${kind} AND dirty > ${number}
              UNION SELECT id FROM ${TABLE_OF[kind]} WHERE change_seq > ${number}`,
          ),
        ),
    ),

    /** Whether an event about a deletion was accepted after `number`, or at `wall` or later. */
    hasAnnouncedDeletion: reading(async (kind: Kind, number: number, wall: number): Promise<boolean> => {
      // The bound of `seq` spares a look at all older events.
      const found = await statements.query(
        sql`SELECT 1 FROM events WHERE kind = ${kind} AND ${isOneOf(events.type, [...DELETE_TYPES])}
          AND (seq > ${number} OR seq > coalesce((SELECT seq FROM events WHERE ${events.receivedAt} < ${iso(wall)}
            ORDER BY seq DESC LIMIT 1), 0)) LIMIT 1`,
      );
      return found.length > 0;
    }),
  };
}

interface WholeRun {
  id: number;
  kind: Kind;
  number: number;
  beganAt: number;
}

/** How many policies that an accepted list hides are told at once. */
const UNLISTED_TOLD = 100;
/** They are looked for again after this long. */
const UNLISTED_AGAIN_MS = 3_600_000;

/** Policies that events have named, and a list does not show of which a person has accepted that it hides some: no read can verify them. */
async function askAboutUnlisted(
  unit: Unit,
  { id, kind, number, beganAt }: WholeRun,
  now: Now,
): Promise<void> {
  if (kind !== 'policy') return;
  const settleMs = Number((await readFact(unit, 'settle_ms')) ?? 0);
  const unlisted = await idsOf(
    unit,
    sql`SELECT id FROM record_state WHERE kind = ${kind} AND due_at <= ${Math.floor(now.steady)} AND unverified_since IS NOT NULL
      AND sync_run_id IS DISTINCT FROM ${id} AND dirty <= ${number} AND dirty_at <= ${beganAt - settleMs}
      ORDER BY due_at LIMIT ${UNLISTED_TOLD}`,
  );
  for (const recordId of unlisted)
    await openProblem(unit, { reason: 'unknown_record', kind, recordId }, 'the list does not show it', now);
  const again = { dueAt: Math.ceil(now.steady) + UNLISTED_AGAIN_MS };
  await unit.change(
    update(recordState, again, sql`kind = ${kind} AND ${unit.dialect.isAmong(recordState.id, unlisted)}`),
  );
}

/** What came from a cache is as old as the cache says, and so is the sync run that read it. */
async function countAsEarlier(unit: Unit, id: number, agedMs: number, number: number): Promise<void> {
  const [run] = await unit.query<{ startedAt: string; beganAt: number }>(
    sql`SELECT started_at AS "startedAt", began_at AS "beganAt" FROM sync_runs WHERE id = ${id}`,
  );
  if (run === undefined) return;
  const startedAt = iso(Date.parse(run.startedAt) - agedMs);
  await unit.change(update(syncRuns, { startedAt, beganAt: run.beganAt - agedMs, number }, sql`id = ${id}`));
}

const interrupted = (finishedAt: string, which: SQL): SQL =>
  update(syncRuns, { finishedAt, outcome: 'interrupted' }, which);

export async function saveProgress(unit: Unit, id: number, progress: SyncRunProgress): Promise<void> {
  const { pages, seen, inserted, updated, deleted, unchanged } = progress;
  await unit.change(
    update(syncRuns, { pages, seen, inserted, updated, deleted, unchanged }, sql`id = ${id}`),
  );
}
