import { performance } from 'node:perf_hooks';
import pg from 'pg';
import { UsageError } from '../../platform/errors.ts';
import type * as database from '../database.ts';
import { turns } from '../database.ts';
import { type Column, drizzleModule, type SQL, type Table } from '../drizzle.ts';
import { createWriter } from '../statement.ts';
import type { GapChange } from '../store.ts';
import { LAST, sql } from '../units/sql.ts';
import { ConnectionLost, endsConnection, isRetryable, reasonOf, translate } from './failures.ts';
import { keepJson, keepText } from './text.ts';
import { TYPES } from './types.ts';

export interface PostgresSettings {
  /** Where all tables live, so that several mirrors share a database. */
  schema?: string;
  /** Connections of this process, at most. */
  poolSize?: number;
  statementTimeoutMs?: number;
  lockTimeoutMs?: number;
  /** PEM file of the authority that signed the server's certificate; asks for TLS. */
  tlsCaFile?: string;
  applicationName?: string;
}

const DEFAULT_SCHEMA = 'public';

/** One writer, claims, and a few people who look: more would only queue in the server instead of here. */
const POOL_SIZE = 8;
/** Far above what any statement takes; below it a lost plan would hold every other writer up. */
const STATEMENT_TIMEOUT_MS = 30_000;
/** Writers wait for each other in turn; a sender gives up after about 15 s, so a longer wait answers nobody. */
const LOCK_TIMEOUT_MS = 10_000;
/** A replica that stops in the middle of a transaction holds the counter, and with it every other replica. */
const IDLE_IN_TRANSACTION_MS = 10_000;
const CONNECT_TIMEOUT_MS = 5_000;
/** Beyond the server's own limit: only a network that swallows the answer gets this far. */
const ANSWER_MARGIN_MS = 5_000;
/** Half-open connections are noticed before a firewall forgets them. */
const KEEP_ALIVE_DELAY_MS = 10_000;
const IDLE_CONNECTION_MS = 60_000;

/** After a failed attempt nobody connects for this long, doubled each time: a server that comes up is not stormed. */
const BACKOFF_FIRST_MS = 50;
const BACKOFF_LONGEST_MS = 2_000;

/** Deadlocks and serialisation failures resolve themselves in one or two rounds; more means something else is wrong. */
const TRANSACTION_TRIES = 6;
const TRY_AGAIN_FIRST_MS = 5;

const write = createWriter(
  new (drizzleModule('drizzle-orm/pg-core').PgDialect)(),
  (position) => `$${position}`,
);

const DIALECT: database.Dialect = {
  isAmong: (column, values) =>
    sql`${column} = ANY (${sql.param(values)}::${sql.raw(column.dataType === 'number' ? 'bigint' : 'text')}[])`,
  json: (value) => (value == null ? sql`NULL` : sql`${keepJson(value)}::jsonb`),
  fromJson: (stored) => stored,
  instant: (iso) => sql`${iso}::timestamptz`,
  listed: (ids) => sql`unnest(${sql.param(ids)}::text[]) AS listed (id)`,
  entries: (values) => sql`json_each_text(${keepJson(values)}::json)`,
  forShare: sql`FOR SHARE`,
  forUpdate: sql`FOR UPDATE`,
  hourOf: (column) => sql`date_trunc('hour', ${column})`,
  millisecondsBetween: (earlier, later) => sql`(extract(epoch FROM ${later} - ${earlier}) * 1000)::float8`,
  indexedBy: () => sql``,
  knowsSizes: true,
  folded,
  // The range is the index's, which holds the beginnings of names only.
  beginsWith: (column, text) => sql`${folded(column)} < ${folded(text)} || ${LAST}::text
    AND starts_with(lower(${column} COLLATE "C"), lower(${text}::text COLLATE "C"))`,
  indexed: (text) => sql`left(${text}::text, 200)`,
  holds: (column, text) => sql`strpos(lower(${column} COLLATE "C"), lower(${text}::text COLLATE "C")) > 0`,
  contains: (column, text) =>
    column.dataType === 'buffer'
      ? sql`position(convert_to(${text}, 'UTF8') IN ${column}) > 0`
      : sql`strpos(${column}, ${text}) > 0`,
  isBehind: ([first, second], [a, b]) => sql`(${first}, ${second}) > (${a}, ${b})`,
  // By a function, since the service's user need own no view.
  flatView: (kind) => [sql`SELECT show_fields(${kind})`],
};

