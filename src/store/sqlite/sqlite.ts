import { randomBytes } from 'node:crypto';
import { MirrorError, NotMigrated } from '../../platform/errors.ts';
import { type Database, turns } from '../database.ts';
import { facts } from '../schema.ts';
import { createVerbs, type ReplicaStore, type Store } from '../store.ts';
import { beginEpoch, EPOCH_FACT, withGapWatcher } from '../units/gaps.ts';
import { readFact, sql, writeFact } from '../units/sql.ts';
import { COPIED_FACT } from './backup.ts';
import { type Connection, connect, guardedVerb, placeKeeper } from './connection.ts';
import { createDatabase } from './database.ts';
import { createEvents } from './events.ts';
import { assertWhole, backUpBeforeMigrating, migrateSchema, schemaSteps } from './migrations.ts';

export interface OpeningOptions {
  /** For commands that only read: nothing is created, migrated or locked. */
  readOnly?: boolean | undefined;
  /** This process has the file open already, so it has the present schema. */
  isOpen?: boolean;
  /** Called before an older schema is backed up and migrated, which may take long. */
  onMigrating?: (() => void) | undefined;
  /** With the path of the backup that was made before a migration. */
  onBackup?: ((path: string) => void) | undefined;
}

/**
 * The whole port over one SQLite file (or `:memory:`) and one connection. An older schema is backed up beside the file and migrated. If
 * that fails, the file stays as it was.
 */
export async function openSqlite(path: string, options: OpeningOptions = {}): Promise<Store> {
  const { readOnly = false, isOpen = false } = options;
  const backup =
    readOnly || isOpen ? null : await backUpBeforeMigrating(path, new Date(), options.onMigrating);
  if (backup !== null) options.onBackup?.(backup);
  try {
    return await openCurrent(path, { readOnly, isOpen });
  } catch (error) {
    throw backup === null ? error : namingBackup(error, backup);
  }
}

async function openCurrent(path: string, options: { readOnly: boolean; isOpen: boolean }): Promise<Store> {
  const { readOnly } = options;
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
      assertWhole(db);
      const opened = withGapWatcher(createDatabase(db));
      await inTurn(() => settleEpoch(opened.database));
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

/** Begins a new epoch if a backup was put back, or if the epoch is missing: a person removes it from a copy made in another way. */
async function settleEpoch(database: Database): Promise<void> {
  const copiedAt = await readFact(database.sql, COPIED_FACT);
  if (copiedAt === null && (await readFact(database.sql, EPOCH_FACT)) !== null) return;
  await database.transact(async (unit) => {
    // The service sets the gaps' instants again at its start, with its own clock and settings.
    const now = Date.now();
    await beginEpoch(unit, copiedAt, { wall: now, steady: now });
    await unit.change(sql`DELETE FROM ${facts} WHERE ${facts.name} = ${COPIED_FACT}`);
  });
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
} satisfies Partial<ReplicaStore>;

/**
 * `checkWritable` writes as many pages as a small group of deliveries needs: fewer might still fit when a disk has no room for the
 * deliveries. They are random, because SQLite does not write an unchanged page.
 */
const PROBE_BYTES = 16_384;
const probeText = () => randomBytes(PROBE_BYTES / 2).toString('hex');

/** The port over a connection whose schema is current. Closing the store closes the connection. */
export function storeOver(
  db: Connection,
  { database, watchGaps } = withGapWatcher(createDatabase(db)),
): Store {
  const events = createEvents(db);
  const common = createVerbs(database, events.engine);
  const keepPlace = placeKeeper(db);
  const whileInPlace = async <T>(work: () => Promise<T>): Promise<T> => {
    keepPlace();
    return await database.atOneMoment(work);
  };
  const verbs: Omit<Store, 'engine' | 'watchGaps'> = {
    ...events.verbs,
    ...common,
    ...ALONE,
    async beat(now, facts) {
      keepPlace();
      return await common.beat(now, facts);
    },
    async checkWritable() {
      await database.transact((unit) => writeFact(unit, 'written', probeText()));
    },
    async close() {
      db.close();
    },
  };
  return {
    engine: 'sqlite',
    watchGaps,
    ...oneAtATime(verbs, db.readonly ? whileInPlace : (work) => work()),
  };
}

type Verb = (...args: unknown[]) => Promise<unknown>;

/** Shared by all stores of this thread: a store that waits inside SQLite for another's lock would block the thread, and so that store. */
const inTurn = turns();

/** Runs one verb after another, since a second one would write into the same transaction. `within` runs each verb. */
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
