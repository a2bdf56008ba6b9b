import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createOpsClient, type OpsClient } from '../ops-client.ts';
import { startBalancer } from './balancer.ts';
import { type Child, freePort, runCommand, startChild } from './children.ts';
import { type MirrorTables, openMirrorTables } from './mirror-tables.ts';
import { startDatabase } from './postgres.ts';
import { demoSeed } from './seed.ts';
import { type SandboxControls, sandboxControls } from './upstream.ts';

/** Both services, running, and every way in which the demo reaches them. */
export interface Stage {
  sandbox: SandboxControls;
  tables: MirrorTables;
  ops: OpsClient;
  /** Of the status page. */
  signInLink: string;
  sandboxUrl: string;
  listedAssessments: ReadonlySet<string>;
  /** Rejects when one of the processes ends by itself. */
  failed: Promise<never>;
  registered: string;
}

export interface StageSettings {
  /** The shell's; of it only what any program needs is passed on. */
  env: NodeJS.ProcessEnv;
  /** 0: any free one. */
  sandboxPort: number;
  /** Two mirrors over one PostgreSQL, instead of one over a file. */
  postgres: boolean;
  /** 0: only at the start and on demand. */
  sweepMinutes: number;
}

/** The demo's own pace: an upstream that is consistent within a second, and does not mind being asked often. */
const SETTLE_SECONDS = '1';
const REQUESTS_PER_MINUTE = '3000';
/** The sandbox's retries come this many times sooner than a real sender's. */
const RETRY_SPEED = '10';
const READY_TIMEOUT_MS = 60_000;
const LOOK_EVERY_MS = 100;

/**
 * Starts the sandbox and the mirror, or two of it, as processes on loopback, with keys made for this run and files in a
 * directory of their own, runs `act`, and ends both, whatever happens. The directory is removed unless `keep`, told
 * of a failure and where the logs are, wants it.
 */
export async function onStage<T>(
  settings: StageSettings,
  keep: (error: unknown, directory: string) => boolean,
  act: (stage: Stage) => Promise<T>,
): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-demo-'));
  const closers: (() => Promise<void> | void)[] = [];
  try {
    const result = await act(await setUp(settings, directory, closers));
    await tearDown(closers);
    rmSync(directory, { recursive: true, force: true });
    return result;
  } catch (error) {
    await tearDown(closers);
    if (!keep(error, directory)) rmSync(directory, { recursive: true, force: true });
    throw error;
  }
}

async function tearDown(closers: (() => Promise<void> | void)[]): Promise<void> {
  for (const close of closers.splice(0).reverse()) await close();
}

