import { join } from 'node:path';
import { startMirror } from '../bench/processes.ts';
import { emptyLedger, type Findings, inspect, type Ledger, loadUntilGone, workedOff } from './harness.ts';

export interface KillReport {
  ledger: Ledger;
  /** Right after each kill, before anything started again. */
  afterKill: Findings[];
  /** After the last restart has worked everything off and was stopped. */
  atEnd: Findings;
  /** The last one's, of a stop that was asked for. */
  exitCode: number | null;
}

export interface KillOptions {
  directory: string;
  times: number;
  /** When the `n`th run is killed: after so many acknowledgements of its own. */
  acknowledgementsBefore: (n: number) => number;
  onKill?: (n: number, findings: Findings, ledger: Ledger) => void;
}

/**
 * `kill -9` under load, again and again on one file: each run takes up what the one before left, so that a kill
 * hits deliveries coming in and a backlog being worked off alike. What this cannot show is a loss of power: the
 * kernel keeps what a killed process has written.
 */
export async function killUnderLoad(options: KillOptions): Promise<KillReport> {
  const database = join(options.directory, 'mirror.db');
  const ledger = emptyLedger();
  const afterKill: Findings[] = [];
  for (let n = 1; n <= options.times; n++) {
    const mirror = await startMirror(database);
    await loadUntilGone({
      mirror,
      run: `run${n}`,
      ledger,
      after: options.acknowledgementsBefore(n),
      onReached: () => mirror.kill('SIGKILL'),
    });
    await mirror.exited;
    const findings = inspect(database, ledger);
    afterKill.push(findings);
    options.onKill?.(n, findings, ledger);
  }
  const last = await startMirror(database);
  await workedOff(database);
  last.kill('SIGTERM');
  const exitCode = await last.exited;
  return { ledger, afterKill, atEnd: inspect(database, ledger), exitCode };
}
