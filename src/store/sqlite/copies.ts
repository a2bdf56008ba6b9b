import { readFileSync, realpathSync, renameSync, writeFileSync } from 'node:fs';
import type { Database } from '../database.ts';
import { facts } from '../schema.ts';
import { sql } from '../statement.ts';
import { beginEpoch, EPOCH_FACT } from '../units/epoch.ts';
import { readFact, singleValue } from '../units/sql.ts';
import { type Connection, flushLog } from './connection.ts';

/**
 * How a copy that was put in the place of the database is noticed, whatever program did it. A note beside the file holds its epoch and a
 * number that it has reached. If the note is ahead of the file, of another epoch or missing, the file is a copy.
 */
interface Note {
  epoch: string;
  number: number;
}

export const NOTE_SUFFIX = '.epoch.json';

/** This fact is only in backups: when the copy was made. */
export const COPIED_FACT = 'copied_at';

export function createNotes(db: Connection, database: Database) {
  const path = db.memory || db.readonly ? null : realpathSync(db.name);
  const isCopy = async (epoch: string, note: Note | null): Promise<boolean> => {
    if (path === null) return false;
    if (note === null) return (await singleValue(database.sql, sql`SELECT 1 FROM events LIMIT 1`)) !== null;
    return note.epoch !== epoch || note.number > (await database.currentNumber());
  };

  return {
    /** Begins a new epoch if the file is a copy, or if it has none: a person removes it from a copy made in another way. */
    async settleEpoch(): Promise<void> {
      // Read before the numbers of the file, which a service may be raising.
      const note = path === null ? null : readNote(path);
      const [copiedAt, epoch] = [
        await readFact(database.sql, COPIED_FACT),
        await readFact(database.sql, EPOCH_FACT),
      ];
      if (copiedAt === null && epoch !== null && !(await isCopy(epoch, note))) return;
      await database.transact(async (unit) => {
        // The service sets the problems' instants again at its start, with its own clock and settings.
        const now = Date.now();
        await beginEpoch(unit, copiedAt, { wall: now, steady: now });
        await unit.change(sql`DELETE FROM ${facts} WHERE ${facts.name} = ${COPIED_FACT}`);
      });
    },

    async write(): Promise<void> {
      if (path === null) return;
      const epoch = (await readFact(database.sql, EPOCH_FACT)) ?? '';
      const note: Note = { epoch, number: await database.currentNumber() };
      // The note must not come to the disk before what it says.
      flushLog(db);
      const partial = `${path}${NOTE_SUFFIX}.partial`;
      writeFileSync(partial, `${JSON.stringify(note)}\n`, { mode: 0o600, flush: true });
      renameSync(partial, path + NOTE_SUFFIX);
    },
  };
}

function readNote(path: string): Note | null {
  try {
    return JSON.parse(readFileSync(path + NOTE_SUFFIX, 'utf8')) as Note;
  } catch {
    return null;
  }
}
