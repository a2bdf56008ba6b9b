import { NotMigrated, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import type { GapChange, Store } from '../store.ts';
import { tellingGaps } from '../units/gaps.ts';
import { sql } from '../units/sql.ts';
import { createVerbs } from '../units/verbs.ts';
import type { PostgresSettings } from './address.ts';
import { checkPooler, checkPrivileges, checkServer, poolerMet } from './checks.ts';
import { createDatabase, type PostgresDatabase } from './connection.ts';
import { createFinders } from './dialect.ts';
import { createEvents } from './events.ts';
import { tlsTrouble } from './failures.ts';
import { migrateSchema, schemaState } from './migrations.ts';
import { createNoticeVerbs, epochSettler } from './server.ts';

export interface PostgresOptions extends PostgresSettings {
  /** For commands that only read: nothing is created, migrated or locked. */
  readOnly?: boolean;
  /** Called before an older schema is migrated, which may take long. */
  onMigrating?: () => void;
}

/** SQLSTATEs that do not pass by themselves: the settings are wrong. */
const SETTINGS_AT_FAULT = new Set(['28000', '28P01', '3D000', '3F000', '42501']);

/** The whole port over one schema of a PostgreSQL database. Several processes may have it open. */
export async function openPostgres(url: string, options: PostgresOptions = {}): Promise<Store> {
  const readOnly = options.readOnly ?? false;
  const database = createDatabase(url, options);
  try {
    await checkServer(database, readOnly);
    await checkPooler(database);
    await checkPrivileges(database, readOnly);
    const state = await schemaState(database);
    if (state !== 'current') {
      if (readOnly) throw notCurrent(state, database.schema);
      await migrateSchema(database, options.onMigrating);
    }
    const opened: GapChange[] = [];
    if (!readOnly) await epochSettler(tellingGaps(database, (change) => opened.push(change)))();
    return storeOver(database, opened);
  } catch (error) {
    await database.close();
    throw atStart(error);
  }
}

function notCurrent(state: 'missing' | 'older', schema: string): NotMigrated {
  return state === 'missing'
    ? new NotMigrated(
        `there is no mirror in the schema ${schema} of the database`,
        'start the service once, or run `compliance-mirror migrate`',
      )
    : new NotMigrated(
        'the database has the schema of another version, an earlier one',
        'run `compliance-mirror migrate`, or start the service',
      );
}

/** While the service runs, a refused password may be one that is just being changed; at a start it is a wrong setting. */
function atStart(error: unknown): unknown {
  if (!(error instanceof StoreUnavailable)) return poolerMet(error) ?? error;
  const code = (error.cause as { code?: string } | undefined)?.code;
  return (code !== undefined && SETTINGS_AT_FAULT.has(code)) || tlsTrouble(error.cause) !== null
    ? new UsageError(error.message, error.remedy)
    : error;
}

/**
 * The port over a schema that is current. Closing the store closes `server`. `opened`: gaps that were opened before there
 * was a watcher; the first one gets them.
 */
export function storeOver(server: PostgresDatabase, opened: GapChange[] = []): Store {
  let watcher: (change: GapChange) => void = () => undefined;
  const database = tellingGaps(server, (change) => watcher(change));
  const events = createEvents(database);
  const verbs = createVerbs(database, events.engine, {
    finders: createFinders(database.sql),
    keepsTime: true,
  });
  const settleEpoch = epochSettler(database);
  return {
    engine: 'postgres',
    watchGaps(next) {
      watcher = next;
      opened.splice(0).forEach(next);
    },
    ...events.verbs,
    ...verbs,
    ...createNoticeVerbs(database),
    async beat(now, facts) {
      // A server may be restored, or a standby take over, while the service runs.
      await settleEpoch();
      await verbs.beat(now, facts);
    },
    async checkWritable() {
      // A write, not only a lock: a row can be locked on a full disk, too.
      await database.transact((unit) => unit.change(sql`UPDATE counter SET value = value WHERE one = 1`));
    },
    async close() {
      await events.letGoAll().catch(() => undefined);
      await database.close();
    },
  };
}
