import type { Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import { recordId } from './records.ts';

/** How far back a stale read may look. Older versions are forgotten. */
export const MAX_STALE_MS = 60_000;

interface Version {
  atMs: number;
  /** Null: deleted. */
  record: JsonObject | null;
}

/**
 * The upstream's records, in memory, with enough of their past to answer as a replica that lags behind. A record is replaced
 * and never changed in place, so a record that was returned earlier stays as it was.
 */
export class RecordState {
  readonly #versions: Record<Kind, Map<string, Version[]>> = {
    policy: new Map(),
    risk_assessment: new Map(),
    vendor: new Map(),
  };

  /** Monotonic milliseconds, as in `asOfMs`. */
  now(): number {
    return performance.now();
  }

  get(kind: Kind, id: string, asOfMs = Number.POSITIVE_INFINITY): JsonObject | null {
    return latest(this.#versions[kind].get(id) ?? [], asOfMs);
  }

  /** In the order of creation. */
  list(kind: Kind, asOfMs = Number.POSITIVE_INFINITY): JsonObject[] {
    const records: JsonObject[] = [];
    for (const versions of this.#versions[kind].values()) {
      const record = latest(versions, asOfMs);
      if (record !== null) records.push(record);
    }
    return records;
  }

  count(kind: Kind): number {
    return this.list(kind).length;
  }

  put(kind: Kind, record: JsonObject): void {
    this.#append(kind, recordId(kind, record), record);
  }

  /** Adds a record as if it had always been there, so that stale reads see it too. */
  seed(kind: Kind, record: JsonObject): void {
    this.#versions[kind].set(recordId(kind, record), [{ atMs: Number.NEGATIVE_INFINITY, record }]);
  }

  delete(kind: Kind, id: string): void {
    if (this.get(kind, id) !== null) this.#append(kind, id, null);
  }

  #append(kind: Kind, id: string, record: JsonObject | null): void {
    const now = this.now();
    const versions = this.#versions[kind].get(id) ?? [];
    const needed = versions.findLastIndex((version) => version.atMs <= now - MAX_STALE_MS);
    this.#versions[kind].set(id, [...versions.slice(Math.max(needed, 0)), { atMs: now, record }]);
  }
}

function latest(versions: readonly Version[], asOfMs: number): JsonObject | null {
  return versions.findLast((version) => version.atMs <= asOfMs)?.record ?? null;
}
