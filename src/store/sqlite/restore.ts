import { existsSync } from 'node:fs';
import { UsageError } from '../../platform/errors.ts';
import { EPOCH_FACT } from '../units/epoch.ts';
import { copyInto, isPartOf } from './backup.ts';
import { COPIED_FACT } from './copies.ts';
import { schemaSteps } from './migrations.ts';

/**
 * Puts a copy in the place of the database, which nobody may have open, and returns its bytes. The next start begins a new epoch. Throws
 * UsageError for a file that is no mirror of this version or an earlier one, and leaves the database as it is if the copy is damaged.
 */
export function restoreSqlite(copy: string, database: string): number {
  const remedy = 'name a file that "backup" has made';
  if (!existsSync(copy)) throw new UsageError(`there is no file ${copy}`, remedy);
  if (isPartOf(database, copy)) throw new UsageError(`${copy} is the database itself`, remedy);
  return copyInto(copy, database, (db) => {
    if (schemaSteps(db).taken === 0) throw new UsageError(`${copy} is no mirror`, remedy);
    // Without this fact it was copied by another program: then its last heartbeat says how old it is.
    if (db.prepare('SELECT 1 FROM facts WHERE name = ?').get(COPIED_FACT) === undefined)
      db.prepare('DELETE FROM facts WHERE name = ?').run(EPOCH_FACT);
  });
}