function folded(text: Column | string): SQL {
  return sql`left(lower(${text}::text COLLATE "C"), 200)`;
}

const lockOf = (table: Table | null): string =>
  table === null ? '' : write(sql`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`).text;

const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED';
const ONE_MOMENT = 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY';
const HOLD_COUNTER = 'SELECT value FROM counter WHERE one = 1 FOR UPDATE';
const COUNTER = 'SELECT value FROM counter WHERE one = 1';
/** Behind a column: the commit of this statement, or of what it stands in, is not waited for. */
const UNFLUSHED = "set_config('synchronous_commit', 'off', true)";
/** The least that a commit waits for the disk for, and for a synchronous standby; all that was committed before is there with it. */
const FLUSH = "SELECT pg_logical_emit_message(true, 'compliance-mirror', '')";

export interface Sql extends database.Sql {
  /** Rows, their columns as the port types them. Texts may hold anything: see text.ts. */
  query<Row>(statement: SQL | string, values?: readonly unknown[]): Promise<Row[]>;
  change(statement: SQL | string, values?: readonly unknown[]): Promise<number>;
}

export interface Sender extends database.Sender {
  send(statement: SQL | string, values?: readonly unknown[]): void;
}

export interface Unit extends Sql, Sender {
  numbers: database.Numbers;
  gapChanges: GapChange[];
}

