import { setTimeout as sleep } from 'node:timers/promises';
import PQueue from 'p-queue';
import pg from 'pg';
import { StoreUnavailable } from '../../platform/errors.ts';
import { type Database, numbersFrom, type Sql, turns, type Unit } from '../database.ts';
import type { Table } from '../schema.ts';
import { quoted, type SQL, sql } from '../statement.ts';
import { DIALECT, pagesBy, write, writing } from './dialect.ts';
import { ConnectionLost, endsConnection, isRetryable, translate, wrapErrors } from './failures.ts';
import {
  clientConfig,
  connectionString,
  createPool,
  endConnections,
  type PostgresSettings,
  STATEMENT_TIMEOUT_MS,
} from './pool.ts';

const DEFAULT_SCHEMA = 'public';

/** Enough for one writer, claims and a few readers. With more connections, calls would only wait in the server instead of here. */
const POOL_SIZE = 8;
/** How long a writer waits for others. A sender gives up after about 15 s, so a longer wait is of no use. */
const LOCK_TIMEOUT_MS = 10_000;
/** A replica that hangs in a transaction has the counter locked, and so blocks all other replicas. */
const IDLE_IN_TRANSACTION_MS = 10_000;

/** Connections left for the unit that has the counter, and the flush of the one before, when single statements wait for a lock. */
const KEPT_FOR_UNITS = 2;
/**
 * Reports may all wait for somebody's lock, and then heartbeats and leases must not wait behind them. With a server that gives only
 * four connections, one is left to listen and one for everything else.
 */
const REPORTS_AT_ONCE = 2;

/** A deadlock or serialisation failure passes after one or two tries; if not, something else is wrong. */
const TRANSACTION_TRIES = 6;
const TRY_AGAIN_FIRST_MS = 5;

const lockOf = (table: Table | null): string =>
  table === null ? '' : write(sql`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`).text;

const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED';
const ONE_MOMENT = 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY';
/**
 * As a column of a SELECT: the transaction looks up each row by its key. The planner chooses by the statistics of the tables. In a new
 * mirror they are missing while it fills, and each batch then read whole tables.
 */
const BY_KEY = ['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin', 'material']
  .map((way) => `set_config('enable_${way}', 'off', true)`)
  .join(' || ');
/** As a column of a SELECT: the commit of this transaction does not wait for the disk. */
const UNFLUSHED = "set_config('synchronous_commit', 'off', true)";
/** As a column of a SELECT: it does wait, even if the server was told since our start not to. */
const FLUSHED =
  "set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)";
/** Locks the counter until the transaction ends. The last of the index is its newest version. */
const HOLD_COUNTER =
  'SELECT value FROM counter ORDER BY value DESC LIMIT 1 FOR UPDATE; SELECT EXISTS (SELECT FROM counter_intact) AS "isIntact"';
/**
 * After a crash of the server, commits may be lost although somebody has read them, so their numbers are left out and not given out again.
 * There are never so many at once: a connection has one commit that is not on the disk yet, of a few thousand numbers at most.
 */
const NUMBERS_LEFT_OUT = 1_000_000;
const COUNTER = sql`SELECT value FROM counter ORDER BY value DESC LIMIT 1`;
/** The smallest commit that waits for the disk and for a synchronous standby. All earlier commits are then durable too. */
const FLUSH = `SELECT pg_logical_emit_message(true, 'compliance-mirror', ''), ${FLUSHED}`;

/** The result must not be reported before `durable` resolves. It rejects if the server crashes before. */
interface Committed<T> {
  result: T;
  durable: Promise<void>;
}

export interface PostgresDatabase extends Database {
  readonly schema: string;
  /** `opening` as a text is SQL that runs with the BEGIN. */
  transactApart<T>(opening: Table | string | null, work: (sql: Sql) => Promise<T>): Promise<T>;
  /** A connection outside the pool, with the same settings, for example for LISTEN. The caller ends it. */
  dedicated(): Promise<pg.Client>;
  close(): Promise<void>;
}

