import { isDeepStrictEqual } from 'node:util';
import type { JsonObject } from '../../src/compliance/pointers.ts';

/** What a team keeps of a record. */
export interface FollowedRow {
  name: unknown;
  version: unknown;
  status: unknown;
  deleted_at: unknown;
  data: JsonObject;
}

/** What outlives the follower's process. */
export interface Disk {
  rows: Map<string, FollowedRow>;
  /** Null: a snapshot is under way, or wanted. */
  cursor: string | null;
}

export class Killed extends Error {}

type Answer = { status: number; body: JsonObject };
type Get = (path: string) => Promise<Answer>;

const COLUMNS = ['name', 'version', 'status', 'deleted_at'] as const;

/**
 * A follower as a team would write it from the API's documentation: a snapshot, then changes, each written to disk as
 * it comes and the cursor after its page. `mayDie` is asked before every write and throws Killed where it dies.
 */
export async function follow(get: Get, disk: Disk, mayDie: () => void): Promise<void> {
  for (;;) {
    if (disk.cursor === null) await takeSnapshot(get, disk, mayDie);
    const { status, body } = await get(`/api/changes?limit=3&after=${disk.cursor}`);
    if (status === 410) {
      if (body['code'] !== 'cursor_expired') throw new Error(`an unknown 410: ${body['code']}`);
      mayDie();
      disk.cursor = null;
      continue;
    }
    const items = body['items'] as JsonObject[];
    for (const change of items) {
      mayDie();
      lay(disk.rows, change);
    }
    mayDie();
    disk.cursor = body['next'] as string;
    if (items.length === 0) return;
  }
}

async function takeSnapshot(get: Get, disk: Disk, mayDie: () => void): Promise<void> {
  mayDie();
  disk.rows.clear();
  let after = '';
  for (;;) {
    const { status, body } = await get(
      `/api/snapshot?limit=2${after === '' ? '' : `&after=${encodeURIComponent(after)}`}`,
    );
    if (status !== 200) throw new Error(`the snapshot answered ${status}`);
    for (const row of body['items'] as JsonObject[]) {
      mayDie();
      const columns = Object.fromEntries(COLUMNS.map((column) => [column, row[column] ?? null]));
      disk.rows.set(`${row['kind']} ${row['id']}`, { ...columns, data: row['data'] } as FollowedRow);
    }
    if (body['next'] === null) {
      mayDie();
      disk.cursor = String(body['after']);
      return;
    }
    after = body['next'] as string;
  }
}

/** Values, not differences: over a row that has the change already it changes nothing. */
function lay(rows: Map<string, FollowedRow>, change: JsonObject): void {
  const key = `${change['kind']} ${change['record_id']}`;
  const before = (change['before'] ?? {}) as JsonObject;
  const after = (change['after'] ?? {}) as JsonObject;
  const row = rows.get(key) ?? { name: null, version: null, status: null, deleted_at: null, data: {} };
  const next: FollowedRow = { ...row };
  for (const column of COLUMNS) if (Object.hasOwn(after, column)) next[column] = after[column];
  const data = new Map(Object.entries(row.data));
  for (const field of Object.keys((before['data'] ?? {}) as JsonObject)) data.delete(field);
  for (const [field, value] of Object.entries((after['data'] ?? {}) as JsonObject)) data.set(field, value);
  next.data = Object.fromEntries(data);
  rows.set(key, next);
}

export function sameRows(a: Map<string, FollowedRow>, b: Map<string, FollowedRow>): boolean {
  return isDeepStrictEqual(new Map([...a].sort()), new Map([...b].sort()));
}
