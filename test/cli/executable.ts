import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Asked } from './resident.ts';

/** The built executable: what users run, not what the tests' own loader makes of the sources. */
const MAIN = fileURLToPath(new URL('../../dist/src/main.js', import.meta.url));
const RESIDENT = fileURLToPath(new URL('./resident.ts', import.meta.url));

export interface Finished {
  code: number | null;
  out: string;
  err: string;
}

/** Settings of the machine that runs the tests must not reach the commands; what Node keeps of the program does. */
function environment(settings: Record<string, string>): Record<string, string> {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE } = process.env;
  const kept = NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE };
  return { PATH, HOME, TMPDIR: tmpdir(), ...kept, ...settings };
}

/** The process for commands of this worker's test files: busy with one, or free. */
let resident: ChildProcess | null = null;
let isBusy = false;

/** By the resident process, where it is free. */
async function byResident(asked: Asked): Promise<Finished> {
  isBusy = true;
  try {
    if (resident === null) {
      resident = fork(RESIDENT, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
      resident.unref();
      resident.channel?.unref();
    }
    resident.channel?.ref();
    resident.send(asked);
    const ended = new AbortController();
    const [finished] = await Promise.race([
      once(resident, 'message', ended),
      once(resident, 'exit', ended).then(([code]) => {
        throw new Error(`the process for commands ended with ${code}, at: ${asked.args.join(' ')}`);
      }),
    ]);
    ended.abort();
    return finished as Finished;
  } finally {
    resident?.channel?.unref();
    isBusy = false;
  }
}

/**
 * Runs one command to its end. In a process of its own where another one is running, or `own` says so: for what a process
 * does at its end, and what it is given at its start.
 */
export async function cli(
  args: readonly string[],
  settings: Record<string, string> = {},
  options: { node?: string; nodeArgs?: readonly string[]; cwd?: string; own?: boolean } = {},
): Promise<Finished> {
  if (!existsSync(MAIN)) throw new Error('dist/src/main.js is missing: run "npm run build" first');
  const cwd = options.cwd ?? tmpdir();
  const isOwn = options.own ?? (options.node !== undefined || options.nodeArgs !== undefined);
  if (!isOwn && !isBusy) return await byResident({ args, env: environment(settings), cwd });
  const child = spawn(options.node ?? process.execPath, [...(options.nodeArgs ?? []), MAIN, ...args], {
    // Where no .env of this folder's reaches them.
    cwd,
    env: environment(settings),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const finished: Finished = { code: null, out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    finished.out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    finished.err += text;
  });
  finished.code = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  return finished;
}

export interface Running {
  child: ChildProcess;
  /** What the first line with `part` in it says. Rejects if the process ends before. */
  line(part: string): Promise<string>;
  /** SIGTERM; resolves to the exit code. */
  stop(): Promise<number | null>;
  exited: Promise<number | null>;
}

/** Starts a command that runs until it is stopped. */
export function start(
  args: readonly string[],
  settings: Record<string, string> = {},
  cwd = tmpdir(),
): Running {
  if (!existsSync(MAIN)) throw new Error('dist/src/main.js is missing: run "npm run build" first');
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd,
    env: environment(settings),
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  const waiting = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line);
      for (const look of waiting) look();
    });
  }
  const exited = new Promise<number | null>((resolve) => child.once('close', resolve));
  return {
    child,
    exited,
    line: (part) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const found = lines.find((line) => line.includes(part));
          if (found === undefined) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
        void exited.then((code) => reject(new Error(`it ended with ${code}:\n${lines.join('\n')}`)));
      }),
    async stop() {
      child.kill('SIGTERM');
      return await exited;
    },
  };
}

/** A directory that is gone after `work`. */
export async function inTemporaryDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-test-'));
  try {
    return await work(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
