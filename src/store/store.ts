import type { Database } from './database.ts';
import { createBackfillVerbs } from './units/backfill.ts';
import { createDeletionVerbs } from './units/deletions.ts';
import { createDueVerbs } from './units/due.ts';
import { createEventVerbs } from './units/events.ts';
import { createFieldVerbs } from './units/fields.ts';
import { createOperatorVerbs } from './units/operators.ts';
import { createProcessingVerbs, type Engine } from './units/processing.ts';
import { createReplicaVerbs } from './units/replicas.ts';
import { createReports } from './units/reports.ts';
import { createRetentionVerbs } from './units/retention.ts';
import { createFullSyncVerbs } from './units/sync-runs.ts';
import type { ClaimedEvent, GapChange, Notice, Now } from './values.ts';

/**
 * The port between the stages and the database. Each verb is ONE atomic unit: committed whole when its promise resolves, not
 * at all when it rejects. Transactions do not appear here, so that each engine runs them in its own way. Verbs reject with
 * StoreUnavailable when the database cannot commit. A verb is declared where it is written, once for both engines. Declared
 * here are those that each engine writes for itself.
 */

export type * from './values.ts';

/** Who works on which events. */
export interface ClaimStore {
  /** Due pending events in number order, for `leaseMs`; none of a record of which another batch has claimed one. */
  claimEvents(owner: string, limit: number, leaseMs: number, now: Now): Promise<ClaimedEvent[]>;
  /** Gives back what is left of claims, as after a failure. */
  releaseEvents(events: readonly ClaimedEvent[]): Promise<void>;
  /** At start: drops this process's claims, and those of processes that have ended where nobody else serves the database. */
  recoverClaims(): Promise<void>;
}

/** How processes over one database keep one time, and tell each other. */
export interface NoticeStore {
  /** Null: the process's own clocks are used. A database behind `atLeast` (steady), as after a failover, is corrected for all. */
  sharedTime(atLeast: number | null): Promise<Now | null>;
  /** Resolves also if no other process listens. */
  notify(notice: Notice): Promise<void>;
  /** Notices of other processes, until `stop`. After a reconnect every notice comes once, since some may be lost. */
  listen(onNotice: (notice: Notice) => void): Promise<{ stop: () => Promise<void> }>;
}

type EventVerbs = ReturnType<typeof createEventVerbs>;
type ProcessingVerbs = ReturnType<typeof createProcessingVerbs>;
type DueVerbs = ReturnType<typeof createDueVerbs>;
type BackfillVerbs = ReturnType<typeof createBackfillVerbs>;
type DeletionVerbs = ReturnType<typeof createDeletionVerbs>;
type FullSyncVerbs = ReturnType<typeof createFullSyncVerbs>;

export interface InboxStore extends ClaimStore, EventVerbs, ProcessingVerbs {}
export interface BackfillStore extends DueVerbs, BackfillVerbs, DeletionVerbs, FullSyncVerbs {}
export type OperatorStore = ReturnType<typeof createOperatorVerbs>;
export type RetentionStore = ReturnType<typeof createRetentionVerbs>;
export type FieldStore = ReturnType<typeof createFieldVerbs>;
export type ReportStore = ReturnType<typeof createReports>;
export type ReplicaStore = NoticeStore & ReturnType<typeof createReplicaVerbs>;

/** Repairs read the API, and retry events once a read showed where their ids are. */
export type RepairStore = BackfillStore & Pick<InboxStore, 'retryEvent' | 'failedWithoutRecord'>;

export interface Store
  extends InboxStore,
    BackfillStore,
    OperatorStore,
    RetentionStore,
    FieldStore,
    ReportStore,
    ReplicaStore {
  readonly engine: 'sqlite' | 'postgres';
  /**
   * Once for each gap opened or resolved by this process: after the commit, before the verb resolves; the first callback also gets
   * those before it. Replaces the callback before. Must not throw: a verb would reject although it is committed.
   */
  watchGaps(onChange: (change: GapChange) => void): void;
  /** Rejects with StoreUnavailable if no commit is possible. For readiness. */
  checkWritable(): Promise<void>;
  close(): Promise<void>;
}

/** Every verb that is written once for both engines. */
export function createVerbs(database: Database, engine: Engine) {
  // What an engine remembers of records is true only while nothing but the inbox writes them.
  const inbox: Database = {
    ...database,
    async transact(work, first) {
      try {
        return await database.transact(work, first);
      } catch (error) {
        engine.forgetRecords();
        throw error;
      }
    },
  };
  const records: Database = {
    ...database,
    transact(work, first) {
      engine.forgetRecords();
      return database.transact(work, first);
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
    ...createRetentionVerbs(database),
    ...createFieldVerbs(database),
    ...createReplicaVerbs(database),
    ...createReports(database.reports ?? database),
  };
}
