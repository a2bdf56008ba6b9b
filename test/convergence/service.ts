import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { systemClock } from '../../src/platform/clock.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { start } from '../cli/executable.ts';
import { API_KEY, type IndependentUpstream } from '../support/independent-upstream.ts';
import { SIGNING_SECRET } from '../support/independent-upstream-sender.ts';
import { freePorts } from '../support/ports.ts';

const OPS_TOKEN = 'convergence-operator-0123456789-of-thirt';

export interface Service {
  /** Where deliveries go; the same after each start. */
  webhookUrl: string;
  database: string;
  settings: Record<string, string>;
  start(): Promise<void>;
  /** Gone from one instruction to the next. */
  kill(): Promise<void>;
  stop(): Promise<void>;
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body?: object): Promise<T>;
  /** Stops what runs, and removes the folder. */
  end(): Promise<void>;
}

interface Started {
  ready: Promise<unknown>;
  kill(): Promise<unknown>;
  stop(): Promise<unknown>;
}

function startBuilt(env: Record<string, string>): Started {
  const running = start(['serve'], env);
  return {
    ready: running.line('Operators: '),
    async kill() {
      running.child.kill('SIGKILL');
      await running.exited;
    },
    stop: () => running.stop(),
  };
}

/** Given a clock, it has no threads either: to start a process and them takes longer than most of what is shown with it. */
function startHere(env: Record<string, string>): Started {
  // Only when it is asked for: `npm run chaos` runs on bare Node, which reads no JSX.
  const ready = import('../../src/service/service.ts').then(({ startService }) =>
    startService({ config: loadConfig(env), logger: pino({ level: 'silent' }), clock: systemClock() }),
  );
  const stop = async () => (await ready).stop();
  return { ready, stop, kill: stop };
}

/**
 * The built service over a file of its own, told of the upstream by its settings and nothing else. With `here` it is the
 * service of the sources in this process, for what does not depend on its being one: it cannot be killed, and stops.
 */
export async function createService(
  upstream: Pick<IndependentUpstream, 'baseUrl'>,
  settings: Readonly<Record<string, string>> = {},
  options: { here?: boolean } = {},
): Promise<Service> {
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-convergence-'));
  const database = join(directory, 'mirror.db');
  const [port, opsPort] = await freePorts(2);
  const env = {
    PORT: String(port),
    OPS_PORT: String(opsPort),
    OPS_TOKENS: `tester:operate:${OPS_TOKEN}`,
    DATABASE_URL: `file:${database}`,
    WEBHOOK_SECRETS: SIGNING_SECRET,
    COMPLIANCE_BASE_URL: upstream.baseUrl,
    COMPLIANCE_API_KEY: API_KEY,
    LOG_LEVEL: 'warn',
    ...settings,
  };
  let started: Started | null = null;

  async function ask<T>(path: string, body?: object): Promise<T> {
    const response = await fetch(`http://127.0.0.1:${opsPort}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${OPS_TOKEN}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text}`);
    return (text.startsWith('{') ? JSON.parse(text) : text) as T;
  }

  async function end(how: 'kill' | 'stop'): Promise<void> {
    const ending = started;
    started = null;
    await ending?.[how]();
  }

  return {
    webhookUrl: `http://127.0.0.1:${port}/webhooks`,
    database,
    settings: env,
    async start() {
      started = (options.here === true ? startHere : startBuilt)(env);
      await started.ready;
    },
    kill: () => end('kill'),
    stop: () => end('stop'),
    get: (path) => ask(path),
    post: (path, body = {}) => ask(path, body),
    async end() {
      await end('kill');
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

const LOOK_EVERY_MS = 50;
/** Ends a test that hangs, and no other: many times what a machine needs that is not busy. */
const PATIENCE_MS = 90_000;

/** Resolves with what `look` finds, once it finds something. Rejects after `withinMs`, saying what was waited for. */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | null | false> | T | null | false,
  withinMs = PATIENCE_MS,
): Promise<T> {
  const until = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found !== null && found !== false) return found;
    if (performance.now() > until) throw new Error(`waited ${withinMs / 1000} s in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}