export interface Database extends database.Database {
  readonly schema: string;
  readonly sql: Sql;
  atOneMoment<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  /**
   * One atomic unit that writes. It locks the counter first, so such units run one after another over all replicas,
   * and number order is commit order. A deadlock runs `work` again, so it changes nothing but the database.
   *
   * Everybody waits for whoever holds the counter, and each answer waited for takes as long as whatever else this process
   * is busy with. So what is read first is asked for along with the lock, by `first`, and what is written is sent along
   * with the commit.
   */
  transact<T, First = undefined>(
    work: (unit: Unit, read: First) => Promise<T>,
    first?: (sql: Sql) => Promise<First>,
  ): Promise<T>;
  /**
   * The same for a single call, which holds the counter itself: of a function of ours, whose statements each see what
   * is committed as they begin. One statement alone would see what was when it was sent, before it had the counter.
   *
   * It lets the counter go before the disk has it, so that no other writer waits for that, in this process or another. Nobody may
   * be told of it before `durable` resolves; where the server crashes first, that rejects.
   */
  transactAtOnce<T>(call: string, values: readonly unknown[]): Promise<{ result: T; durable: Promise<void> }>;
  /** A text: SQL that runs with its BEGIN. */
  transactApart<T>(opening: Table | string | null, work: (sql: Sql) => Promise<T>): Promise<T>;
  /** A connection besides the pool, set up like its own: for LISTEN. The caller ends it, and listens for its `error`. */
  dedicated(): Promise<pg.Client>;
  close(): Promise<void>;
}

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** Nothing is connected yet. Rejects with UsageError for an address that cannot be understood. */
export function createDatabase(
  url: string,
  settings: PostgresSettings & { readOnly?: boolean } = {},
): Database {
  const schema = settings.schema ?? DEFAULT_SCHEMA;
  const config = clientConfig(url, settings);
  const session = sessionSettings(schema, settings);
  const prepare = (client: pg.ClientBase) => client.query(session).then(() => undefined);
  const pool = poolOf({
    ...config,
    max: settings.poolSize ?? POOL_SIZE,
    idleTimeoutMillis: IDLE_CONNECTION_MS,
    onConnect: prepare,
    // What is asked before the last answer came is sent at once; who awaits each answer is served as ever.
    pipeline: true,
  });
  // A connection that breaks while nobody uses it is found broken by whoever asks next.
  pool.on('error', () => {
    durableNumber = 0;
  });
  pool.on('connect', (client) => client.on('error', () => undefined));
  const gate = backoffGate();
  const names = statementNames();
  const inTurn = turns();
  /** No crash takes the counter behind this. A server that is restored may, and ends all connections. */
  let durableNumber = 0;

  async function acquire(): Promise<pg.PoolClient> {
    gate.check();
    try {
      const client = await pool.connect();
      gate.opened();
      return client;
    } catch (error) {
      // All connections being in use says nothing of the server.
      if (!reasonOf(error).startsWith('timeout exceeded')) gate.failed(error);
      throw error instanceof pg.DatabaseError ? error : new ConnectionLost(error);
    }
  }

  function sqlOn(client: pg.ClientBase): Sql {
    const run = (statement: SQL | string, values: readonly unknown[] = []) => {
      const { text, params } =
        typeof statement === 'string' ? { text: statement, params: values } : write(statement);
      return asked(client.query({ name: names(text), text, values: params.map(parameter) }));
    };
    return {
      dialect: DIALECT,
      query: async <Row>(statement: SQL | string, values?: readonly unknown[]) =>
        (await run(statement, values)).rows as Row[],
      change: async (statement, values) => (await run(statement, values)).rowCount ?? 0,
    };
  }

  async function onConnection<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await acquire();
    let failure: unknown;
    try {
      return await work(client);
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      release(client, failure);
    }
  }

  function release(client: pg.PoolClient, failure: unknown): void {
    const isLost = failure !== undefined && endsConnection(failure);
    if (isLost) durableNumber = 0;
    client.release(isLost);
  }

  /** Both on one connection: it ends with a server that crashes between the two, and so says that nothing was kept. */
  async function atOnce<T>(call: string, values: readonly unknown[]) {
    const client = await acquire();
    const answer = sqlOn(client).query<{ result: T }>(`SELECT ${call} AS result, ${UNFLUSHED}`, values);
    const flushed = asked(client.query(FLUSH));
    const ended = Promise.allSettled([answer, flushed]).then((both) => {
      const failed = both.find((each) => each.status === 'rejected');
      release(client, failed?.reason);
      if (failed !== undefined) throw failed.reason;
    });
    const durable = failingClearly(() => ended);
    // Whoever tells nobody of it awaits it nowhere.
    durable.catch(() => undefined);
    const [row] = await answer.catch(async (error: unknown) => {
      await ended.catch(() => undefined);
      throw error;
    });
    return { result: row!.result, durable };
  }

  function once<T>(
    opening: string,
    work: (client: pg.PoolClient, opened: Promise<pg.QueryResult[]>) => Promise<T>,
  ) {
    return onConnection(async (client) => {
      try {
        return await work(
          client,
          asked(client.query(`${BEGIN}; ${opening}`) as unknown as Promise<pg.QueryResult[]>),
        );
      } catch (error) {
        // One whose ROLLBACK fails too is lost, and its transaction with it.
        if (!endsConnection(error)) {
          await asked(client.query('ROLLBACK')).catch((worse: unknown) => {
            throw worse instanceof pg.DatabaseError ? new ConnectionLost(worse) : worse;
          });
        }
        throw error;
      }
    });
  }

  async function commit(
    client: pg.PoolClient,
    sent: readonly Promise<unknown>[],
    before: string,
  ): Promise<void> {
    const ended = asked(client.query(`${before}COMMIT`));
    await allOf([...sent, ended]);
    const [last] = [await ended].flat().slice(-1);
    // What the server answers where a statement had failed and nobody had minded.
    if (last?.command !== 'COMMIT') throw new Error('the transaction was rolled back');
  }

  const statements: Sql = {
    dialect: DIALECT,
    query: (text, values) =>
      failingClearly(() => tryingAgain(() => onConnection((client) => sqlOn(client).query(text, values)))),
    change: (text, values) =>
      failingClearly(() => tryingAgain(() => onConnection((client) => sqlOn(client).change(text, values)))),
  };

  return {
    schema,
    sql: statements,
    currentNumber: () =>
      failingClearly(() =>
        tryingAgain(() =>
          onConnection(async (client) => {
            const [row] = await sqlOn(client).query<{ value: number }>(COUNTER);
            const value = row?.value ?? 0;
            if (value > durableNumber) await asked(client.query(FLUSH));
            durableNumber = Math.max(durableNumber, value);
            return value;
          }),
        ),
      ),
    atOneMoment: (work) =>
      failingClearly(() =>
        tryingAgain(() =>
          once(ONE_MOMENT, async (client, opened) => {
            const [, result] = await allOf([opened, work(sqlOn(client))]);
            await commit(client, [], '');
            return result;
          }),
        ),
      ),
    transact: (work, first) =>
      // In turn here already: otherwise each would hold a connection while it waits for the same row.
      inTurn(() =>
        failingClearly(() =>
          tryingAgain(() =>
            once(HOLD_COUNTER, async (client, opening) => {
              const sql = sqlOn(client);
              const [opened, read] = await allOf([opening, first?.(sql)]);
              const start = (opened[1]?.rows[0] as { value: number } | undefined)?.value;
              if (start === undefined) throw new Error('the table counter is empty: restore a backup');
              let value = start;
              const numbers = {
                current: () => value,
                next: () => {
                  value += 1;
                  return value;
                },
              };
              const sent: Promise<unknown>[] = [];
              const send: Sender['send'] = (text, values) => {
                const answer = sql.change(text, values);
                // Looked at with the commit.
                answer.catch(() => undefined);
                sent.push(answer);
              };
              const result = await work({ ...sql, numbers, gapChanges: [], send }, read as never).catch(
                async (error: unknown) => {
                  // What was sent before may be why: after it the server only says that the transaction has failed.
                  await allOf(sent);
                  throw error;
                },
              );
              const save = value === start ? '' : `UPDATE counter SET value = ${value} WHERE one = 1; `;
              await commit(client, sent, save);
              durableNumber = Math.max(durableNumber, value);
              return result;
            }),
          ),
        ),
      ),
    transactAtOnce: <T>(call: string, values: readonly unknown[]) =>
      inTurn(() => failingClearly(() => tryingAgain(() => atOnce<T>(call, values)))),
    transactApart: (opening, work) =>
      failingClearly(() =>
        tryingAgain(() =>
          once(typeof opening === 'string' ? opening : lockOf(opening), async (client, opened) => {
            await opened;
            const result = await work(sqlOn(client));
            await commit(client, [], '');
            return result;
          }),
        ),
      ),
    dedicated: () =>
      failingClearly(async () => {
        const client = new pg.Client(config);
        client.on('error', () => undefined);
        try {
          await asked(client.connect());
          await asked(prepare(client));
          return client;
        } catch (error) {
          await client.end().catch(() => undefined);
          throw error;
        }
      }),
    close: () => pool.end(),
  };
}

