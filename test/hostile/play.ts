import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type Arrangement, type Attack, addCounts, type Counts, noCounts } from './attack.ts';
import { ATTACKS } from './attacks.ts';
import type { Bystander } from './bystanders.ts';
import { openStage, type Stage } from './stage.ts';

const ATTACKER = fileURLToPath(new URL('./attacker.ts', import.meta.url));
const DEFAULT_MEMORY_MB = 300;
/** Nobody else waits longer. */
const WAIT_MS = 500;
/** An attack that takes longer than this is not over because the harness hangs. */
const STRIKE_MS = 300_000;

/** One line of the table. */
export interface Row {
  name: string;
  size: string;
  /** The bystander who waited longest, the machine's own lateness taken off. */
  slowest: Bystander;
  others: { served: number; failed: number };
  grownMb: number;
  memoryMb: number;
  logBytes: number;
  counts: Counts;
  seconds: number;
  /** What breaks a bound that holds on any machine. */
  faults: string[];
  /** What breaks the bound of time. */
  late: string[];
}

export interface PlayOptions {
  length: 'full' | 'short';
  /** Another build's executable. */
  main?: string;
  onRow?: (row: Row) => void;
}

/** Plays the attacks one after the other: at full length each against a service of its own, else most against one. */
export async function play(names: readonly string[], options: PlayOptions): Promise<Row[]> {
  const rows: Row[] = [];
  let shared: Stage | null = null;
  for (const name of names) {
    const attack = ATTACKS[name]!;
    const row = emptyRow(name, attack, options.length);
    const startedAt = performance.now();
    if (options.length === 'short' && attack.arrangements === undefined) {
      shared ??= await openStage({}, options);
      await strike(row, attack, shared, options.length);
      if (row.faults.some((fault) => fault.startsWith('the service ended'))) {
        await shared.close();
        shared = null;
      }
    } else {
      for (const arrangement of attack.arrangements?.(options.length) ?? [{}]) {
        await strikeOnce(row, attack, arrangement, options);
      }
    }
    row.seconds = (performance.now() - startedAt) / 1000;
    rows.push(row);
    options.onRow?.(row);
  }
  const faults = (await shared?.close()) ?? [];
  rows.at(-1)?.faults.push(...faults);
  return rows;
}

async function strikeOnce(
  row: Row,
  attack: Attack,
  arrangement: Arrangement,
  options: PlayOptions,
): Promise<void> {
  const stage = await openStage(arrangement, {
    ...options,
    say: (note) => {
      row.counts.note = note;
    },
  });
  await strike(row, attack, stage, options.length);
  row.faults.push(...(await stage.close()));
}

async function strike(row: Row, attack: Attack, stage: Stage, length: 'full' | 'short'): Promise<void> {
  await stage.begin();
  const counts = await attackerOf(row.name, attack, stage, length);
  const measured = await stage.end();
  addCounts(row.counts, counts);
  row.faults.push(...counts.faults, ...measured.faults);
  row.grownMb = Math.max(row.grownMb, measured.grownMb);
  row.logBytes += measured.logBytes;
  for (const bystander of measured.bystanders) {
    row.others.served += bystander.served;
    row.others.failed += bystander.failed;
    if (waitOf(bystander) > waitOf(row.slowest)) row.slowest = bystander;
    if (bystander.failed > 0) {
      const { name, served, failed, failures } = bystander;
      row.faults.push(`${name}: ${failed} of ${served + failed} not served (${failures.join(', ')})`);
    }
    if (waitOf(bystander) > WAIT_MS) {
      row.late.push(`${bystander.name}: waited ${waitOf(bystander).toFixed(0)} ms, more than ${WAIT_MS}`);
    }
  }
  if (measured.grownMb > row.memoryMb) {
    row.faults.push(`memory grew by ${measured.grownMb.toFixed(0)} MB, more than ${row.memoryMb}`);
  }
  if (attack.logBytes !== undefined && measured.logBytes > attack.logBytes) {
    row.faults.push(`wrote ${measured.logBytes} bytes of log, more than ${attack.logBytes}`);
  }
}

function attackerOf(
  name: string,
  attack: Attack,
  { target }: Stage,
  length: 'full' | 'short',
): Promise<Counts> {
  return new Promise((resolve) => {
    const child = fork(ATTACKER);
    const failed = (fault: string) => resolve({ ...noCounts(), faults: [fault] });
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      failed(`not over after ${STRIKE_MS / 1000} s`);
    }, STRIKE_MS);
    child.once('message', (counts) => resolve(counts as Counts));
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      failed(`the attacker itself ended with ${signal ?? code}`);
    });
    child.send({ name, target, size: attack.size[length], length });
  });
}

export const waitOf = ({ worst }: Bystander): number => worst.ms - worst.machineMs;

function emptyRow(name: string, attack: Attack, length: 'full' | 'short'): Row {
  const nobody = { name: '-', served: 0, failed: 0, failures: [], worst: { ms: 0, machineMs: 0 } };
  return {
    name,
    size: `${attack.size[length].toLocaleString('en')} ${attack.unit}`,
    slowest: nobody,
    others: { served: 0, failed: 0 },
    grownMb: 0,
    memoryMb: attack.memoryMb ?? DEFAULT_MEMORY_MB,
    logBytes: 0,
    counts: noCounts(),
    seconds: 0,
    faults: [],
    late: [],
  };
}