async function setUp(
  settings: StageSettings,
  directory: string,
  closers: (() => Promise<void> | void)[],
): Promise<Stage> {
  const seed = demoSeed();
  const riskIdsPath = join(directory, 'risk-ids');
  const seedPath = join(directory, 'seed.json');
  const { listedAssessments, ...records } = seed;
  writeFileSync(riskIdsPath, `${listedAssessments.join('\n')}\n`);
  writeFileSync(seedPath, JSON.stringify(records));
  mkdirSync(join(directory, 'data'));

  const apiKey = randomBytes(24).toString('base64url');
  const sandboxPort = settings.sandboxPort || (await freePort());
  const database = settings.postgres ? await startDatabase(directory) : null;
  if (database !== null) closers.push(() => database.stop());
  const databasePath = join(directory, 'data', 'mirror.db');
  const base = inherited(settings.env);
  const mirrorEnv: NodeJS.ProcessEnv = {
    ...base,
    DATABASE_URL: database?.url ?? `file:${databasePath}`,
    COMPLIANCE_BASE_URL: `http://127.0.0.1:${sandboxPort}/v1`,
    COMPLIANCE_API_KEY: apiKey,
    COMPLIANCE_REQUESTS_PER_MINUTE: REQUESTS_PER_MINUTE,
    CREDENTIALS_KEY: randomBytes(32).toString('base64'),
    RISK_IDS_FILE: riskIdsPath,
    SYNC_SETTLE_SECONDS: SETTLE_SECONDS,
    SYNC_SWEEP_MINUTES: String(settings.sweepMinutes),
  };
  const start = (name: string, args: string[], env: NodeJS.ProcessEnv): Child => {
    const child = startChild(name, args, env, join(directory, `${name}.log`));
    closers.push(() => child.stop());
    return child;
  };

  const sandboxUrl = `http://127.0.0.1:${sandboxPort}`;
  const sandboxEnv = { ...base, SANDBOX_API_KEY: apiKey, SANDBOX_TIME_SCALE: RETRY_SPEED };
  const sandbox = start(
    'sandbox',
    ['sandbox', '--port', String(sandboxPort), '--seed', seedPath],
    sandboxEnv,
  );
  await answering(`${sandboxUrl}/_sandbox/faults`, sandbox);

  const replicas = await portsOf(settings.postgres ? ['mirror-a', 'mirror-b'] : ['mirror']);
  const balancer = replicas.length > 1 ? await startBalancer(replicas.map(({ port }) => port)) : null;
  if (balancer !== null) closers.push(() => balancer.close());
  const receiverUrl = `http://127.0.0.1:${balancer?.port ?? replicas[0]?.port}/webhooks`;
  const registered = await runCommand(['register', '--url', receiverUrl], mirrorEnv);

  const givenToken = randomBytes(24).toString('base64url');
  // What replicas share must be given to each; one alone makes its own.
  const shared = settings.postgres ? { OPS_TOKENS: `demo:operate:${givenToken}` } : {};
  const mirrors = replicas.map(({ name, port, opsPort }) => {
    const env = { ...mirrorEnv, ...shared, PORT: String(port), OPS_PORT: String(opsPort) };
    return { child: start(name, ['serve'], env), opsUrl: `http://127.0.0.1:${opsPort}` };
  });
  // The last one: what it is asked for another may have to do.
  const mirror = mirrors.at(-1);
  if (mirror === undefined) throw new Error('there is no mirror');
  const { opsUrl } = mirror;
  for (const { child, opsUrl: url } of mirrors) await answering(`${url}/readyz`, child);
  // OPS_TOKENS is not set for one alone, so it has made a token for whoever can read this file.
  const token = settings.postgres
    ? givenToken
    : readFileSync(join(dirname(databasePath), 'ops-token'), 'utf8').trim();
  const tables = database === null ? openMirrorTables(databasePath) : await database.openTables();
  closers.push(() => tables.close());

  const failed = Promise.race([sandbox.failed, ...mirrors.map(({ child }) => child.failed)]);
  failed.catch(() => {});
  return {
    sandbox: sandboxControls(sandboxUrl),
    tables,
    ops: createOpsClient({ url: opsUrl, token }),
    signInLink: `${opsUrl}/sign-in#token=${token}`,
    sandboxUrl,
    listedAssessments: new Set(listedAssessments),
    failed,
    registered,
  };
}

async function portsOf(names: readonly string[]): Promise<{ name: string; port: number; opsPort: number }[]> {
  const replicas = [];
  for (const name of names) replicas.push({ name, port: await freePort(), opsPort: await freePort() });
  return replicas;
}

/** Whatever else the shell has set is for the mirror that its owner runs, not for this one. */
function inherited(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const names = ['PATH', 'HOME', 'TMPDIR', 'TEMP', 'LANG', 'TZ', 'SystemRoot', 'NODE_V8_COVERAGE'];
  return Object.fromEntries(names.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
}

async function answering(url: string, child: Child): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS;
  while (Date.now() < deadline) {
    try {
      const response = await Promise.race([fetch(url), child.failed]);
      await response.body?.cancel();
      if (response.ok) return;
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
    await Promise.race([new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS)), child.failed]);
  }
  throw new Error(`${url} did not answer within ${READY_TIMEOUT_MS / 1000} s`);
}
