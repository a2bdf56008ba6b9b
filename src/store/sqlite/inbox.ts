import type { Database } from '../database.ts';
import type { InboxStore } from '../store.ts';
import { createEventVerbs } from '../units/events.ts';
import { createAcceptVerbs } from './accept.ts';
import { createArrivals } from './arrivals.ts';
import { createClaims } from './claims.ts';
import type { Connection } from './connection.ts';
import { createHotPath } from './previews.ts';
import type { SqliteRecords } from './records.ts';

export function createInboxVerbs(db: Connection, database: Database, records: SqliteRecords): InboxStore {
  const arrivals = createArrivals();
  const claims = createClaims(db, arrivals);
  return {
    ...createAcceptVerbs(db, database, records, arrivals),
    ...claims.verbs,
    ...createEventVerbs(database, claims, createHotPath(db, records, arrivals)),
  };
}
