import { randomBytes } from 'node:crypto';
import type { Connection } from './connection.ts';

/** The database's present life, as `facts` keep it. */
export const EPOCH_FACT = 'epoch';
/** When this file was copied from the one that it is a backup of; only in backups. */
const COPIED_FACT = 'copied_at';

const EPOCH_BYTES = 8;

const SAVE =
  'INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value';

/** Into a backup: whoever opens it for writing begins a life of its own. */
export function markAsCopy(db: Connection, at: string): void {
  db.prepare(SAVE).run(COPIED_FACT, at);
}

/**
 * Before anything is written: a backup that was put back begins another epoch, and so does a database without one,
 * which is how a person says that a copy made by other means was put back.
 */
export function settleEpoch(db: Connection): void {
  const read = db.prepare('SELECT value FROM facts WHERE name = ?').pluck();
  if (read.get(EPOCH_FACT) !== undefined && read.get(COPIED_FACT) === undefined) return;
  db.transaction(() => {
    db.prepare(SAVE).run(EPOCH_FACT, randomBytes(EPOCH_BYTES).toString('hex'));
    db.prepare('DELETE FROM facts WHERE name = ?').run(COPIED_FACT);
  }).immediate();
}
