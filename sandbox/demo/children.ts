import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describeError, MirrorError } from '../../src/platform/errors.ts';

/** One of our own commands, running as a separate process. */
export type Child = ReturnType<typeof startChild>;

/** A service stops within 10 s. One that takes longer than this is stuck. */
const STOP_TIMEOUT_MS = 12_000;
/** How the error message of a command begins. */
const COMPLAINT = 'compliance-mirror: ';

/** The executable: source if this file is source, otherwise built. */
const MAIN = fileURLToPath(
  new URL(`../../src/main${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url),
);

/**
 * Starts `compliance-mirror ARGS --attached`. Its standard input is a pipe that closes however this process ends, and then the child
 * stops by itself. It is in another process group, so that Ctrl-C reaches only this process, which stops everything in order.
 */
export function startChild(name: string, args: readonly string[], env: NodeJS.ProcessEnv, logPath: string) {
  const log = openSync(logPath, 'w', 0o600);
  const child = spawn(process.execPath, [MAIN, ...args, '--attached'], {
    env,
    // A folder without an .env: the demo must not take the settings of another mirror.
    cwd: dirname(logPath),
    detached: true,
    stdio: ['pipe', log, log],
  });
  closeSync(log);
  const gone: Promise<string> = once(child, 'close').then(
    ([code, signal]) => signal ?? `exit code ${code}`,
    describeError,
  );
  let stopping = false;
  const failed = gone.then((how): never | Promise<never> => {
    if (stopping) return new Promise<never>(() => {});
    const complaint = readFileSync(logPath, 'utf8')
      .split('\n')
      .findLast((line) => line.startsWith(COMPLAINT));
    const why = complaint?.slice(COMPLAINT.length) ?? how;
    throw new MirrorError('child_ended', `the ${name} ended unexpectedly: ${why}`, {
      remedy: `its output is in ${logPath}`,
    });
  });
  // It is awaited later. Until then its rejection must not count as unhandled.
  failed.catch(() => {});

  return {
    /** Rejects when the process ends before `stop` was called. */
    failed,
    /** Asks it to end, and kills it if it does not. Resolves once it is gone. */
    async stop(): Promise<void> {
      stopping = true;
      child.stdin?.end();
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
      await gone;
      clearTimeout(timer);
    },
  };
}

/** Runs a command of ours in `cwd`. Rejects with its output unless it exits with 0. `heard` gets the whole output so far. */
export async function runCommand(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  { cwd, heard }: { cwd: string; heard: (text: string) => void },
): Promise<void> {
  const child = spawn(process.execPath, [MAIN, ...args], { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      heard(text);
    });
  }
  const [code] = await once(child, 'close');
  if (code === 0) return;
  throw new MirrorError('command_failed', `"${args[0]}" failed: ${text.trim()}`);
}

/** Below the ports that the system assigns, because another program could get one of those before we use it. */
const [FIRST_PORT, LAST_PORT] = [10_240, 32_767];
/** If this many are taken in a row, something else prevents listening. */
const PORT_TRIES = 100;

/** A port of 127.0.0.1 that was free a moment ago. */
export async function freePort(first = FIRST_PORT, last = LAST_PORT): Promise<number> {
  for (let tries = 1; ; tries += 1) {
    const port = randomInt(first, last + 1);
    await using server = createServer();
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening');
      return port;
    } catch (error) {
      if (tries === PORT_TRIES) throw error;
    }
  }
}
