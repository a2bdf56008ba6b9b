import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { NotMigrated, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import type { Sql } from '../database.ts';
import { createVerbs, type Notice, type ReplicaStore, type Store } from '../store.ts';
import { beginEpoch, EPOCH_FACT, watched } from '../units/gaps.ts';
import { single, sql, writeFact } from '../units/sql.ts';
import type { PostgresSettings } from './address.ts';
import { createDatabase, goodbye, type PostgresDatabase } from './connection.ts';
import { createEvents } from './events.ts';
import { tlsTrouble } from './failures.ts';
import {
  checkPooler,
  checkPrivileges,
  checkServer,
  migrateSchema,
  poolerMet,
  schemaState,
} from './opening.ts';

export interface PostgresOptions extends PostgresSettings {
  /** For commands that only read: nothing is created, migrated or locked. */
  readOnly?: boolean | undefined;
  /** Called before an older schema is migrated, which may take long. */
  onMigrating?: (() => void) | undefined;
}

/** SQLSTATEs that do not pass by themselves: the settings are wrong. */
const SETTINGS_AT_FAULT = new Set(['28000', '28P01', '3D000', '3F000', '42501']);

/** The whole port over one schema of a PostgreSQL database. Several processes may have it open. */
export async function openPostgres(
  url: string,
  { readOnly = false, onMigrating, ...settings }: PostgresOptions = {},
): Promise<Store> {
  const database = createDatabase(url, { ...settings, readOnly });
  try {
    await checkServer(database, readOnly);
    await checkPooler(database);
    await checkPrivileges(database, readOnly);
    const state = await schemaState(database);
    if (state !== 'current') {
      if (readOnly) throw notCurrent(state, database.schema);
      await migrateSchema(database, onMigrating);
    }
    const opened = watched(database);
    if (!readOnly) await epochSettler(opened.database)();
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

/** The port over a schema that is current. Closing the store closes `server`. */
export function storeOver(server: PostgresDatabase, { database, watchGaps } = watched(server)): Store {
  const events = createEvents(database);
  const verbs = createVerbs(database, events.engine);
  const settleEpoch = epochSettler(database);
  return {
    engine: 'postgres',
    watchGaps,
    ...events.verbs,
    ...verbs,
    ...createNoticeVerbs(database),
    async beat(now, facts) {
      // A server may be restored, or a standby take over, while the service runs.
      await settleEpoch();
      return await verbs.beat(now, facts);
    },
    async checkWritable() {
      // A write, not only a lock: a row can be locked on a full disk, too.
      await database.transact((unit) => unit.change(sql`UPDATE counter SET value = value WHERE one = 1`));
    },
    async close() {
      // So that nobody has to wait for their leases.
      await events.verbs.recoverClaims().catch(() => undefined);
      await database.close();
    },
  };
}

/** What replicas share through the server: its clock, notices, and the place by which a restored database is recognised. */

/** A clock this far behind our processes was set back, or is another server's; less is normal drift. */
const BEHIND_MS = 250;
/** How far the steady time of all replicas is ahead of the server's clock. */
const CLOCK_FACT = 'clock_ahead_ms';

const SERVER_TIME = sql`(extract(epoch FROM clock_timestamp()) * 1000)::float8`;

/** The server's clock, which all replicas use, and how they notify each other. */
function createNoticeVerbs(db: PostgresDatabase) {
  return {
    async sharedTime(atLeast) {
      const [row] = await db.sql.query<{ wall: number; ahead: string | null }>(
        sql`SELECT ${SERVER_TIME} AS wall, (SELECT value FROM facts WHERE name = ${CLOCK_FACT}) AS ahead`,
      );
      const { wall } = row!;
      const ahead = Number(row!.ahead ?? 0);
      if (atLeast === null || atLeast - (wall + ahead) < BEHIND_MS) return { wall, steady: wall + ahead };
      const mended = await single<string>(
        db.sql,
        sql`INSERT INTO facts (name, value) VALUES (${CLOCK_FACT}, ${String(atLeast - wall)}) ON CONFLICT (name) DO UPDATE
         SET value = greatest(facts.value::float8, excluded.value::float8)::text RETURNING value`,
      );
      return { wall, steady: wall + Number(mended) };
    },

    async notify(notice) {
      await db.sql.query(sql`SELECT pg_notify(${NOTICE_CHANNEL}, ${`${db.schema} ${notice}`})`);
    },
    listen: async (onNotice) => createListener(db, onNotice),
  } satisfies Partial<ReplicaStore>;
}

/** One for all mirrors of a database: the payload names the schema. */
const NOTICE_CHANNEL = 'compliance_mirror';

const NOTICES: readonly Notice[] = ['events', 'work'];

/** The wait before a lost connection is made again, doubled each time. Meanwhile each replica looks by itself now and then. */
const AGAIN_FIRST_MS = 200;
const AGAIN_LONGEST_MS = 10_000;

/** Listens on a connection of its own, and connects again when that is lost, until it is stopped. */
function createListener(
  db: Pick<PostgresDatabase, 'schema' | 'dedicated'>,
  onNotice: (notice: Notice) => void,
): { stop: () => Promise<void> } {
  const end = new AbortController();
  let failures = 0;

  function hear({ payload }: pg.Notification): void {
    const notice = NOTICES.find((each) => payload === `${db.schema} ${each}`);
    if (notice !== undefined) onNotice(notice);
  }

  async function once(): Promise<void> {
    const client = await db.dedicated();
    try {
      const { promise: over, resolve } = Promise.withResolvers<void>();
      for (const event of ['error', 'end'] as const) client.once(event, () => resolve());
      end.signal.addEventListener('abort', () => resolve(), { once: true });
      client.on('notification', hear);
      await client.query(`LISTEN ${NOTICE_CHANNEL}`);
      failures = 0;
      // Earlier notices were missed.
      NOTICES.forEach(onNotice);
      if (!end.signal.aborted) await over;
    } finally {
      await goodbye(client);
    }
  }

  async function run(): Promise<void> {
    while (!end.signal.aborted) {
      // All that use the pool report the same failure.
      await once().catch(() => undefined);
      if (end.signal.aborted) return;
      const ms = Math.min(AGAIN_LONGEST_MS, AGAIN_FIRST_MS * 2 ** failures);
      await sleep(ms, undefined, { signal: end.signal }).catch(() => undefined);
      failures += 1;
    }
  }

  const running = run();
  return {
    async stop() {
      end.abort();
      await running;
    },
  };
}

/** Where the database was when its epoch began: the value of `PLACE`. */
const PLACE_FACT = 'place';

/**
 * The cluster, its timeline, the database, the table. A restore to a point in time and a standby that takes over begin another
 * timeline; a dump is put back into another table, or elsewhere. None of them is sure to bring along all that was committed.
 */
const PLACE = sql`concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
  left(pg_walfile_name(pg_current_wal_lsn()), 8),
  (SELECT oid FROM pg_database WHERE datname = current_database()), to_regclass('facts')::oid)`;

/** SQLSTATEs: the user may not ask; and the server is still recovering, as a standby that is about to take over. */
const FORBIDDEN = '42501';
const RECOVERING = '55000';

/**
 * Called at the start and before each heartbeat. A database without an epoch begins one (a person says so that a copy was put
 * back), and so does one in another place than before. The same commit opens the gap of what it lacks; one of several replicas does it.
 */
function epochSettler(database: PostgresDatabase): () => Promise<void> {
  let tells = true;

  /** Null: this server does not say, as some hosted ones. Rejects if it cannot say just now: then nothing may be written. */
  async function placeNow(): Promise<string | null> {
    if (!tells) return null;
    try {
      return await single<string>(database.sql, sql`SELECT ${PLACE} AS place`);
    } catch (error) {
      const { code, cause } = error as { code?: string; cause?: { code?: string } };
      const state = cause?.code ?? code;
      if (state === RECOVERING || (error instanceof StoreUnavailable && state !== FORBIDDEN)) throw error;
      tells = false;
      return null;
    }
  }

  return async () => {
    const place = await placeNow();
    if (!isOther(await factsIn(database.sql), place)) return;
    await database.transact(async (unit) => {
      const known = await factsIn(unit);
      // Otherwise another replica has done it meanwhile.
      if (!isOther(known, place)) return;
      // An epoch without a place began here, before its place was noted.
      if (known[EPOCH_FACT] === undefined || known[PLACE_FACT] !== undefined) {
        const wall = (await single<number>(unit, sql`SELECT ${SERVER_TIME}`)) ?? Date.now();
        await beginEpoch(unit, null, { wall, steady: wall + Number(known[CLOCK_FACT] ?? 0) });
      }
      if (place !== null) await writeFact(unit, PLACE_FACT, place);
    });
  };
}

type Facts = Readonly<Record<string, string | undefined>>;

async function factsIn(from: Sql): Promise<Facts> {
  const rows = await from.query<{ name: string; value: string }>(
    sql`SELECT name, value FROM facts WHERE name IN (${EPOCH_FACT}, ${PLACE_FACT}, ${CLOCK_FACT})`,
  );
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}

const isOther = (known: Facts, place: string | null): boolean =>
  known[EPOCH_FACT] === undefined || (place !== null && known[PLACE_FACT] !== place);