/** Does not connect yet. Throws UsageError for an address that pg cannot understand. */
export function createDatabase(
  url: string,
  settings: PostgresSettings & { readOnly?: boolean } = {},
): PostgresDatabase {
  const schema = settings.schema ?? DEFAULT_SCHEMA;
  const config = clientConfig(url, settings);
  const session = sessionSettings(schema, settings);
  const prepare = (client: pg.ClientBase) => client.query(session).then(() => undefined);
  const size = settings.poolSize ?? POOL_SIZE;
  /** A crash cannot set the counter back below this number. A restore can, but it ends all connections first. */
  let durableNumber = 0;
  const address = (again?: 'again') => connectionString(url, settings, again);
  const pool = createPool(config, address, size, prepare, () => {
    durableNumber = 0;
  });
  const names = statementNames();
  const inTurn = turns();

  const runOn = (client: pg.ClientBase, statement: SQL): Promise<pg.QueryResult> => {
    const { text, params } = write(statement);
    const name = IS_ONCE.test(text) ? undefined : names(text);
    return wrapErrors(client.query({ name, text, values: params }));
  };
  const sqlOn = (client: pg.ClientBase) => sqlOver((statement) => runOn(client, statement));

  /**
   * Runs `work`. If its commit does not wait for the disk, so that no other writer does, `work` calls `flush` when it has sent the commit.
   * The flush is on the same connection: if the server crashes before it, it fails, and the caller learns it.
   */
  async function thenDurable<T>(
    work: (client: pg.PoolClient, flush: () => void) => Promise<T>,
  ): Promise<Committed<T>> {
    const client = await pool.acquire();
    let flushed: Promise<unknown> = Promise.resolve();
    const flush = () => {
      flushed = wrapErrors(client.query(FLUSH));
      // Marked as handled: if `work` fails, its error is the reason.
      flushed.catch(() => undefined);
    };
    try {
      const result = await work(client, flush);
      const durable = translated(async () => {
        const [ended] = await Promise.allSettled([flushed]);
        const failure = ended.status === 'rejected' ? ended.reason : undefined;
        pool.release(client, failure);
        if (failure !== undefined) throw failure;
      });
      // Marked as handled, since a caller without a result does not await it.
      durable.catch(() => undefined);
      return { result, durable };
    } catch (error) {
      await flushed.catch(() => undefined);
      pool.release(client, error);
      throw error;
    }
  }

  /** Runs `work` in a transaction, which `work` commits. `opening` is SQL that runs with the BEGIN. */
  async function inTransaction<T>(
    client: pg.PoolClient,
    opening: string,
    work: (opened: Promise<pg.QueryResult[]>) => Promise<T>,
  ) {
    try {
      return await work(
        wrapErrors(client.query(`${BEGIN}; ${opening}`) as unknown as Promise<pg.QueryResult[]>),
      );
    } catch (error) {
      // If ROLLBACK fails as well, the connection is lost, and its transaction with it.
      if (!endsConnection(error)) {
        await wrapErrors(client.query('ROLLBACK')).catch((worse: unknown) => {
          throw worse instanceof pg.DatabaseError ? new ConnectionLost(worse) : worse;
        });
      }
      throw error;
    }
  }

  async function commit(
    client: pg.PoolClient,
    sent: readonly Promise<unknown>[],
    before: string,
  ): Promise<void> {
    const ended = wrapErrors(client.query(`${before}COMMIT`));
    await allWhenSettled([...sent, ended]);
    const [last] = [await ended].flat().slice(-1);
    // The server answers ROLLBACK if a statement failed and the failure was ignored.
    if (last?.command !== 'COMMIT') throw new Error('the transaction was rolled back');
  }

  /** At most so many statements at the same time, in order. */
  function statementsIn(concurrency: number): Required<Database>['reports'] {
    const queue = new PQueue({ concurrency });
    const alone: typeof pool.onConnection = (work) =>
      retrying(() => queue.add(() => pool.onConnection(work)));
    return {
      sql: sqlOver((statement) => alone((client) => runOn(client, statement))),
      currentNumber: () =>
        alone(async (client) => {
          const [row] = await sqlOn(client).query<{ value: number }>(COUNTER);
          const value = row?.value ?? 0;
          if (value > durableNumber) await wrapErrors(client.query(FLUSH));
          durableNumber = Math.max(durableNumber, value);
          return value;
        }),
      atOneMoment: (work) =>
        alone((client) =>
          inTransaction(client, ONE_MOMENT, async (opened) => {
            const [, result] = await allWhenSettled([opened, work(sqlOn(client))]);
            await commit(client, [], '');
            return result;
          }),
        ),
    };
  }

  return {
    schema,
    keepsTime: true,
    ...statementsIn(Math.max(2, size - KEPT_FOR_UNITS)),
    reports: statementsIn(REPORTS_AT_ONCE),
    // Units wait for their turn here, because each would otherwise occupy a connection while it waits for the counter. All others wait
    // for the round trips of the unit that has it, so the first reads are sent with the lock, and writes with the commit.
    transact: async (work, first, flushing = 'first') => {
      const unitOn = (client: pg.PoolClient, flush: () => void) =>
        inTransaction(
          client,
          `SELECT ${BY_KEY} || ${flushing === 'first' ? FLUSHED : UNFLUSHED}; ${HOLD_COUNTER}`,
          async (opening) => {
            const statements = sqlOn(client);
            const [opened, read] = await allWhenSettled([opening, first?.(statements)]);
            const start = await heldNumber(statements, opened);
            const numbers = numbersFrom(start);
            const sent: Promise<unknown>[] = [];
            const send: Unit['send'] = (statement) => {
              const answer = statements.change(statement);
              // Marked as handled, since the commit awaits it.
              answer.catch(() => undefined);
              sent.push(answer);
            };
            const write: Unit['write'] = (how, rows) => {
              if (rows.length > 0) send(writing(how, rows));
            };
            const unit = { ...statements, numbers, problemChanges: [], send, write };
            const result = await work(unit, read as never).catch(async (error: unknown) => {
              // If a sent statement failed before, its error is the reason; later ones only say that the transaction has failed.
              await allWhenSettled(sent);
              throw error;
            });
            const number = numbers.current();
            const save =
              number === start ? '' : `UPDATE counter SET value = ${number} WHERE value >= ${start}; `;
            const committed = commit(client, sent, save);
            const isIdle = flushing === 'later' && sent.length === 0 && number === start;
            if (flushing !== 'first' && !isIdle) flush();
            await committed;
            return { result, number };
          },
        );
      const { result: unit, durable } = await inTurn(() => retrying(() => thenDurable(unitOn)));
      await durable;
      durableNumber = Math.max(durableNumber, unit.number);
      return unit.result;
    },
    transactApart: (opening, work) =>
      retrying(() =>
        pool.onConnection((client) =>
          inTransaction(
            client,
            `SELECT ${BY_KEY}; ${typeof opening === 'string' ? opening : lockOf(opening)}`,
            async (opened) => {
              const [, result] = await allWhenSettled([opened, work(sqlOn(client))]);
              await commit(client, [], '');
              return result;
            },
          ),
        ),
      ),
    dedicated: () =>
      translated(async () => {
        const client = new pg.Client({ ...config, connectionString: address() });
        client.on('error', () => undefined);
        try {
          await wrapErrors(client.connect());
          await wrapErrors(prepare(client));
          return client;
        } catch (error) {
          await endConnections(client);
          throw error;
        }
      }),
    close: () => pool.close(),
  };
}

