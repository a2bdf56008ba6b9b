import { existsSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sender } from './sender.ts';
import { startService } from './service.ts';

export interface Aftermath {
  /** Acknowledged events that are stored after the restart. */
  found: number;
  lost: number;
  /** What else is not as it should be; empty when all is well. */
  faults: string[];
}

const LOOK_EVERY_MS = 50;
/** For a backlog of some hundred events, on a busy machine. */
const PATIENCE_MS = 120_000;

/**
 * Starts the service again on what a fault left, lets it work off its backlog, and holds the tables against what the
 * sender was promised. Through Node's own SQLite, which had no part in writing them.
 */
export async function examine(
  database: string,
  sender: Sender,
  options: { main?: string } = {},
): Promise<Aftermath> {
  const faults: string[] = [];
  // What comes after is ours, not the sender's.
  const promised = [...sender.acknowledged];
  const service = startService({ database, ...options });
  const at = await service.listening;
  if (at === null) {
    faults.push(`it does not start again: ${service.output()}`);
    return { found: 0, lost: promised.length, faults };
  }
  try {
    if (!(await workedOff(database))) faults.push('events stay pending');
    const tables = read(database);
    faults.push(...tables.faults);
    const found = promised.filter((id) => tables.events.has(id));
    const last = found.at(-1);
    if (last !== undefined && (await sender.sendAgain(at.port, last))?.status !== 200) {
      faults.push(`${last} is not known to be a duplicate`);
    }
    if ((await sender.send(at.port))?.status !== 202) faults.push('a new event is not accepted');
    return { found: found.length, lost: promised.length - found.length, faults };
  } finally {
    const { code } = await service.stop();
    if (code !== 0) faults.push(`it ends with ${code} when it is asked to stop`);
  }
}

/** Whether the service that runs has processed all that it accepted. */
export async function workedOff(database: string): Promise<boolean> {
  const until = performance.now() + PATIENCE_MS;
  while (performance.now() < until) {
    if (pendingIn(database) === 0) return true;
    await sleep(LOOK_EVERY_MS);
  }
  return false;
}

export function pendingIn(database: string): number {
  const pending = withTables(database, (db) =>
    db.prepare("SELECT count(*) AS n FROM events WHERE state = 'pending'").get(),
  );
  return Number(pending?.['n']);
}

function read(database: string) {
  return withTables(database, (db) => {
    const faults: string[] = [];
    const verdict = db.prepare('PRAGMA integrity_check').get()?.['integrity_check'];
    if (verdict !== 'ok') faults.push(`integrity: ${verdict}`);
    const events = new Map(
      db
        .prepare('SELECT id, state FROM events')
        .all()
        .map((row) => [String(row['id']), String(row['state'])]),
    );
    const undone = [...events].filter(([, state]) => state !== 'processed').length;
    if (undone > 0) faults.push(`${undone} events are not done`);
    const twice = db
      .prepare(
        "SELECT cause_id FROM changes WHERE cause = 'event' GROUP BY kind, record_id, cause_id HAVING count(*) > 1",
      )
      .all().length;
    if (twice > 0) faults.push(`${twice} events had their effect twice`);
    return { faults, events };
  });
}

function withTables<T>(database: string, work: (db: DatabaseSync) => T): T {
  if (!existsSync(database)) throw new Error(`${database} is gone`);
  const db = new DatabaseSync(database, { readOnly: true, timeout: 5_000 });
  try {
    return work(db);
  } finally {
    db.close();
  }
}
