import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseEnv } from 'node:util';
import { type Child, freePort, runCommand, startChild } from './children.ts';
import { operatorAt, type SandboxControls, sandboxControls } from './clients.ts';
import { openMirrorTables, startDatabase } from './mirror-tables.ts';

/** Both services, running, and every way in which the demo reaches them. */
export type Services = Awaited<ReturnType<typeof setUp>>;

interface DemoSettings {
  /** The shell's environment. Only what every program needs is passed on. */
  env: NodeJS.ProcessEnv;
  /** 0: any free one. */
  sandboxPort: number;
  /** Two mirrors over one PostgreSQL, instead of one over a file. */
  postgres: boolean;
  /** 0: only at the start and on demand. */
  fullSyncMinutes: number;
  /** Draws the form of the sandbox's answers and events. */
  shapes: number;
}

/** The sandbox is consistent within a second and may be asked often. */
const SETTLE_SECONDS = '1';
const REQUESTS_PER_MINUTE = '3000';
/** The sandbox's retries come this many times sooner than a real sender's. */
const RETRY_SPEED = '10';
/** For the first delivery and the first full syncs. They take seconds, but many times that on a busy machine. */
const SETUP_WAIT = '60s';
const READY_TIMEOUT_MS = 60_000;
const LOOK_EVERY_MS = 100;

/**
 * Starts the sandbox and one or two mirrors as processes on loopback, with keys made for this run and files in a new directory,
 * runs `act`, and always stops them. The directory is removed, unless `act` fails and `keep` returns true.
 */
export async function withServices(
  settings: DemoSettings,
  keep: (error: unknown, directory: string) => boolean,
  act: (services: Services) => Promise<void>,
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-demo-'));
  let isKept = false;
  try {
    await using closers = new AsyncDisposableStack();
    await act(await setUp(settings, directory, closers));
  } catch (error) {
    isKept = keep(error, directory);
    throw error;
  } finally {
    if (!isKept) rmSync(directory, { recursive: true, force: true });
  }
}

async function setUp(settings: DemoSettings, directory: string, closers: AsyncDisposableStack) {
  const riskIdsPath = join(directory, 'risk-ids');
  mkdirSync(join(directory, 'data'));

  const apiKey = randomBytes(24).toString('base64url');
  const token = randomBytes(24).toString('base64url');
  const sandboxPort = settings.sandboxPort || (await freePort());
  const database = settings.postgres ? await startDatabase(directory) : null;
  if (database !== null) closers.defer(() => database.stop());
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
    SYNC_FULL_MINUTES: String(settings.fullSyncMinutes),
    // All replicas need the same.
    OPS_TOKENS: `demo:operate:${token}`,
  };
  const start = (name: string, args: string[], env: NodeJS.ProcessEnv): Child => {
    const child = startChild(name, args, env, join(directory, `${name}.log`));
    closers.defer(() => child.stop());
    return child;
  };

  const sandboxUrl = `http://127.0.0.1:${sandboxPort}`;
  const sandboxEnv = {
    ...base,
    SANDBOX_API_KEY: apiKey,
    SANDBOX_TIME_SCALE: RETRY_SPEED,
    SANDBOX_SHAPES: `draw:${settings.shapes}`,
  };
  const sandbox = start('sandbox', ['sandbox', '--port', String(sandboxPort)], sandboxEnv);
  await answering(`${sandboxUrl}/_sandbox/faults`, sandbox);
  const controls = sandboxControls(sandboxUrl);
  const shapes = await controls.shapes();
  // Without the first id: no vendor names that assessment, so the mirror cannot know it until an event comes.
  const [, ...listedAssessments] = (await controls.state()).records.risk_assessment.keys();
  writeFileSync(riskIdsPath, `${listedAssessments.join('\n')}\n`);

  const replicas = await portsOf(settings.postgres ? ['mirror-a', 'mirror-b'] : ['mirror']);
  // Several replicas get a proxy in front of them. Until it starts, setup listens on its port.
  const own = replicas.length > 1 ? { port: await freePort(), opsPort: await freePort() } : replicas[0]!;
  const secretAt = shapes.registration.secret === null ? [] : ['--secret-at', shapes.registration.secret];
  const found = await setUpMirror(
    ['--url', `http://127.0.0.1:${own.port}/webhooks`, ...secretAt],
    { ...mirrorEnv, PORT: String(own.port), OPS_PORT: String(own.opsPort) },
    directory,
    controls,
  );
  if (replicas.length > 1) {
    const ports = replicas.map(({ port }) => port);
    closers.defer(await balance(own.port, ports));
  }
  const mirrors = replicas.map(({ name, port, opsPort }) => {
    const env = { ...mirrorEnv, PORT: String(port), OPS_PORT: String(opsPort) };
    return { child: start(name, ['serve'], env), opsUrl: `http://127.0.0.1:${opsPort}` };
  });
  for (const { child, opsUrl } of mirrors) await answering(`${opsUrl}/readyz`, child);
  // The last replica, so that another one may have to do what this one is asked for.
  const { opsUrl } = mirrors.at(-1)!;
  const tables = database === null ? openMirrorTables(databasePath) : await database.openTables();
  closers.defer(() => tables.close());

  const failed = Promise.race([sandbox, ...mirrors.map(({ child }) => child)].map((child) => child.failed));
  failed.catch(() => {});
  return {
    sandbox: controls,
    tables,
    ops: operatorAt(opsUrl, token),
    /** Opens the mirror's status page. */
    signInLink: `${opsUrl}/sign-in#token=${token}`,
    sandboxUrl,
    listedAssessments: new Set(listedAssessments),
    /** Rejects when one of the processes ends by itself. */
    failed,
    /** The sandbox's shapes, the number that draws them, and the settings that the mirror needs for them. */
    shapes,
    shapesNumber: settings.shapes,
    found,
  };
}

