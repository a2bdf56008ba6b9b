import { statSync } from 'node:fs';
import type { Finders } from '../units/reports.ts';
import { createBlockSearch, createForwardBlockSearch } from './blocks.ts';
import type { Connection } from './connection.ts';

/** What reports ask of one record block by block, and how large the file is. */
export function createFinders(db: Connection): Finders {
  const changes = { table: 'changes', index: 'changes_record', match: 't.kind = ? AND t.record_id = ?' };
  const changesOfRecord = createBlockSearch(db, changes);
  const changesAfter = createForwardBlockSearch(db, changes);
  const eventsOfRecord = createBlockSearch(db, {
    ...{ table: 'events', index: 'events_record', match: 't.record_id = ?' },
  });
  return {
    eventsOfRecord: async (id, before, limit) => eventsOfRecord([id], before, limit),
    changesOfRecord: async (kind, id, before, limit) => changesOfRecord([kind, id], before, limit),
    changesAfter: async (kind, id, after, limit) => changesAfter([kind, id], after, limit),
    sizes: async () => ({ database_bytes: sizeOf(db.name), wal_bytes: sizeOf(`${db.name}-wal`) }),
  };
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
