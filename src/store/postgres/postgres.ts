import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { NotMigrated, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import type { Database, Flush, Sql, Unit } from '../database.ts';
import { sql } from '../statement.ts';
import { createVerbs, type Lease, type Notice, type Store } from '../store.ts';
import { beginEpoch, EPOCH_FACT } from '../units/epoch.ts';
import { showFields } from '../units/fields.ts';
import { withProblemWatcher } from '../units/problem-watcher.ts';
import { requireLease } from '../units/shared.ts';
import { singleValue, writeFact } from '../units/sql.ts';
import { createDatabase, type PostgresDatabase } from './connection.ts';
import { tlsTrouble } from './failures.ts';
import {
  checkPooler,
  checkPrivileges,
  checkServer,
  checkVisible,
  exposures,
  type MigrationWatch,
  migrateSchema,
  poolerErrorFor,
  schemaState,
} from './opening.ts';
import { endConnections, type PostgresSettings } from './pool.ts';

export interface PostgresOptions extends PostgresSettings, MigrationWatch {
  /** For commands that only read: nothing is created, migrated or locked. */
  readOnly?: boolean | undefined;
}

/** SQLSTATEs that show wrong settings, and do not pass by themselves. */
const SETTINGS_AT_FAULT = new Set(['28000', '28P01', '3D000', '42501', '42883', '42P01']);

/** The whole port over one schema of a PostgreSQL database. Several processes may have it open. */
export async function openPostgres(
  url: string,
  { readOnly = false, onMigrating, onWaiting, ...settings }: PostgresOptions = {},
): Promise<Store> {
  const database = createDatabase(url, { ...settings, readOnly });
  try {
    await checkServer(database, readOnly);
    await checkPooler(database);
    await checkPrivileges(database, readOnly);
    await checkVisible(database);
    const state = await schemaState(database);
    if (state !== 'current') {
      if (readOnly) throw notCurrent(state, database.schema);
      await migrateSchema(database, { onMigrating, onWaiting });
    }
    const opened = withProblemWatcher(database);
    if (!readOnly) await epochSettler(opened.database)();
    const store = storeOver(database, opened);
    // Not while somebody's query holds a view: then the next start does it.
    if (!readOnly)
      await showFields(opened.database).catch((error) => {
        if (!(error instanceof StoreUnavailable)) throw error;
      });
    return store;
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
        'the database has the schema of an earlier version',
        'run `compliance-mirror migrate`, or start the service',
      );
}

/** At a start a refused password is a wrong setting; while the service runs, it may be being changed. */
function atStart(error: unknown): unknown {
  if (!(error instanceof StoreUnavailable)) return poolerErrorFor(error) ?? error;
  const code = (error.cause as { code?: string } | undefined)?.code;
  return (code !== undefined && SETTINGS_AT_FAULT.has(code)) || tlsTrouble(error.cause) !== null
    ? new UsageError(error.message, error.remedy)
    : error;
}

/** The port over a schema that is current. Closing the store closes `server`. */
export function storeOver(
  server: PostgresDatabase,
  { database, watchProblems } = withProblemWatcher(server),
): Store {
  const verbs = createVerbs(database);
  const settleEpoch = epochSettler(database);
  return {
    engine: 'postgres',
    watchProblems,
    ...verbs,
    ...createNoticeVerbs(database),
    async beat(now, facts) {
      // While the service runs, the server may be restored, or a standby may take over.
      await settleEpoch();
      return await verbs.beat(now, facts);
    },
    async checkWritable() {
      // A write, since a row can be locked even on a full disk.
      await database.transact((unit) =>
        unit.change(sql`UPDATE counter SET value = value WHERE value = (SELECT max(value) FROM counter)`),
      );
    },
    exposures: () => exposures(database),
    underLease: (lease) => createVerbs(fenced(database, lease)),
    close: () => database.close(),
  };
}

/**
 * The same database for the holder of a lease. Each unit looks whether the lease is still its own once it has the counter. No lock on the
 * lease is needed: whoever takes it next begins no unit before this one has committed.
 */
function fenced(database: Database, lease: Lease): Database {
  return {
    ...database,
    transact<T, First>(
      work: (unit: Unit, read: First) => Promise<T>,
      first?: (to: Sql) => Promise<First>,
      flush?: Flush,
    ) {
      return database.transact(
        (unit, [, read]: [unknown, First]) => work(unit, read),
        (to) => Promise.all([requireLease(to, lease), first?.(to) as Promise<First>]),
        flush,
      );
    },
  };
}

/** If the server's clock is this far behind our processes, it was set back or is another server's. Less is normal drift. */
const BEHIND_MS = 250;
/** How far the steady time of all replicas is ahead of the server's clock. */
const CLOCK_FACT = 'clock_ahead_ms';

const SERVER_TIME = sql`(extract(epoch FROM clock_timestamp()) * 1000)::float8`;

/** The server's clock, which all replicas use, and their notices. */
function createNoticeVerbs(db: PostgresDatabase) {
  return {
    async sharedTime(atLeast) {
      const [row] = await db.sql.query<{ wall: number; ahead: string | null }>(
        sql`SELECT ${SERVER_TIME} AS wall, (SELECT value FROM facts WHERE name = ${CLOCK_FACT}) AS ahead`,
      );
      const { wall } = row!;
      const ahead = Number(row!.ahead ?? 0);
      if (atLeast === null || atLeast - (wall + ahead) < BEHIND_MS) return { wall, steady: wall + ahead };
      const corrected = await singleValue<string>(
        db.sql,
        sql`INSERT INTO facts (name, value) VALUES (${CLOCK_FACT}, ${String(atLeast - wall)}) ON CONFLICT (name) DO UPDATE
         SET value = greatest(facts.value::float8, excluded.value::float8)::text RETURNING value`,
      );
      return { wall, steady: wall + Number(corrected) };
    },

    async notify(notice) {
      await db.sql.query(sql`SELECT pg_notify(${NOTICE_CHANNEL}, ${`${db.schema} ${notice}`})`);
    },
    listen: async (onNotice) => createListener(db, onNotice),
  } satisfies Partial<Store>;
}

/** One channel for all mirrors in a database: the payload names the schema. */
const NOTICE_CHANNEL = 'compliance_mirror';

const NOTICES: readonly Notice[] = ['events', 'work'];

/** How long to wait before a lost connection is made again, doubled each time. Meanwhile replicas poll. */
const AGAIN_FIRST_MS = 200;
const AGAIN_LONGEST_MS = 10_000;

/** Listens on its own connection until it is stopped. If the connection is lost, it connects again. */
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

  async function listenOnce(): Promise<void> {
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
      await endConnections(client);
    }
  }

  async function run(): Promise<void> {
    while (!end.signal.aborted) {
      // Ignored, since whoever uses the pool reports the same failure.
      await listenOnce().catch(() => undefined);
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

/** This fact has the value of `PLACE` when the epoch began. */
const PLACE_FACT = 'place';

/**
 * Identifies the cluster, its timeline, the database and the table. It changes when the database may have lost commits: a restore to a
 * point in time and a standby that takes over begin another timeline; a dump is put back into another table or database.
 */
const PLACE = sql`concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
  left(pg_walfile_name(pg_current_wal_lsn()), 8),
  (SELECT oid FROM pg_database WHERE datname = current_database()), to_regclass('facts')::oid)`;

/** How far the server's log is on the disk. No crash takes it back, but an older copy of the server's files does. */
const REACHED = sql`pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint`;

/** SQLSTATEs: the user may not ask for the place; the server is still recovering, for example a standby that takes over. */
const FORBIDDEN = '42501';
const RECOVERING = '55000';

/**
 * The result is called at the start and before each heartbeat. It begins a new epoch if the database is in another place than before, or
 * if the epoch is missing: a person removes it from a copy. The same commit opens problems for lost events. Only one replica does it.
 *
 * An older copy of the server's files, such as a snapshot of its volume, is in the same place. Only a process that saw a later state notices it.
 */
function epochSettler(database: PostgresDatabase): () => Promise<void> {
  let mayAsk = true;
  let last: number | undefined;
  /** Epochs that this process has found. The same older files may be put back again. */
  const seen = new Set<string>();

  /** Null: this server, like some hosted ones, does not tell its place. Rejects if it cannot tell now: then nothing may be written. */
  async function placeNow(): Promise<{ place: string; reached: number } | null> {
    if (!mayAsk) return null;
    try {
      const [here] = await database.sql.query<{ place: string; reached: number }>(
        sql`SELECT ${PLACE} AS place, ${REACHED} AS reached`,
      );
      return here!;
    } catch (error) {
      const { code, cause } = error as { code?: string; cause?: { code?: string } };
      const state = cause?.code ?? code;
      if (state === RECOVERING || (error instanceof StoreUnavailable && state !== FORBIDDEN)) throw error;
      mayAsk = false;
      return null;
    }
  }

  async function begin(isUnsettled: (known: Facts) => boolean, place: string | null): Promise<void> {
    await database.transact(async (unit) => {
      const known = await factsIn(unit);
      // Another replica may have done it meanwhile.
      if (!isUnsettled(known)) return;
      // An epoch without a place goes on: only its place is noted.
      if (known[EPOCH_FACT] === undefined || known[PLACE_FACT] !== undefined) {
        const wall = (await singleValue<number>(unit, sql`SELECT ${SERVER_TIME}`)) ?? Date.now();
        await beginEpoch(unit, null, { wall, steady: wall + Number(known[CLOCK_FACT] ?? 0) });
      }
      if (place !== null) await writeFact(unit, PLACE_FACT, place);
    });
  }

  return async () => {
    // Before the question, since heartbeats may overlap.
    const before = last;
    const here = await placeNow();
    const isOlder = here !== null && before !== undefined && here.reached < before;
    const isUnsettled = ({ [EPOCH_FACT]: epoch, [PLACE_FACT]: place }: Facts) =>
      epoch === undefined ||
      (here !== null && place !== here.place) ||
      // Another replica that has noticed it has begun another epoch.
      (isOlder && seen.has(epoch));
    const found = await factsIn(database.sql);
    if (isUnsettled(found)) await begin(isUnsettled, here?.place ?? null);
    if (found[EPOCH_FACT] !== undefined) seen.add(found[EPOCH_FACT]);
    last = here?.reached;
  };
}

type Facts = Readonly<Record<string, string | undefined>>;

async function factsIn(from: Sql): Promise<Facts> {
  const rows = await from.query<{ name: string; value: string }>(
    sql`SELECT name, value FROM facts WHERE name IN (${EPOCH_FACT}, ${PLACE_FACT}, ${CLOCK_FACT})`,
  );
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}