/** Runs `setup`. Resolves with the settings that it has written to `.env`, because the sandbox's shapes need them. */
async function setUpMirror(
  options: readonly string[],
  env: NodeJS.ProcessEnv,
  directory: string,
  controls: SandboxControls,
): Promise<string[]> {
  let touched: Promise<void> | null = null;
  await runCommand(['setup', '--yes', ...options, '--wait', SETUP_WAIT], env, {
    cwd: directory,
    heard: (text) => {
      if (touched !== null || !text.includes('Waiting for a first delivery')) return;
      touched = controls.touch();
      // It is awaited below. Until then its rejection must not count as unhandled.
      touched.catch(() => {});
    },
  });
  await touched;
  const path = join(directory, '.env');
  const written = existsSync(path) ? parseEnv(readFileSync(path, 'utf8')) : {};
  return Object.entries(written).map(([name, value]) => `${name}=${value}`);
}

/** A proxy on 127.0.0.1 that passes each delivery to the next receiver. Resolves to a function that stops it. */
async function balance(own: number, ports: readonly number[]): Promise<() => void> {
  // Imported only here: a run with one mirror, and `--help`, need no web server.
  const [{ serve }, { Hono }, { proxy }] = await Promise.all([
    import('@hono/node-server'),
    import('hono'),
    import('hono/proxy'),
  ]);
  let turn = 0;
  const app = new Hono()
    .all('*', (c) =>
      proxy(`http://127.0.0.1:${ports[turn++ % ports.length]}${c.req.path}`, { raw: c.req.raw }),
    )
    // If a replica does not answer, the sender tries again, and the next replica gets the delivery.
    .onError((_error, c) => c.body(null, 502));
  const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: own });
  await once(server, 'listening');
  return () => void server.close();
}

async function portsOf(names: readonly string[]): Promise<{ name: string; port: number; opsPort: number }[]> {
  const replicas = [];
  for (const name of names) replicas.push({ name, port: await freePort(), opsPort: await freePort() });
  return replicas;
}

/** Other variables of the shell may be settings of another mirror. */
function inherited(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const names = ['PATH', 'HOME', 'TMPDIR', 'TEMP', 'LANG', 'TZ', 'SystemRoot'];
  return Object.fromEntries(names.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
}

/** Waits until `url` answers with a 2xx. */
async function answering(url: string, child: Child): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS;
  while (Date.now() < deadline) {
    const isWell = fetch(url).then(
      async (response) => {
        await response.body?.cancel();
        return response.ok;
      },
      () => false,
    );
    if (await Promise.race([isWell, child.failed])) return;
    await Promise.race([sleep(LOOK_EVERY_MS), child.failed]);
  }
  throw new Error(`${url} did not answer within ${READY_TIMEOUT_MS / 1000} s`);
}
