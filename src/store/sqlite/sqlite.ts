import { randomBytes } from 'node:crypto';
import { MirrorError, NotMigrated } from '../../platform/errors.ts';
import { turns } from '../database.ts';
import { createVerbs, type Store } from '../store.ts';
import { withProblemWatcher } from '../units/problem-watcher.ts';
import { isReading, reading } from '../units/reading.ts';
import { writeFact } from '../units/sql.ts';
import { type Connection, connect, guardedVerb, placeKeeper, sizeOf } from './connection.ts';
import { createDatabase } from './database.ts';
import { backUpBeforeMigrating, createNotes, migrateSchema, schemaSteps } from './file.ts';

export interface OpeningOptions {
  /** For commands that only read: nothing is created, migrated or locked. */
  readOnly?: boolean | undefined;
  /** This process has the file open already, so it has the present schema. */
  isOpen?: boolean;
  /** Called before an older schema is backed up and migrated, which may take long. */
  onMigrating?: (() => void) | undefined;
  /** With the path of the backup that was made before a migration. */
  onBackup?: ((path: string) => void) | undefined;
  /** For a service, which has the lock: what an unclean end has left is made durable first. */
  serves?: boolean;
}

/**
 * The whole port over one SQLite file (or `:memory:`) and one connection. An older schema is backed up beside the file and migrated. If
 * that fails, the file stays as it was.
 */
export async function openSqlite(path: string, options: OpeningOptions = {}): Promise<Store> {
  const { readOnly = false, isOpen = false, serves = false } = options;
  const endedUncleanly = serves && path !== ':memory:' && sizeOf(`${path}-wal`) > 0;
  const backup = readOnly || isOpen ? null : await backUpBeforeMigrating(path, options.onMigrating);
  if (backup !== null) options.onBackup?.(backup);
  try {
    return await openCurrent(path, { readOnly, isOpen, endedUncleanly });
  } catch (error) {
    throw backup === null ? error : namingBackup(error, backup);
  }
}

async function openCurrent(
  path: string,
  options: { readOnly: boolean; isOpen: boolean; endedUncleanly: boolean },
): Promise<Store> {
  const { readOnly, endedUncleanly } = options;
  const db = connect(path, options);
  try {
    return await guardedVerb(async () => {
      if (readOnly) {
        if (schemaSteps(db).missing.length === 0) return storeOver(db);
        throw new NotMigrated(
          'the database has the schema of an earlier version',
          'run `compliance-mirror migrate`, or start the service: it is backed up first',
        );
      }
      migrateSchema(db);
      const opened = withProblemWatcher(createDatabase(db));
      if (endedUncleanly) {
        // After a failed flush the pages in memory look good, and may not be on the disk.
        db.pragma('wal_checkpoint(TRUNCATE)');
        await inTurn(opened.database.skipNumbers);
      }
      const notes = createNotes(db, opened.database);
      await inTurn(notes.settleEpoch);
      await inTurn(notes.write);
      return storeOver(db, opened);
    });
  } catch (error) {
    db.close();
    throw error;
  }
}

function namingBackup(error: unknown, backup: string): unknown {
  if (!(error instanceof MirrorError)) return error;
  const before = error.remedy === undefined ? '' : `${error.remedy}; `;
  return Object.assign(error, { remedy: `${before}what it was before the migration is in ${backup}` });
}

/** Only one process has the file: there is no shared clock and no other process to notify. */
export const ALONE = {
  async sharedTime() {
    return null;
  },
  async notify() {},
  async listen() {
    return { stop: async () => undefined };
  },
} satisfies Partial<Store>;

/**
 * `checkWritable` writes as many pages as a small group of deliveries needs: fewer might still fit when a disk has no room for the
 * deliveries. They are random, because SQLite does not write an unchanged page.
 */
const PROBE_BYTES = 16_384;
const probeText = () => randomBytes(PROBE_BYTES / 2).toString('hex');

/** The port over a connection whose schema is current. Closing the store closes the connection. */
export function storeOver(
  db: Connection,
  { database, watchProblems } = withProblemWatcher(createDatabase(db)),
): Store {
  const common = createVerbs(database);
  const keepPlace = placeKeeper(db);
  const notes = createNotes(db, database);
  const whileInPlace = async <T>(work: () => Promise<T>): Promise<T> => {
    keepPlace();
    return await database.atOneMoment(work);
  };
  const verbs: Omit<Store, 'engine' | 'watchProblems' | 'underLease'> = {
    ...common,
    ...ALONE,
    exposures: async () => [],
    async beat(now, facts) {
      keepPlace();
      const result = await common.beat(now, facts);
      await notes.write();
      return result;
    },
    async checkWritable() {
      await database.transact((unit) => writeFact(unit, 'written', probeText()));
    },
    async close() {
      // Without it the note of the last heartbeat stands, which is behind the file and so says nothing wrong.
      if (db.open) await notes.write().catch(() => undefined);
      db.close();
    },
  };
  const inOrder = oneAtATime(verbs, db.readonly ? whileInPlace : (work) => work(), database.flush);
  return { engine: 'sqlite', watchProblems, ...inOrder, underLease: () => inOrder };
}

type Verb = (...args: unknown[]) => Promise<unknown>;

/** Shared by all stores of this thread: a store that waits inside SQLite for another's lock would block the thread, and so that store. */
const inTurn = turns();

/**
 * Runs one verb after another, since a second one would write into the same transaction. `within` runs each verb. What a reading one has
 * found is shown only after `flush`: nothing that anybody saw is lost by a power cut.
 */
function oneAtATime<Verbs extends object>(
  verbs: Verbs,
  within: <T>(work: () => Promise<T>) => Promise<T>,
  flush: () => void,
): Verbs {
  return Object.fromEntries(
    Object.entries(verbs as Record<string, Verb>).map(([name, verb]): [string, Verb] => {
      const alone: Verb = (...args) => inTurn(() => guardedVerb(() => within(() => verb(...args))));
      if (!isReading(verb)) return [name, alone];
      const shown = reading(async (...args: unknown[]) => {
        const found = await alone(...args);
        flush();
        return found;
      });
      return [name, shown];
    }),
  ) as Verbs;
}
