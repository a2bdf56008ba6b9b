import type { Database } from './database.ts';
import { createBackfillVerbs } from './units/backfill.ts';
import { createDeletionVerbs } from './units/deletions.ts';
import { createDueVerbs } from './units/due.ts';
import { createEventVerbs } from './units/events.ts';
import { createOperatorVerbs } from './units/operators.ts';
import { createProcessingVerbs, type Engine } from './units/processing.ts';
import { createReplicaVerbs } from './units/replicas.ts';
import { createReports } from './units/reports.ts';
import { createFullSyncVerbs } from './units/sync-runs.ts';
import { createFieldVerbs, createRetentionVerbs } from './units/upkeep.ts';
import type { ClaimedEvent, GapChange, Notice, Now } from './values.ts';

/**
 * The port between the stages and the database. Each verb is one atomic unit: it is committed completely when its promise resolves,
 * and not at all when it rejects. It rejects with StoreUnavailable when the database cannot commit. Most verbs are written and
 * declared once for both engines, in `units/`. This file declares those that each engine writes for itself.
 */

export type * from './values.ts';

/** Who works on which events. */
export interface ClaimStore {
  /** Claims due pending events for `leaseMs`, in number order. Skips events of a record while another owner has claimed one of it. */
  claimEvents(owner: string, limit: number, leaseMs: number, now: Now): Promise<ClaimedEvent[]>;
  /** Ends those of these claims that are not lost, for example after a failure. */
  releaseEvents(events: readonly ClaimedEvent[]): Promise<void>;
  /** Ends all claims of this store. */
  recoverClaims(): Promise<void>;
}

/** How processes that share a database use one clock and notify each other. */
interface NoticeStore {
  /** The database's clock, corrected for all processes if it is behind `atLeast` (steady), for example after a failover. Null: none. */
  sharedTime(atLeast: number | null): Promise<Now | null>;
  /** Resolves also if no other process listens. */
  notify(notice: Notice): Promise<void>;
  /** Passes on the notices of other processes, until `stop`. After each connect it gives every notice once: some may have been missed. */
  listen(onNotice: (notice: Notice) => void): Promise<{ stop: () => Promise<void> }>;
}

export type InboxStore = ClaimStore &
  ReturnType<typeof createEventVerbs> &
  ReturnType<typeof createProcessingVerbs>;
export type BackfillStore = ReturnType<typeof createDueVerbs> &
  ReturnType<typeof createBackfillVerbs> &
  ReturnType<typeof createDeletionVerbs> &
  ReturnType<typeof createFullSyncVerbs>;
export type OperatorStore = ReturnType<typeof createOperatorVerbs>;
export type RetentionStore = ReturnType<typeof createRetentionVerbs>;
export type ReportStore = ReturnType<typeof createReports>;
export type ReplicaStore = NoticeStore & ReturnType<typeof createReplicaVerbs>;

/** Repairs read the API, audit what it says of our credentials, and retry events once a read showed where their ids are. */
export type RepairStore = BackfillStore &
  Pick<InboxStore, 'retryEvent' | 'failedWithoutRecord'> &
  Pick<OperatorStore, 'audit'>;

export interface Store extends ReturnType<typeof createVerbs>, ClaimStore, NoticeStore {
  readonly engine: 'sqlite' | 'postgres';
  /**
   * Calls `onChange` for each gap that this process opens or resolves: after the commit, before the verb resolves. The first callback
   * also gets the earlier changes; a later one replaces it. It must not throw: the verb would reject although it is committed.
   */
  watchGaps(onChange: (change: GapChange) => void): void;
  /** Rejects with StoreUnavailable if no commit is possible. For readiness. */
  checkWritable(): Promise<void>;
  close(): Promise<void>;
}

export function createVerbs(database: Database, engine: Engine) {
  // The records that an engine keeps in memory are right only as long as no other verbs than the inbox's write records.
  const inbox: Database = {
    ...database,
    async transact(...unit) {
      try {
        return await database.transact(...unit);
      } catch (error) {
        engine.forgetRecords();
        throw error;
      }
    },
  };
  const records: Database = {
    ...database,
    transact(...unit) {
      engine.forgetRecords();
      return database.transact(...unit);
    },
  };
  return {
    ...createProcessingVerbs(inbox, engine),
    ...createEventVerbs(inbox, engine),
    ...createDueVerbs(records, engine),
    ...createBackfillVerbs(records, engine.records),
    ...createDeletionVerbs(records, engine.records),
    ...createFullSyncVerbs(database),
    ...createOperatorVerbs(database),
    ...createRetentionVerbs(records),
    ...createFieldVerbs(database),
    ...createReplicaVerbs(database),
    ...createReports(database.reports ?? database),
  };
}
