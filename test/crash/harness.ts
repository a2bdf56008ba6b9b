import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { sendLoad } from '../bench/client.ts';
import { deliveries } from '../bench/deliveries.ts';
import type { Mirror } from '../bench/processes.ts';

export interface Ledger {
  /** Ids of the deliveries that were answered 202. */
  acknowledged: Set<string>;
  /** Every other answer, by status; `null` is a connection that ended without one. */
  others: Map<number | null, number>;
}

export const emptyLedger = (): Ledger => ({ acknowledged: new Set(), others: new Map() });

export interface CrashLoad {
  mirror: Mirror;
  run: string;
  ledger: Ledger;
  /** Called once, when this many of the run have been acknowledged; deliveries go on meanwhile. */
  after: number;
  onReached: () => void;
}

/** More than any run gets to: the process is always gone before its deliveries are. */
const ENDLESS = 1_000_000;
const CONNECTIONS = 16;
const RECORDS = 200;

/** Distinct deliveries without end. Resolves when the process has closed every connection, or lost it. */
export async function loadUntilGone({ mirror, run, ledger, after, onReached }: CrashLoad): Promise<void> {
  let acknowledged = 0;
  await sendLoad({
    port: mirror.port,
    connections: CONNECTIONS,
    deliveries: deliveries(run, ENDLESS, RECORDS),
    onAnswer: ({ delivery, status }) => {
      if (status !== 202) {
        ledger.others.set(status, (ledger.others.get(status) ?? 0) + 1);
        return;
      }
      ledger.acknowledged.add(delivery.id);
      acknowledged += 1;
      if (acknowledged === after) onReached();
    },
  });
}

/** What a look into the file tells, made while nobody writes to it. */
export interface Findings {
  integrity: string;
  /** Acknowledged, and not in `events`. Must be empty. */
  lost: string[];
  /** Ids with more than one row. Must be empty. */
  storedTwice: string[];
  /** Rows of `events` by state. */
  states: Record<string, number>;
  /** Done, and without exactly one row in `changes` that names it as its cause. Must be empty. */
  notAppliedOnce: string[];
  /** Rows of `changes` whose cause is no event that is done: an effect without its mark. Must be 0. */
  effectsWithoutMark: number;
}

export function inspect(database: string, ledger: Ledger): Findings {
  // Not read-only: after a kill the log may need recovery, which writes.
  const db = new Database(database);
  try {
    const rows = <T>(sql: string) => db.prepare(sql).all() as T[];
    const stored = new Set(rows<{ id: string }>('SELECT id FROM events').map((row) => row.id));
    return {
      integrity: String(db.pragma('integrity_check', { simple: true })),
      lost: [...ledger.acknowledged].filter((id) => !stored.has(id)),
      storedTwice: rows<{ id: string }>('SELECT id FROM events GROUP BY id HAVING count(*) > 1').map(
        (row) => row.id,
      ),
      states: Object.fromEntries(
        rows<{ state: string; n: number }>('SELECT state, count(*) AS n FROM events GROUP BY state').map(
          (row) => [row.state, row.n],
        ),
      ),
      notAppliedOnce: rows<{ id: string }>(
        `SELECT e.id FROM events e LEFT JOIN changes c ON c.cause = 'event' AND c.cause_id = e.id WHERE e.state = 'processed'
         GROUP BY e.id HAVING count(c.seq) <> 1`,
      ).map((row) => row.id),
      effectsWithoutMark: rows<{ n: number }>(
        `SELECT count(*) AS n FROM changes WHERE cause <> 'event' OR cause_id NOT IN (SELECT id FROM events WHERE state = 'processed')`,
      )[0]!.n,
    };
  } finally {
    db.close();
  }
}

/** Resolves when no event waits any more; `look` is called on the way, every `pollMs`. */
export async function workedOff(
  database: string,
  look: () => Promise<void> | void = () => undefined,
): Promise<void> {
  const db = new Database(database, { readonly: true });
  const waiting = db.prepare("SELECT EXISTS (SELECT 1 FROM events WHERE state = 'pending')").pluck();
  try {
    while (waiting.get() === 1) {
      await look();
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  } finally {
    db.close();
  }
}

const POLL_MS = 20;

export async function inTemporaryDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), 'compliance-mirror-crash-'));
  try {
    return await work(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
