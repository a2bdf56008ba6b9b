import type { JsonObject } from '../compliance/pointers.ts';
import type { Change, MirroredRecord } from '../ops/api/schemas.ts';

/** A record as it stood at an instant. */
export interface PastRecord {
  id: string;
  name: string | null;
  /** Policies only. */
  version?: string | null;
  status: string | null;
  data: JsonObject;
  deleted_at: string | null;
}

/**
 * What `record` was at `instant` (ISO 8601 UTC), by taking back, newest first, the changes made since. Null: there was
 * none. `changes`: at least those since. Pure.
 */
export function recordAt(
  record: MirroredRecord,
  changes: readonly Change[],
  instant: string,
): PastRecord | null {
  const { id, name, status, data, deleted_at } = record;
  const version = 'version' in record ? { version: record.version ?? null } : {};
  let past: PastRecord = { id, name, ...version, status, data, deleted_at };
  for (const change of changes.filter((one) => one.at > instant).toSorted((a, b) => b.seq - a.seq)) {
    if (change.operation === 'insert') return null;
    past = before(past, change);
  }
  return past;
}

function before(row: PastRecord, change: Change): PastRecord {
  const { data: gone, ...columns } = change.before as JsonObject & { data?: JsonObject };
  const come = (change.after['data'] ?? {}) as JsonObject;
  const data = new Map(Object.entries(row.data));
  for (const field of Object.keys(come)) data.delete(field);
  for (const [field, value] of Object.entries(gone ?? {})) data.set(field, value);
  return { ...row, ...columns, data: Object.fromEntries(data) };
}
