import { type ChildProcess, execFileSync, fork, spawn } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { SECRET } from '../receive/sign.ts';
import type { Arrangement, Command, Target } from './attack.ts';
import type { Bystander } from './bystanders.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const MAIN = here('../../dist/src/main.js');

/** Of the operators: as random as a token should be. */
const TOKEN = 'Wq7xJ2nVb9TzLk4RfGh8Ys3PmDc6Ea1u';
/** A service that is to end may take this long: what container platforms give it. */
const STOP_MS = 10_000;
/** How long the bystanders have asked before an attack begins: first answers cost more than later ones. */
const WARM_UP_MS = 1_000;
/** How long a service may take to start or to be killed before the run is given up. */
const START_MS = 60_000;

/** The built service, its bystanders, and what is known of both. */
export interface Stage {
  target: Target;
  /** Begins a window: memory, log and the others' answers count from here. */
  begin(): Promise<void>;
  /** Ends it. */
  end(): Promise<Measured>;
  /** Asks it to end, as a platform would, and waits; says what was wrong with that. */
  close(): Promise<string[]>;
}

export interface Measured {
  bystanders: Bystander[];
  grownMb: number;
  logBytes: number;
  /** What is wrong with the process: ended, or silent. */
  faults: string[];
}

/** `main`: another build's executable. */
export async function openStage(
  arrangement: Arrangement,
  options: { main?: string; say?: (note: string) => void } = {},
): Promise<Stage> {
  const main = options.main ?? MAIN;
  if (!existsSync(main)) throw new Error(`${main} is missing: run "npm run build" first`);
  const folder = mkdtempSync(join(tmpdir(), 'mirror-hostile-'));
  const environment = {
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    HOST: '127.0.0.1',
    PORT: '0',
    OPS_HOST: '127.0.0.1',
    OPS_PORT: '0',
    OPS_TOKENS: `owner:operate:${TOKEN}`,
    DATABASE_URL: `file:${join(folder, 'mirror.db')}`,
    WEBHOOK_SECRETS: SECRET,
    ...arrangement.settings,
  };
  const run: Command = (args, settings) => command(main, args, { ...environment, ...settings });
  await arrangement.prepare?.(run, options.say ?? (() => undefined));

  const log = join(folder, 'log');
  const errors = join(folder, 'errors');
  if (arrangement.log === 'stuck') execFileSync('mkfifo', [log]);
  // Open for both: a pipe with a reader, who never reads.
  const logFile = openSync(log, arrangement.log === 'stuck' ? 'r+' : 'a');
  const errorFile = openSync(errors, 'a');
  const service = spawn(process.execPath, [...(arrangement.nodeArgs ?? []), main, 'serve', '--attached'], {
    env: environment,
    stdio: ['pipe', logFile, errorFile],
  });
  closeSync(errorFile);
  const exited = new Promise<string>((resolve) => {
    service.once('exit', (code, signal) => resolve(signal ?? `code ${code}`));
  });
  let ended: string | null = null;
  void exited.then((how) => {
    ended = how;
  });
  const said = () => readFileSync(errors, 'utf8');
  const startedAt = performance.now();
  while (!/^Operators: .*\n/m.test(said())) {
    if (ended !== null || performance.now() - startedAt > START_MS) {
      service.kill('SIGKILL');
      throw new Error(`the service did not start: ${said()}`);
    }
    await sleep(20);
  }
  const portOf = (name: string) => Number(new RegExp(`^${name}: .*?:(\\d+)(/|$)`, 'm').exec(said())![1]);
  const encoding = (environment as Record<string, string | undefined>)['WEBHOOK_SECRET_ENCODING'] ?? 'utf8';
  const target: Target = {
    port: portOf('Deliveries'),
    opsPort: portOf('Operators'),
    key: Buffer.from(SECRET, encoding as BufferEncoding).toString('hex'),
    token: TOKEN,
  };

  const bystanders = fork(here('./bystanders.ts'));
  const ask = async (message: object) => {
    bystanders.send(message);
    return (await once(bystanders, 'message'))[0];
  };
  await ask({ ask: 'start', pid: service.pid!, ...target });
  await sleep(WARM_UP_MS);

  let [memoryBefore, logBefore] = [0, 0];
  const logBytes = () => (arrangement.log === 'stuck' ? 0 : statSync(log).size);
  return {
    target,
    async begin() {
      await ask({ ask: 'mark' });
      forgetPeak(service.pid!);
      memoryBefore = memoryKb(service.pid!, 'VmRSS');
      logBefore = logBytes();
    },
    async end() {
      const answers = (await ask({ ask: 'report' })) as Bystander[];
      const faults = ended === null ? [] : [`the service ended with ${ended}: ${said().slice(-2000)}`];
      const peak = ended === null ? memoryKb(service.pid!, 'VmHWM') : memoryBefore;
      return {
        bystanders: answers,
        grownMb: Math.max(0, peak - memoryBefore) / 1024,
        logBytes: logBytes() - logBefore,
        faults,
      };
    },
    async close() {
      const faults: string[] = [];
      bystanders.kill();
      if (ended === null) {
        service.kill('SIGTERM');
        const ending = new AbortController();
        await Promise.race([exited, sleep(STOP_MS, null, { signal: ending.signal })]);
        ending.abort();
        if (ended === null) {
          faults.push(`not ended ${STOP_MS / 1000} s after SIGTERM`);
          service.kill('SIGKILL');
          await exited;
        }
      }
      closeSync(logFile);
      rmSync(folder, { recursive: true, force: true });
      return faults;
    },
  };
}

/** From /proc: of the process in all. */
function memoryKb(pid: number, name: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0);
}

/** Linux keeps the peak of a process, and forgets it when asked. */
function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

function once(child: ChildProcess, event: 'message'): Promise<unknown[]> {
  return new Promise((resolve, reject) => {
    const gone = (code: number | null) => reject(new Error(`a process of the harness ended with ${code}`));
    child.once('exit', gone);
    child.once(event, (...values) => {
      child.off('exit', gone);
      resolve(values);
    });
  });
}

function command(
  main: string,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<{ code: number | null; out: string }> {
  const child = spawn(process.execPath, [main, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      out += chunk;
    });
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, out }));
  });
}