function clientConfig(
  url: string,
  settings: PostgresSettings,
): pg.ClientConfig & { types: pg.CustomTypesConfig } {
  // As part of the address, because there it means what it means to every other program that takes one.
  const ca = settings.tlsCaFile === undefined ? '' : `sslrootcert=${encodeURIComponent(settings.tlsCaFile)}`;
  return {
    connectionString: ca === '' ? url : `${url}${url.includes('?') ? '&' : '?'}${ca}`,
    application_name: settings.applicationName ?? 'compliance-mirror',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: (settings.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS) + ANSWER_MARGIN_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
    types: TYPES,
  };
}

function poolOf(config: pg.PoolConfig & { onConnect: (client: pg.ClientBase) => Promise<void> }): pg.Pool {
  // The address is first read for a connection; a mistake in it is to be named now.
  clientOf(config);
  return new pg.Pool(config);
}

function clientOf(config: pg.ClientConfig): pg.Client {
  try {
    return new pg.Client(config);
  } catch (error) {
    throw new UsageError(
      `DATABASE_URL cannot be used: ${reasonOf(error)}`,
      'write postgres://USER:PASSWORD@HOST:PORT/DATABASE, each part percent-encoded',
    );
  }
}

/** What others than this machine can do to the way to the server, and what to set against it. */
export interface Exposure {
  says: string;
  remedy: string;
}

/**
 * Null: there is TLS and the server must prove who it is, or the way does not leave this machine. Connects to nothing.
 * Decided by what the driver makes of the address and of PGHOST and PGSSLMODE. Throws UsageError for an address that cannot be understood.
 */
