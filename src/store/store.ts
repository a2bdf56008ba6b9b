import type { Database } from './database.ts';
import { createBackfillVerbs } from './units/backfill.ts';
import { createDeletionVerbs } from './units/deletions.ts';
import { createDueVerbs } from './units/due.ts';
import { createEventVerbs } from './units/events.ts';
import { createFieldVerbs } from './units/fields.ts';
import { createHeartbeatVerbs } from './units/heartbeat.ts';
import { createPlannerVerbs } from './units/next-work.ts';
import { createOperatorVerbs } from './units/operators.ts';
import { createProblemVerbs } from './units/problem-verbs.ts';
import { createProcessingVerbs } from './units/processing.ts';
import { reading } from './units/reading.ts';
import { createReports } from './units/reports.ts';
import { createSharedVerbs } from './units/shared.ts';
import { createFullSyncVerbs } from './units/sync-runs.ts';
import { createRetentionVerbs } from './units/upkeep.ts';
import type { Lease, Notice, Now, ProblemChange } from './values.ts';

/**
 * The port between the stages and the database. Each verb is one atomic unit: it is committed completely when its promise resolves,
 * and not at all when it rejects. It rejects with StoreUnavailable when the database cannot commit. Most verbs are written and
 * declared once for both engines, in `units/`. This file declares those that each engine writes for itself.
 */

export type * from './values.ts';

export interface Store extends Verbs {
  readonly engine: 'sqlite' | 'postgres';
  /**
   * Calls `onChange` for each problem that this process opens or resolves: after the commit, before the verb resolves. The first callback
   * also gets the earlier changes; a later one replaces it. It must not throw: the verb would reject although it is committed.
   */
  watchProblems(onChange: (change: ProblemChange) => void): void;
  /**
   * The verbs for the process that holds this lease: each unit that writes rejects with MirrorError `lease_lost`, and does nothing, once
   * another process has taken it. On SQLite, where no other process is, they are the same verbs.
   */
  underLease(lease: Lease): Verbs;
  /** What others could do to the tables, or what hides their rows, each with its remedy. */
  exposures(): Promise<{ says: string; remedy: string }[]>;
  /** Rejects with StoreUnavailable if no commit is possible. For readiness. */
  checkWritable(): Promise<void>;
  close(): Promise<void>;

  // How processes that share a database use one clock and notify each other.

  /** The database's clock, corrected for all processes if it is behind `atLeast` (steady), for example after a failover. Null: none. */
  sharedTime(atLeast: number | null): Promise<Now | null>;
  /** Resolves also if no other process listens. */
  notify(notice: Notice): Promise<void>;
  /** Passes on the notices of other processes, until `stop`. After each connect it gives every notice once: some may have been missed. */
  listen(onNotice: (notice: Notice) => void): Promise<{ stop: () => Promise<void> }>;
}

/** The verbs that are written once for both engines. */
export type Verbs = ReturnType<typeof createVerbs>;

export function createVerbs(database: Database) {
  const reports = createReports(database.reports ?? database);
  Object.values(reports).forEach(reading);
  return {
    ...createProcessingVerbs(database),
    ...createEventVerbs(database),
    ...createDueVerbs(database),
    ...createPlannerVerbs(database),
    ...createBackfillVerbs(database),
    ...createDeletionVerbs(database),
    ...createFullSyncVerbs(database),
    ...createProblemVerbs(database),
    ...createHeartbeatVerbs(database),
    ...createOperatorVerbs(database),
    ...createRetentionVerbs(database),
    ...createFieldVerbs(database),
    ...createSharedVerbs(database),
    ...reports,
  };
}