/** The counter, which this transaction has locked. */
async function heldNumber(to: Sql, [, , counter, intact]: pg.QueryResult[]): Promise<number> {
  const value: number | undefined = counter!.rows[0]?.value;
  if (value === undefined)
    throw new StoreUnavailable('no row of the table counter can be seen, so nothing is written', {
      remedy:
        'as the owner of the tables, ALTER TABLE … DISABLE ROW LEVEL SECURITY for each that has it (doctor names them); where the table is empty, restore a backup',
    });
  if (intact!.rows[0].isIntact) return value;
  await to.change(sql`UPDATE counter SET value = ${value + NUMBERS_LEFT_OUT} WHERE value = ${value}`);
  await to.change(sql`INSERT INTO counter_intact (one) VALUES (1)`);
  return value + NUMBERS_LEFT_OUT;
}

function sqlOver(run: (statement: SQL) => Promise<pg.QueryResult>): Sql {
  const query = async <Row>(statement: SQL) => (await run(statement)).rows as Row[];
  return {
    dialect: DIALECT,
    query,
    page: pagesBy(query),
    change: async (statement) => (await run(statement)).rowCount ?? 0,
  };
}

function sessionSettings(schema: string, settings: PostgresSettings & { readOnly?: boolean }): string {
  const set: readonly (readonly [string, string])[] = [
    ['search_path', quoted(schema)],
    ['statement_timeout', String(settings.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS)],
    ['lock_timeout', String(settings.lockTimeoutMs ?? LOCK_TIMEOUT_MS)],
    ['idle_in_transaction_session_timeout', String(IDLE_IN_TRANSACTION_MS)],
    ['default_transaction_isolation', "'read committed'"],
    // We read instants in this form. The role or the database may have other defaults.
    ['timezone', "'UTC'"],
    ['datestyle', "'ISO'"],
    // Lists compare NULL with a parameter, for columns that some of their rows do not have.
    ['transform_null_equals', 'off'],
    // With fewer digits we would read the server's clock only to the second.
    ['extra_float_digits', '1'],
    // To compile one of our statements costs more than to run it.
    ['jit', 'off'],
    ...(settings.readOnly === true ? ([['default_transaction_read_only', 'on']] as const) : []),
  ];
  // The database or the role may limit whole transactions, of which a migration is a long one. Older servers have no such limit.
  const unlimited =
    "SELECT set_config('transaction_timeout', '0', false) WHERE current_setting('transaction_timeout', true) IS NOT NULL";
  return [...set.map(([name, value]) => `SET ${name} = ${value}`), unlimited].join('; ');
}

/** Like Promise.all, but waits until all are settled, so that no statement is still running. */
async function allWhenSettled<T extends readonly unknown[]>(
  answers: T,
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  const settled = await Promise.allSettled(answers);
  const failed = settled.find((each) => each.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return settled.map((each) => (each as PromiseFulfilledResult<unknown>).value) as never;
}

async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw translate(error);
  }
}

/** Runs `work` again after a deadlock or a serialisation failure, so `work` must change nothing but the database. */
const retrying = <T>(work: () => Promise<T>): Promise<T> =>
  translated(async () => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work();
      } catch (error) {
        if (!isRetryable(error) || tries === TRANSACTION_TRIES) throw error;
        const waitMs = TRY_AGAIN_FIRST_MS * 2 ** tries * (0.5 + Math.random());
        await sleep(waitMs);
      }
    }
  });

/** These are long, and each is run once. */
const IS_ONCE = /^(?:ALTER|CREATE|SET) /;

/** A name for each statement, so that a connection plans it only once. The code limits how many there are, so none is dropped. */
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
