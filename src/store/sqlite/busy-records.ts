import type { Kind } from '../../compliance/kinds.ts';
import type { RecordState } from '../../mirror/decide.ts';
import type { LoadedRecord } from '../units/records.ts';
import type { Connection } from './connection.ts';

const RECORDS_KEPT = 2_048;

/** Characters of a document. A larger one is read again each time, so that all of them stay within some megabytes. */
const LARGEST_DOCUMENT_CHARACTERS = 8_192;

export interface TableRow {
  name: string | null;
  version: string | null;
  status: string | null;
  data: string;
  first_seen_at: string;
  synced_at: string;
  verified_at: string | null;
  unverified_since: string | null;
  deleted_at: string | null;
  last_event_id: string | null;
  last_event_at: string | null;
  cause: string;
  change_seq: number;
  provisional_created: number | null;
  shown: string | null;
}

export interface StoredRecord extends LoadedRecord {
  /** As stored in the file; null if there is none. */
  stored: { state: RecordState | null; row: StoredKeys | null };
}

/** The indexed columns of a row. */
export type StoredKeys = Pick<TableRow, 'name' | 'deleted_at' | 'unverified_since'>;

/**
 * Records as the last events of this process left them, so that the next event about one need not read it again:
 * reading a row and its state and parsing its document was a quarter of what an event costs. True only while nothing else
 * writes: every verb that writes records clears it first, but the inbox's own, so does a transaction that fails, and what another
 * program commits shows in SQLite's `data_version`.
 */
export interface BusyRecords {
  /** Called at the start of a transaction that uses it. */
  check(): void;
  get(kind: Kind, id: string): StoredRecord | undefined;
  /** Called after it is saved, with the length of its document in characters. */
  keep(held: StoredRecord, characters: number): void;
  /** A dirty mark has changed these two and nothing else. */
  markedDirty(kind: Kind, id: string, number: number, at: number): void;
  drop(kind: Kind, id: string): void;
  clear(): void;
}

export function createBusyRecords(db: Connection): BusyRecords {
  const kept = new Map<string, StoredRecord>();
  const dataVersion = db.prepare('PRAGMA data_version').pluck();
  let version: unknown = null;

  return {
    check() {
      const now = dataVersion.get();
      if (now !== version) kept.clear();
      version = now;
    },
    get: (kind, id) => kept.get(`${kind} ${id}`),
    keep(held, characters) {
      const key = `${held.kind} ${held.id}`;
      if (characters > LARGEST_DOCUMENT_CHARACTERS) {
        kept.delete(key);
        return;
      }
      if (kept.size >= RECORDS_KEPT && !kept.has(key)) {
        const [oldest] = kept.keys();
        if (oldest !== undefined) kept.delete(oldest);
      }
      held.known = true;
      held.stored.state = held.state;
      kept.set(key, held);
    },
    markedDirty(kind, id, number, at) {
      const held = kept.get(`${kind} ${id}`);
      if (held === undefined) return;
      held.state = { ...held.state, dirty: number, dirtyAt: Math.max(held.state.dirtyAt ?? at, at) };
      held.stored.state = held.state;
    },
    drop: (kind, id) => void kept.delete(`${kind} ${id}`),
    clear: () => kept.clear(),
  };
}
