import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { alternatingTurns, type Database, numbersFrom, type Sql, type Unit } from '../database.ts';
import type { SQL, Table } from '../drizzle.ts';
import { sql } from '../units/sql.ts';
import { CONNECT_TIMEOUT_MS, clientConfig, type PostgresSettings, STATEMENT_TIMEOUT_MS } from './address.ts';
import { DIALECT, keepText, pagesBy, write } from './dialect.ts';
import { ConnectionLost, endsConnection, isRetryable, reasonOf, translate } from './failures.ts';

const DEFAULT_SCHEMA = 'public';

/** One writer, claims, and a few readers: more would only wait in the server instead of here. */
const POOL_SIZE = 8;
/** Writers wait for each other; a sender gives up after about 15 s, so that a longer wait is of no use. */
const LOCK_TIMEOUT_MS = 10_000;
/** A replica that hangs in a transaction keeps the counter locked, and so blocks every other replica. */
const IDLE_IN_TRANSACTION_MS = 10_000;
const IDLE_CONNECTION_MS = 60_000;
/** A server that stands still, or is out of reach, does not close its side: whoever ends a connection waits so long for that. */
const GOODBYE_MS = 1_000;

/** No attempt to connect for so long after one has failed, doubled each time: a server that starts is not flooded. */
const BACKOFF_FIRST_MS = 50;
const BACKOFF_LONGEST_MS = 2_000;
/** A server that refuses one more connection is not asked for another for so long: those that there are do the work. */
const MAKE_DO_MS = 5_000;
/**
 * Not for single statements and reports, which may wait for somebody's lock on their table: for the unit that has the counter, and the
 * flush of the one before.
 */
const KEPT_FOR_UNITS = 2;
/**
 * Of what people ask. Should each wait for somebody's lock, heartbeats and leases do not wait behind them, and of a server that gives
 * four connections there are still one to listen and one for all else.
 */
const REPORTS_AT_ONCE = 2;

/** Deadlocks and serialisation failures are gone after one or two tries; if not, something else is wrong. */
const TRANSACTION_TRIES = 6;
const TRY_AGAIN_FIRST_MS = 5;

const lockOf = (table: Table | null): string =>
  table === null ? '' : write(sql`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`).text;

const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED';
const ONE_MOMENT = 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY';
const HOLD_COUNTER = 'SELECT value FROM counter WHERE one = 1 FOR UPDATE';
const COUNTER = sql`SELECT value FROM counter WHERE one = 1`;
/** As a column: the commit of this statement, or of its transaction, is not awaited. */
const UNFLUSHED = sql`set_config('synchronous_commit', 'off', true)`;
/** The smallest commit that waits for the disk and for a synchronous standby; all earlier commits are there with it. */
const FLUSH = "SELECT pg_logical_emit_message(true, 'compliance-mirror', '')";

