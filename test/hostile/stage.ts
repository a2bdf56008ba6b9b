import { type ChildProcess, fork, spawn } from 'node:child_process';
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
import type { StrikeMessage } from './attacker.ts';
import { ATTACKS, type Target } from './attacks.ts';
import type { Bystander } from './bystanders.ts';
import { type Counts, noCounts } from './wire.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const MAIN = here('../../dist/src/main.js');

/** Of the operators: as random as a token should be. */
const TOKEN = 'Wq7xJ2nVb9TzLk4RfGh8Ys3PmDc6Ea1u';
/** A service that is to end may take this long: what container platforms give it. */
const STOP_MS = 10_000;
/** How long the bystanders have asked before an attack begins: first answers cost more than later ones. */
const WARM_UP_MS = 1_000;
const START_MS = 100_000;
/** An attack that takes longer is not over because the harness hangs. */
const STRIKE_MS = 300_000;
/** How long what is meant to stay stays. */
const HOLD_MS = { full: 6_000, short: 1_500 };
const MAX_GROWTH_MB = 300;
/** Nobody else waits longer. */
const MAX_WAIT_MS = 1_000;

/** One line of the table. */
export interface Row {
  name: string;
  size: string;
  bystanders: Bystander[];
  grownMb: number;
  logBytes: number;
  counts: Counts;
  /** What breaks a bound that holds on any machine. */
  faults: string[];
  /** What breaks the bound of time. */
  late: string[];
}

/** The built service and its bystanders. `main`: another build's executable. */
export async function openStage(main = MAIN) {
  if (!existsSync(main)) throw new Error(`${main} is missing: run "npm run build" first`);
  const folder = mkdtempSync(join(tmpdir(), 'mirror-hostile-'));
  const [log, errors] = [join(folder, 'log'), join(folder, 'errors')];
  const [logFile, errorFile] = [openSync(log, 'a'), openSync(errors, 'a')];
  const service = spawn(process.execPath, [main, 'serve', '--attached'], {
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      PORT: '0',
      OPS_PORT: '0',
      OPS_TOKENS: `owner:operate:${TOKEN}`,
      DATABASE_URL: `file:${join(folder, 'mirror.db')}`,
      WEBHOOK_SECRETS: SECRET,
    },
    stdio: ['pipe', logFile, errorFile],
  });
  for (const file of [logFile, errorFile]) closeSync(file);
  let ended: string | null = null;
  const exited = new Promise<void>((resolve) => {
    service.once('exit', (code, signal) => {
      ended = signal ?? `code ${code}`;
      resolve();
    });
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
  const target: Target = { port: portOf('Deliveries'), opsPort: portOf('Operators') };
  const pid = service.pid!;

  const bystanders = fork(here('./bystanders.ts'));
  const ask = (message: object | string) => answerOf<unknown>(bystanders, message);
  await ask({ pid, token: TOKEN, ...target });
  await sleep(WARM_UP_MS);

  return {
    /** Plays one attack while the others go on asking. */
    async play(name: string, length: 'full' | 'short'): Promise<Row> {
      const { unit, size, logBytes: mostLog = Number.POSITIVE_INFINITY } = ATTACKS[name]!;
      await ask('mark');
      // Linux keeps the peak of a process, and forgets it when asked.
      writeFileSync(`/proc/${pid}/clear_refs`, '5');
      const memoryBefore = memoryMb(pid, 'VmRSS');
      const logBefore = statSync(log).size;
      const counts = await strike({ name, target, size: size[length], holdMs: HOLD_MS[length] });
      const others = (await ask('report')) as Bystander[];
      const grownMb = ended === null ? Math.max(0, memoryMb(pid, 'VmHWM') - memoryBefore) : 0;
      const logBytes = statSync(log).size - logBefore;
      const faults = [...counts.faults];
      if (ended !== null) faults.push(`the service ended with ${ended}: ${said().slice(-2000)}`);
      if (counts.served > 0) faults.push(`${counts.served} requests of a stranger were answered 2xx`);
      if (grownMb > MAX_GROWTH_MB) faults.push(`memory grew by ${grownMb.toFixed(0)} MB`);
      if (logBytes > mostLog) faults.push(`wrote ${logBytes} bytes of log`);
      for (const { name: who, failures } of others) {
        if (failures.length > 0) faults.push(`${who}: ${failures.length} not served, first ${failures[0]}`);
      }
      const late = others
        .filter(({ worstMs }) => worstMs > MAX_WAIT_MS)
        .map(({ name: who, worstMs }) => `${who}: waited ${worstMs.toFixed(0)} ms`);
      const row = { name, size: `${size[length].toLocaleString('en')} ${unit}` };
      return { ...row, bystanders: others, grownMb, logBytes, counts, faults, late };
    },

    /** Asks it to end, as a platform would; says what was wrong with that. */
    async close(): Promise<string[]> {
      bystanders.kill();
      service.kill('SIGTERM');
      await Promise.race([exited, sleep(STOP_MS, null, { ref: false })]);
      const faults = ended === null ? [`not ended ${STOP_MS / 1000} s after SIGTERM`] : [];
      service.kill('SIGKILL');
      await exited;
      rmSync(folder, { recursive: true, force: true });
      return faults;
    },
  };
}

async function strike(message: StrikeMessage): Promise<Counts> {
  const child = fork(here('./attacker.ts'));
  const timer = setTimeout(() => child.kill('SIGKILL'), STRIKE_MS);
  try {
    return await answerOf<Counts>(child, message);
  } catch (error) {
    return { ...noCounts(), faults: [`the attacker: ${(error as Error).message}`] };
  } finally {
    clearTimeout(timer);
  }
}

function answerOf<T>(child: ChildProcess, message: object | string): Promise<T> {
  child.send(message);
  return new Promise((resolve, reject) => {
    const gone = (code: number | null, signal: string | null) => {
      reject(new Error(`a process of the harness ended with ${signal ?? code}`));
    };
    child.once('exit', gone);
    child.once('message', (answer) => {
      child.off('exit', gone);
      resolve(answer as T);
    });
  });
}

/** From /proc: of the process in all. */
function memoryMb(pid: number, name: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) / 1024;
}
