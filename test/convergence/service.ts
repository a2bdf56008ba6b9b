import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Running, start } from '../cli/executable.ts';
import { API_KEY, type IndependentUpstream } from '../support/independent-upstream.ts';
import { SIGNING_SECRET } from '../support/independent-upstream-sender.ts';
import { freePorts } from '../support/ports.ts';

const OPS_TOKEN = 'convergence-operator-0123456789';

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

/** The built service over a file of its own, told of the upstream by its settings and nothing else. */
export async function createService(
  upstream: Pick<IndependentUpstream, 'baseUrl'>,
  settings: Readonly<Record<string, string>> = {},
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
  let running: Running | null = null;

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

  async function gone(): Promise<void> {
    const ended = running?.exited;
    running = null;
    await ended;
  }

  return {
    webhookUrl: `http://127.0.0.1:${port}/webhooks`,
    database,
    settings: env,
    async start() {
      running = start(['serve'], env);
      await running.line('Operators: ');
    },
    async kill() {
      running?.child.kill('SIGKILL');
      await gone();
    },
    async stop() {
      running?.child.kill('SIGTERM');
      await gone();
    },
    get: (path) => ask(path),
    post: (path, body = {}) => ask(path, body),
    async end() {
      running?.child.kill('SIGKILL');
      await gone();
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
