import { NotMigrated } from '../../errors.ts';
import type { GapChange, Store } from '../store.ts';
import { createBackfillVerbs } from './backfill.ts';
import {
  type Connection,
  connect,
  guarded,
  guardedVerb,
  migrateSchema,
  schemaIsCurrent,
  type Transact,
  transactions,
} from './connection.ts';
import { settleEpoch } from './epoch.ts';
import { createGapNotes, createGaps } from './gaps.ts';
import { createInboxVerbs } from './inbox.ts';
import { createOperatorVerbs } from './operators.ts';
import { createRecords } from './records.ts';
import { createReplicaVerbs } from './replicas.ts';
import { createReports } from './reports.ts';
import { createRetentionVerbs } from './retention.ts';
import { createSweepVerbs } from './sweeps.ts';

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
    const opened = guarded(() => settleEpoch(db, Date.now()));
    return guarded(() => storeOver(db, opened));
  } catch (error) {
    db.close();
    throw error;
  }
}

/**
 * What a look whether the disk takes a commit writes: as many pages as a small group of deliveries. Less would fit into the
 * end of a log file that has no room for them.
 */
const PROBE_BYTES = 16_384;

/**
 * The port over a connection whose schema is current. Closing the store closes the connection. `opened`: gaps that were
 * opened before anybody could watch, for the first who does.
 */
export function storeOver(db: Connection, opened: GapChange[] = []): Store {
  const gapNotes = createGapNotes();
  const transact = gapNotes.telling(transactions(db));
  const records = createRecords(db);
  // What the inbox remembers of its busy records holds only as long as it alone writes.
  const inboxTransact: Transact = (work) => {
    try {
      return transact(work);
    } catch (error) {
      records.busy.clear();
      throw error;
    }
  };
  const otherTransact: Transact = (work) => {
    records.busy.clear();
    return transact(work);
  };
  const gaps = createGaps(db, gapNotes);
  const probe = db.prepare(
    "INSERT INTO facts (name, value) VALUES ('written', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
  );
  const verbs: Omit<Store, 'engine' | 'watchGaps'> = {
    ...createInboxVerbs(db, inboxTransact, records, gaps),
    ...createBackfillVerbs(db, otherTransact, records, gaps),
    ...createSweepVerbs(db, otherTransact, gaps),
    ...createOperatorVerbs(db, transact),
    ...createRetentionVerbs(db, transact),
    ...createReplicaVerbs(db, transact),
    ...createReports(db),
    async checkWritable() {
      transact(() => probe.run('x'.repeat(PROBE_BYTES)));
    },
    async close() {
      db.close();
    },
  };
  return {
    engine: 'sqlite',
    watchGaps(told) {
      gapNotes.watch(told);
      opened.splice(0).forEach(told);
    },
    ...translating(verbs),
  };
}

type Verb = (...args: unknown[]) => Promise<unknown>;

/** No verb rejects with a word of SQLite's own. */
function translating<Verbs extends object>(verbs: Verbs): Verbs {
  const translated = Object.entries(verbs as Record<string, Verb>).map(([name, verb]): [string, Verb] => [
    name,
    (...args) => guardedVerb(() => verb(...args)),
  ]);
  return Object.fromEntries(translated) as Verbs;
}
