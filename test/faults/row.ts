import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Aftermath, examine } from './aftermath.ts';
import type { Sender } from './sender.ts';

/** One line of the table: a fault, how often it was made, and what came of it. */
export interface Row {
  fault: string;
  rounds: number;
  acknowledged: number;
  found: number;
  lost: number;
  /** Deliveries that were answered 503. */
  turnedAway: number;
  note: string;
  /** Accepted events that the fault has left without their effect. */
  undone?: number;
  /** What went wrong; none: the row is as it should be. */
  faults: string[];
  skipped?: string;
  /** Shows that the harness sees a loss: here one must happen. */
  isControl?: true;
}

export function emptyRow(fault: string): Row {
  return { fault, rounds: 0, acknowledged: 0, found: 0, lost: 0, turnedAway: 0, note: '', faults: [] };
}

export function skippedRow(fault: string, why: string): Row {
  return { ...emptyRow(fault), skipped: why };
}

/** Adds one round: what was promised before the fault, and what was there after it. */
function addRound(row: Row, round: string, sender: Sender, promised: number, after: Aftermath): void {
  row.rounds += 1;
  row.acknowledged += promised;
  row.found += after.found;
  row.lost += after.lost;
  row.turnedAway += sender.refused.filter(({ status }) => status === 503).length;
  row.faults.push(...after.faults.map((fault) => `${round}: ${fault}`));
  const wrong = sender.refused.find(({ status, retryAfter }) => status !== 503 || retryAfter === null);
  if (wrong !== undefined) {
    row.faults.push(`${round}: answered ${wrong.status}, Retry-After ${wrong.retryAfter}`);
  }
}

/** Restarts the service on `database`, and adds what it finds to the row. */
export async function conclude(
  row: Row,
  round: string,
  sender: Sender,
  database: string,
  options: { main?: string } = {},
): Promise<void> {
  const promised = sender.acknowledged.length;
  addRound(row, round, sender, promised, await examine(database, sender, options));
}

/** A folder that is gone after `work`. */
export async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'mirror-fault-'));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
