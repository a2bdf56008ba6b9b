import type { Database } from '../database.ts';
import { createBackfillVerbs } from './backfill.ts';
import { createDeletionVerbs } from './deletions.ts';
import { createDueVerbs } from './due.ts';
import { createEventVerbs } from './events.ts';
import { createFieldVerbs } from './fields.ts';
import { createOperatorVerbs } from './operators.ts';
import { createProcessingVerbs, type EventEngine } from './processing.ts';
import { createReplicaVerbs } from './replicas.ts';
import { createReports } from './reports.ts';
import { createRetentionVerbs } from './retention.ts';
import { createFullSyncVerbs } from './sync-runs.ts';

interface EngineParts {
  /** Its steady clock goes on over restarts. */
  keepsTime: boolean;
  /** `database` for verbs of the inbox, and for those of others that write records, where the engine must know which. */
  inbox?: Database;
  records?: Database;
}

/** Every verb that is written once for both engines. */
export function createVerbs(
  database: Database,
  engine: EventEngine,
  { keepsTime, inbox = database, records = database }: EngineParts,
) {
  return {
    ...createProcessingVerbs(inbox, engine),
    ...createEventVerbs(inbox, engine),
    ...createDueVerbs(records, { keepsTime }),
    ...createBackfillVerbs(records, engine.records),
    ...createDeletionVerbs(records, engine.records),
    ...createFullSyncVerbs(database),
    ...createOperatorVerbs(database),
    ...createRetentionVerbs(database),
    ...createFieldVerbs(database),
    ...createReplicaVerbs(database),
    ...createReports(database),
  };
}
