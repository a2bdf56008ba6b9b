import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describeError, MirrorError } from '../../src/platform/errors.ts';

/** The sandbox is consistent within less than this. A read that shows nothing new is repeated after 6 and 18 times as long. */
const SETTLE_SECONDS = '0.5';
/** A full sync of so few records takes a moment, and only one finds what was lost without a trace. */
const FULL_SYNC_MINUTES = '0.1';
/** Above what half a minute of trouble deletes, and below the sandbox's mass deletion. */
const DELETION_GUARD_PERCENT = '60';
const REQUESTS_PER_MINUTE = '6000';
/** A service stops within 10 s. One that takes longer than this is stuck. */
const STOP_TIMEOUT_MS = 12_000;
/** How the error message of a command begins. */
const COMPLAINT = 'compliance-mirror: ';

/** The executable: source if this file is source, otherwise built. */
const MAIN = fileURLToPath(
  new URL(`../../src/main${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url),
);

export type Mirror = Awaited<ReturnType<typeof startMirror>>;

/**
 * Starts the mirror as a process, with its files in `directory`; resolves once it listens, where the system has free ports. Its standard
 * input is a pipe that closes however this process ends, and then it stops by itself. It is in another process group, so that Ctrl-C
 * reaches only this process.
 */
export async function startMirror(
  directory: string,
  env: NodeJS.ProcessEnv,
  upstream: { url: string; apiKey: string; webhookSecret: string },
) {
  const token = randomBytes(24).toString('base64url');
  const database = join(directory, 'mirror.db');
  const logPath = join(directory, 'mirror.log');
  const log = openSync(logPath, 'w', 0o600);
  const child = spawn(process.execPath, [MAIN, 'serve', '--attached'], {
    env: {
      ...inherited(env),
      PORT: '0',
      OPS_PORT: '0',
      OPS_TOKENS: `demo:operate:${token}`,
      DATABASE_URL: `file:${database}`,
      WEBHOOK_SECRETS: upstream.webhookSecret,
      COMPLIANCE_BASE_URL: `${upstream.url}/v1`,
      COMPLIANCE_API_KEY: upstream.apiKey,
      COMPLIANCE_REQUESTS_PER_MINUTE: REQUESTS_PER_MINUTE,
      SYNC_SETTLE_SECONDS: SETTLE_SECONDS,
      SYNC_FULL_MINUTES: FULL_SYNC_MINUTES,
      DELETION_GUARD_PERCENT,
    },
    // A folder without an .env: the demo must not take the settings of another mirror.
    cwd: directory,
    detached: true,
    stdio: ['pipe', log, 'pipe'],
  });
  let complaint: string | null = null;
  let receiverUrl = '';
  const { promise: listening, resolve } = Promise.withResolvers<string>();
  createInterface({ input: child.stderr! }).on('line', (line) => {
    writeSync(log, `${line}\n`);
    if (line.startsWith(COMPLAINT)) complaint = line.slice(COMPLAINT.length);
    const [, name, url = ''] = /^(Deliveries|Operators): (\S+)$/.exec(line) ?? [];
    if (name === 'Deliveries') receiverUrl = url;
    else if (name === 'Operators') resolve(url);
  });
  const gone = once(child, 'close').then(([code, signal]) => signal ?? `exit code ${code}`, describeError);
  let isStopping = false;
  const failed = gone.then((how): never | Promise<never> => {
    closeSync(log);
    if (isStopping) return new Promise<never>(() => {});
    throw new MirrorError('child_ended', `the mirror ended unexpectedly: ${complaint ?? how}`, {
      remedy: `its output is in ${logPath}`,
    });
  });
  // It is awaited later. Until then its rejection must not count as unhandled.
  failed.catch(() => {});
  /** Asks it to end, and kills it if it does not. Resolves once it is gone. */
  async function stop(): Promise<void> {
    isStopping = true;
    child.stdin?.end();
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await gone;
    clearTimeout(timer);
  }
  const opsUrl = await Promise.race([listening, failed]);
  return {
    receiverUrl,
    /** Opens the status page. */
    signInLink: `${opsUrl}/sign-in#token=${token}`,
    database,
    /** Rejects when the process ends before `stop` was called. */
    failed,
    stop,
  };
}

/** Other variables of the shell may be settings of another mirror. */
function inherited(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const names = ['PATH', 'HOME', 'TMPDIR', 'TEMP', 'LANG', 'TZ', 'SystemRoot'];
  return Object.fromEntries(names.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
}
