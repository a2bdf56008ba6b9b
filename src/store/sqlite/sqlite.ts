import { randomBytes } from 'node:crypto';
import { NotMigrated } from '../../platform/errors.ts';
import { type Database, turns } from '../database.ts';
import type { GapChange, Store } from '../store.ts';
import { createBackfillVerbs } from '../units/backfill.ts';
import { createDeletionVerbs } from '../units/deletions.ts';
import { createDueVerbs } from '../units/due.ts';
import { createEventVerbs } from '../units/events.ts';
import { writeFact } from '../units/facts.ts';
import { createFieldVerbs } from '../units/fields.ts';
import { tellingGaps } from '../units/gaps.ts';
import { createRejectionVerbs } from '../units/not-accepted.ts';
import { createOperatorVerbs } from '../units/operators.ts';
import { createProcessingVerbs } from '../units/processing.ts';
import { createReplicaVerbs } from '../units/replicas.ts';
import { createReports } from '../units/reports.ts';
import { createRetentionVerbs } from '../units/retention.ts';
import { createFullSyncVerbs } from '../units/sync-runs.ts';
import { ALONE } from './alone.ts';
import {
  type Connection,
  connect,
  createDatabase,
  guarded,
  guardedVerb,
  migrateSchema,
  schemaIsCurrent,
} from './connection.ts';
import { createEvents } from './events.ts';
import { createFinders } from './finders.ts';
import { createRecords } from './records.ts';
import { settleEpoch } from './restored.ts';
import { assertWhole } from './schema-check.ts';

export interface SqliteOptions {
  /** A path, or `:memory:`. */
  path: string;
  /** For commands that only look: nothing is created, migrated or locked. */
  readOnly?: boolean;
}

/** The whole port over one SQLite file and one connection. */
export function openSqlite(options: SqliteOptions): Store {
  const readOnly = options.readOnly ?? false;
  const db = connect(options.path, { readOnly });
  try {
    if (readOnly && !guarded(() => schemaIsCurrent(db))) {
      throw new NotMigrated(
        'the database has the schema of another version, an earlier one',
        'run `compliance-mirror migrate`, or start the service: it is backed up first',
      );
    }
    if (readOnly) return guarded(() => storeOver(db));
    guarded(() => migrateSchema(db));
    guarded(() => assertWhole(db));
    const opened = guarded(() => settleEpoch(db, Date.now()));
    return guarded(() => storeOver(db, opened));
  } catch (error) {
    db.close();
    throw error;
  }
}

/**
 * What a look whether the disk takes a commit writes: as many pages as a small group of deliveries. Less would fit into the
 * end of a log file that has no room for them. Other bytes on each page than the last look's: what is there already, SQLite does
 * not write again.
 */
const PROBE_BYTES = 16_384;
const probeText = () => randomBytes(PROBE_BYTES / 2).toString('hex');

/**
 * The port over a connection whose schema is current. Closing the store closes the connection. `opened`: gaps that were
 * opened before anybody could watch, for the first who does.
 */
export function storeOver(db: Connection, opened: GapChange[] = []): Store {
  let told: (change: GapChange) => void = () => undefined;
  const database = tellingGaps(createDatabase(db), (change) => told(change));
  const { transact } = database;
  const records = createRecords(db);
  // What the inbox remembers of its busy records holds only as long as it alone writes.
  const inbox: Database = {
    ...database,
    async transact(work, first) {
      try {
        return await transact(work, first);
      } catch (error) {
        records.busy.clear();
        throw error;
      }
    },
  };
  const others: Database = {
    ...database,
    transact(work, first) {
      records.busy.clear();
      return database.transact(work, first);
    },
  };
  const events = createEvents(db, inbox, records);
  const verbs: Omit<Store, 'engine' | 'watchGaps'> = {
    ...events.verbs,
    ...createRejectionVerbs(inbox),
    ...createProcessingVerbs(inbox, events.engine),
    ...createEventVerbs(inbox, events.engine),
    ...createDueVerbs(others, records.shared, { keepsTime: false }),
    ...createBackfillVerbs(others, records.shared),
    ...createDeletionVerbs(others, records.shared),
    ...createFullSyncVerbs(database),
    ...createOperatorVerbs(database),
    ...createRetentionVerbs(database),
    ...createFieldVerbs(database),
    ...createReplicaVerbs(database),
    ...ALONE,
    ...createReports(database, createFinders(db)),
    async checkWritable() {
      await transact((unit) => writeFact(unit, 'written', probeText()));
    },
    async close() {
      db.close();
    },
  };
  return {
    engine: 'sqlite',
    watchGaps(next) {
      told = next;
      opened.splice(0).forEach(next);
    },
    ...oneAtATime(verbs, db.readonly ? database.atOneMoment : (work) => work()),
  };
}

type Verb = (...args: unknown[]) => Promise<unknown>;

/** Of all stores of this thread: one that waits for another's lock waits in SQLite, so that the other could never end. */
const inTurn = turns();

/**
 * Each verb from its begin to its end before the next: of one connection, another would see what is not committed yet, and
 * write into it. None rejects with a word of SQLite's own. `within`: as where another process writes, while this one looks.
 */
function oneAtATime<Verbs extends object>(
  verbs: Verbs,
  within: <T>(work: () => Promise<T>) => Promise<T>,
): Verbs {
  return Object.fromEntries(
    Object.entries(verbs as Record<string, Verb>).map(([name, verb]): [string, Verb] => [
      name,
      (...args) => inTurn(() => guardedVerb(() => within(() => verb(...args)))),
    ]),
  ) as Verbs;
}