export interface PostgresDatabase extends Database {
  readonly schema: string;
  /**
   * `transact` for a single call of a function of ours, which locks the counter itself. Each of its statements sees what is
   * committed as it begins; one plain statement would see what was committed when it was sent, before it had the counter.
   *
   * The counter is free again before the disk has the commit, so that no other writer waits for that. It must not be reported
   * before `durable` resolves; where the server crashes first, that rejects.
   */
  transactAtOnce<T>(call: SQL): Promise<{ result: T; durable: Promise<void> }>;
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
): PostgresDatabase {
  const schema = settings.schema ?? DEFAULT_SCHEMA;
  const config = clientConfig(url, settings);
  const session = sessionSettings(schema, settings);
  const prepare = (client: pg.ClientBase) => client.query(session).then(() => undefined);
  const size = settings.poolSize ?? POOL_SIZE;
  const options: pg.PoolConfig & { onConnect: (client: pg.ClientBase) => Promise<void> } = {
    ...config,
    max: size,
    idleTimeoutMillis: IDLE_CONNECTION_MS,
    onConnect: prepare,
    // Statements are sent without waiting for the answers of those before; code that awaits each answer works as ever.
    pipeline: true,
  };
  const pool = new pg.Pool(options);
  // A connection that breaks unused is noticed by its next user.
  pool.on('error', () => {
    durableNumber = 0;
  });
  let connections = 0;
  pool.on('connect', (client) => {
    connections += 1;
    client.on('error', () => undefined);
  });
  pool.on('remove', () => {
    connections -= 1;
  });
  let makesDoUntil = 0;
  const gate = backoffGate();
  const names = statementNames();
  // Deliveries, which have a sender that waits, and all else.
  const [deliveriesInTurn, inTurn] = alternatingTurns();
  const ownRoom = room(Math.max(2, size - KEPT_FOR_UNITS), CONNECT_TIMEOUT_MS);
  /** The counter never falls below this by a crash. A restore may set it back, but ends all connections first. */
  let durableNumber = 0;

  async function acquire(isAgain = false): Promise<pg.PoolClient> {
    if (performance.now() >= makesDoUntil) pool.options.max = size;
    // One that waits for a user is good, whatever became of the last new one.
    if (pool.idleCount === 0) gate.check();
    try {
      const client = await pool.connect();
      gate.opened();
      return client;
    } catch (error) {
      if (error instanceof pg.DatabaseError && connections > 0 && !isAgain) {
        pool.options.max = connections;
        makesDoUntil = performance.now() + MAKE_DO_MS;
        return await acquire(true);
      }
      // That all connections are in use says nothing about the server.
      const reason = error instanceof pg.DatabaseError ? error : new ConnectionLost(error);
      if (!reasonOf(error).startsWith('timeout exceeded')) gate.failed(reason);
      throw reason;
    }
  }

  function sqlOn(client: pg.ClientBase): Sql {
    const run = (statement: SQL) => {
      const { text, params } = write(statement);
      return asked(client.query({ name: names(text), text, values: params.map(parameter) }));
    };
    const query = async <Row>(statement: SQL) => (await run(statement)).rows as Row[];
    return {
      dialect: DIALECT,
      query,
      page: pagesBy(query),
      change: async (statement) => (await run(statement)).rowCount ?? 0,
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

  /** Both on one connection: if the server crashes between the two, it ends, which says that nothing was kept. */
  async function atOnce<T>(call: SQL) {
    const client = await acquire();
    const answer = sqlOn(client).query<{ result: T }>(sql`SELECT ${call} AS result, ${UNFLUSHED}`);
    const flushed = asked(client.query(FLUSH));
    const ended = Promise.allSettled([answer, flushed]).then((both) => {
      const failed = both.find((each) => each.status === 'rejected');
      release(client, failed?.reason);
      if (failed !== undefined) throw failed.reason;
    });
    const durable = failingClearly(() => ended);
    // A caller that drops the result does not await it.
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
        // Where ROLLBACK fails as well, the connection is lost, and its transaction with it.
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
    // The server answers ROLLBACK where a statement has failed and the failure was ignored.
    if (last?.command !== 'COMMIT') throw new Error('the transaction was rolled back');
  }

  function statementsIn(withRoom: ReturnType<typeof room>): Required<Database>['reports'] {
    const alone: typeof onConnection = (work) => persistently(() => withRoom(() => onConnection(work)));
    const query: Sql['query'] = (statement) => alone((client) => sqlOn(client).query(statement));
    return {
      sql: {
        dialect: DIALECT,
        query,
        page: pagesBy(query),
        change: (statement) => alone((client) => sqlOn(client).change(statement)),
      },
      currentNumber: () =>
        alone(async (client) => {
          const [row] = await sqlOn(client).query<{ value: number }>(COUNTER);
          const value = row?.value ?? 0;
          if (value > durableNumber) await asked(client.query(FLUSH));
          durableNumber = Math.max(durableNumber, value);
          return value;
        }),
      atOneMoment: (work) =>
        persistently(() =>
          withRoom(() =>
            once(ONE_MOMENT, async (client, opened) => {
              const [, result] = await allOf([opened, work(sqlOn(client))]);
              await commit(client, [], '');
              return result;
            }),
          ),
        ),
    };
  }

  return {
    schema,
    ...statementsIn(ownRoom),
    reports: statementsIn(room(REPORTS_AT_ONCE, LOCK_TIMEOUT_MS)),
    // Each waits for its turn here already: otherwise each would occupy a connection while it waits for the same row. All pay for
    // the round trips of the one that has the counter, so the first reads go along with the lock, and the writes with the commit.
    transact: (work, first) =>
      inTurn(() =>
        persistently(() =>
          once(HOLD_COUNTER, async (client, opening) => {
            const statements = sqlOn(client);
            const [opened, read] = await allOf([opening, first?.(statements)]);
            const start = (opened[1]?.rows[0] as { value: number } | undefined)?.value;
            if (start === undefined) throw new Error('the table counter is empty: restore a backup');
            const numbers = numbersFrom(start);
            const sent: Promise<unknown>[] = [];
            const send: Unit['send'] = (statement) => {
              const answer = statements.change(statement);
              // Its failure is noticed at the commit.
              answer.catch(() => undefined);
              sent.push(answer);
            };
            const unit = { ...statements, numbers, gapChanges: [], send };
            const result = await work(unit, read as never).catch(async (error: unknown) => {
              // The reason may be in what was sent before: after that the server only says that the transaction has failed.
              await allOf(sent);
              throw error;
            });
            const value = numbers.current();
            const save = value === start ? '' : `UPDATE counter SET value = ${value} WHERE one = 1; `;
            await commit(client, sent, save);
            durableNumber = Math.max(durableNumber, value);
            return result;
          }),
        ),
      ),
    transactAtOnce: <T>(call: SQL) => deliveriesInTurn(() => persistently(() => atOnce<T>(call))),
    transactApart: (opening, work) =>
      persistently(() =>
        once(typeof opening === 'string' ? opening : lockOf(opening), async (client, opened) => {
          await opened;
          const result = await work(sqlOn(client));
          await commit(client, [], '');
          return result;
        }),
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
          await goodbye(client);
          throw error;
        }
      }),
    close: () => goodbye(pool),
  };
}

