import { type Running, start } from '../cli/executable.ts';
import { type Comparison, compareRows, RESOURCES, type Row, selectRows } from '../convergence/compare.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { API_KEY, type IndependentUpstream } from '../support/independent-upstream.ts';
import type { Records, Resource } from '../support/independent-upstream-records.ts';
import { SIGNING_SECRET } from '../support/independent-upstream-sender.ts';
import { freePorts } from '../support/ports.ts';

export const OPS_TOKEN = 'replicas-operator-0123456789-of-thirt';

/** One process of several over the site's database. Its ports stay the same through its lives. */
export interface Replica {
  readonly name: string;
  readonly webhookUrl: string;
  readonly opsUrl: string;
  pid(): number | null;
  /** With settings of its own for this life. */
  start(own?: Readonly<Record<string, string>>): Promise<void>;
  /** What the first line of its output with `part` in it says. */
  line(part: string): Promise<string>;
  /** Gone from one instruction to the next. */
  kill(): Promise<void>;
  /** Stands still for so long, and goes on as if nothing had been. */
  standStill(ms: number): Promise<void>;
  /** In good order. Resolves to the exit code. */
  stop(): Promise<number | null>;
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body?: object): Promise<T>;
}

/** One real PostgreSQL, and several of the built service over it. */
export interface Site {
  server: PostgresServer;
  databaseUrl: string;
  /** Of the database, by whoever has it now; rejects while it is down. */
  query<T>(sql: string): Promise<T[]>;
  replicas: readonly Replica[];
  compare(records: Records, named: ReadonlySet<string>): Promise<Comparison>;
  end(): Promise<void>;
}

export async function createSite(options: {
  upstream: Pick<IndependentUpstream, 'baseUrl'> | null;
  replicas: number;
  settings?: Readonly<Record<string, string>>;
  /** How far the system clock of each process is ahead of that of the one before. The database's is right. */
  clocksApartMs?: number;
}): Promise<Site> {
  const server = await startPostgres();
  const databaseUrl = await server.createDatabase();
  const query = async <T>(sql: string) => (await server.query(sql, databaseUrl)) as T[];
  const settings = {
    OPS_TOKENS: `tester:operate:${OPS_TOKEN}`,
    DATABASE_URL: databaseUrl,
    WEBHOOK_SECRETS: SIGNING_SECRET,
    ...(options.upstream === null
      ? {}
      : { COMPLIANCE_BASE_URL: options.upstream.baseUrl, COMPLIANCE_API_KEY: API_KEY }),
    LOG_LEVEL: 'error',
    ...options.settings,
  };
  const ports = await freePorts(2 * options.replicas);
  const replicas = Array.from({ length: options.replicas }, (_, index) =>
    createReplica(String.fromCharCode(97 + index), [ports[2 * index]!, ports[2 * index + 1]!], {
      ...settings,
      ...aheadBy(index * (options.clocksApartMs ?? 0)),
    }),
  );
  return {
    server,
    databaseUrl,
    query,
    replicas,
    async compare(records, named) {
      const rows = await Promise.all(
        RESOURCES.map(async (resource) => [resource, await query<Row>(selectRows(resource))] as const),
      );
      return compareRows(Object.fromEntries(rows) as Record<Resource, Row[]>, records, named);
    },
    async end() {
      await Promise.all(replicas.map((replica) => replica.kill()));
      await server.stop();
    },
  };
}

/** Settings that set the system clock of a process. */
function aheadBy(ms: number): Record<string, string> {
  if (ms === 0) return {};
  const shift = `const now=Date.now;const Own=Date;Date.now=()=>now()+${ms};globalThis.Date=new Proxy(Own,{construct:(of,given)=>given.length===0?new of(of.now()):new of(...given)})`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(shift)}` };
}

function createReplica(
  name: string,
  [port, opsPort]: readonly [number, number],
  settings: Readonly<Record<string, string>>,
): Replica {
  let running: Running | null = null;
  const opsUrl = `http://127.0.0.1:${opsPort}`;

  async function ask<T>(path: string, body?: object): Promise<T> {
    const response = await fetch(`${opsUrl}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${OPS_TOKEN}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text}`);
    return (text.startsWith('{') ? JSON.parse(text) : text) as T;
  }

  async function end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null> {
    const ending = running;
    running = null;
    ending?.child.kill(signal);
    return (await ending?.exited) ?? null;
  }

  return {
    name,
    opsUrl,
    webhookUrl: `http://127.0.0.1:${port}/webhooks`,
    pid: () => running?.child.pid ?? null,
    async start(own = {}) {
      running = start(['serve'], { ...settings, ...own, PORT: String(port), OPS_PORT: String(opsPort) });
      await running.line('Operators: ');
    },
    line: (part) => running!.line(part),
    async kill() {
      await end('SIGKILL');
    },
    async standStill(ms) {
      const still = running?.child;
      still?.kill('SIGSTOP');
      await new Promise((resolve) => setTimeout(resolve, ms));
      still?.kill('SIGCONT');
    },
    stop: () => end('SIGTERM'),
    get: (path) => ask(path),
    post: (path, body = {}) => ask(path, body),
  };
}