export function exposureOf(url: string, settings: PostgresSettings = {}): Exposure | null {
  // Also an object, whatever its type says.
  const { host, ssl } = clientOf(clientConfig(url, settings)) as {
    host: string;
    ssl: boolean | { rejectUnauthorized?: boolean };
  };
  if (isThisMachine(host)) return null;
  const remedy =
    'set sslmode=verify-full in DATABASE_URL, and DATABASE_TLS_CA_FILE to the authority of the server’s certificate';
  if (ssl === false) {
    return {
      says: `the connection to ${host} is not encrypted: whoever is on the way reads and changes what passes`,
      remedy: `${remedy}; the server needs ssl = on`,
    };
  }
  return typeof ssl === 'object' && ssl.rejectUnauthorized === false
    ? {
        says: `the connection to ${host} trusts any certificate: whoever is on the way can pose as the server`,
        remedy,
      }
    : null;
}

function isThisMachine(host: string): boolean {
  // The folder of a Unix socket.
  if (host.startsWith('/')) return true;
  const bare = host.toLowerCase();
  return bare === 'localhost' || bare === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(bare);
}

function sessionSettings(schema: string, settings: PostgresSettings & { readOnly?: boolean }): string {
  const set: readonly (readonly [string, string])[] = [
    ['search_path', quoted(schema)],
    ['statement_timeout', String(settings.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS)],
    ['lock_timeout', String(settings.lockTimeoutMs ?? LOCK_TIMEOUT_MS)],
    ['idle_in_transaction_session_timeout', String(IDLE_IN_TRANSACTION_MS)],
    ['default_transaction_isolation', "'read committed'"],
    // What instants are written in; the role or the database may say otherwise.
    ['timezone', "'UTC'"],
    ['datestyle', "'ISO'"],
    // Compiling costs more than any of these statements.
    ['jit', 'off'],
    ...(settings.readOnly === true ? ([['default_transaction_read_only', 'on']] as const) : []),
  ];
  return set.map(([name, value]) => `SET ${name} = ${value}`).join('; ');
}

/** pg's rejections, with those that are not the server's words marked as such. */
async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw error instanceof pg.DatabaseError ? error : new ConnectionLost(error);
  }
}

/** Once all are settled, so that nothing is under way any more: what they came to, or what the first that failed failed with. */
async function allOf<T extends readonly unknown[]>(
  answers: T,
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  const settled = await Promise.allSettled(answers);
  const failed = settled.find((each) => each.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return settled.map((each) => (each as PromiseFulfilledResult<unknown>).value) as never;
}

async function failingClearly<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw translate(error);
  }
}

async function tryingAgain<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (!isRetryable(error) || tries === TRANSACTION_TRIES) throw error;
      const waitMs = TRY_AGAIN_FIRST_MS * 2 ** tries * (0.5 + Math.random());
      await new Promise((resolve) => setTimeout(resolve, waitMs));
    }
  }
}

const parameter = (value: unknown): unknown => {
  if (typeof value === 'string') return keepText(value);
  // No column holds fractions; clocks do.
  if (typeof value === 'number') return Math.round(value);
  return Array.isArray(value) ? value.map(parameter) : value;
};

/** Each text is planned once on each connection. There are as many as the code holds, so none is ever dropped. */
function statementNames(): (text: string) => string {
  const names = new Map<string, string>();
  return (text) => {
    const known = names.get(text);
    if (known !== undefined) return known;
    const name = `s${names.size}`;
    names.set(text, name);
    return name;
  };
}

function backoffGate() {
  let failures = 0;
  let closedUntil = 0;
  let reason: unknown;
  return {
    check(): void {
      if (performance.now() < closedUntil) throw new ConnectionLost(reason);
    },
    failed(error: unknown): void {
      const waitMs = Math.min(BACKOFF_LONGEST_MS, BACKOFF_FIRST_MS * 2 ** failures);
      failures += 1;
      reason = error;
      closedUntil = performance.now() + waitMs * (0.5 + Math.random() / 2);
    },
    opened(): void {
      failures = 0;
      closedUntil = 0;
    },
  };
}