function sessionSettings(schema: string, settings: PostgresSettings & { readOnly?: boolean }): string {
  const set: readonly (readonly [string, string])[] = [
    ['search_path', quoted(schema)],
    ['statement_timeout', String(settings.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS)],
    ['lock_timeout', String(settings.lockTimeoutMs ?? LOCK_TIMEOUT_MS)],
    ['idle_in_transaction_session_timeout', String(IDLE_IN_TRANSACTION_MS)],
    ['default_transaction_isolation', "'read committed'"],
    // Instants are read in this form; the role or the database may have another default.
    ['timezone', "'UTC'"],
    ['datestyle', "'ISO'"],
    // With fewer digits the server's clock is read to the second.
    ['extra_float_digits', '1'],
    // Compiling costs more than any of these statements.
    ['jit', 'off'],
    ...(settings.readOnly === true ? ([['default_transaction_read_only', 'on']] as const) : []),
  ];
  return set.map(([name, value]) => `SET ${name} = ${value}`).join('; ');
}

/** Marks those of pg's rejections that do not come from the server. */
async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw error instanceof pg.DatabaseError ? error : new ConnectionLost(error);
  }
}

/** As Promise.all, but waits until all are settled, so that no statement is still running. */
async function allOf<T extends readonly unknown[]>(
  answers: T,
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  const settled = await Promise.allSettled(answers);
  const failed = settled.find((each) => each.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return settled.map((each) => (each as PromiseFulfilledResult<unknown>).value) as never;
}

/** Never rejects. */
export async function goodbye(connections: { end(): Promise<void> }): Promise<void> {
  await Promise.race([
    connections.end().catch(() => undefined),
    sleep(GOODBYE_MS, undefined, { ref: false }),
  ]);
}

async function failingClearly<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw translate(error);
  }
}

/** Runs `work` again after a deadlock or a serialisation failure, so it changes nothing but the database. */
const persistently = <T>(work: () => Promise<T>): Promise<T> =>
  failingClearly(async () => {
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

const parameter = (value: unknown): unknown => {
  if (typeof value === 'string') return keepText(value);
  // Clocks give fractions; no column has them.
  if (typeof value === 'number') return Math.round(value);
  return Array.isArray(value) ? value.map(parameter) : value;
};

/** Each text is planned once on each connection. Their number is limited by the code, so none is ever dropped. */
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

/** At most `places` at the same time, in the order of calls. One that has waited for `waitMs` is turned away. */
function room(places: number, waitMs: number): <T>(work: () => Promise<T>) => Promise<T> {
  let free = places;
  const waiting = new Set<() => void>();
  const enter = () =>
    new Promise<void>((resolve, reject) => {
      const go = () => {
        clearTimeout(timer);
        waiting.delete(go);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(go);
        reject(new ConnectionLost('all connections are in use'));
      }, waitMs);
      waiting.add(go);
    });
  return async (work) => {
    if (free > 0) free -= 1;
    else await enter();
    try {
      return await work();
    } finally {
      const [next] = waiting;
      if (next === undefined) free += 1;
      else next();
    }
  };
}

function backoffGate() {
  let failures = 0;
  let closedUntil = 0;
  let reason: unknown;
  return {
    check(): void {
      if (performance.now() < closedUntil) throw reason;
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
