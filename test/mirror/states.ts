import type { JsonObject } from '../../src/compliance/pointers.ts';
import { contentOf } from '../../src/mirror/merge.ts';
import { type RecordState, UNKNOWN_STATE } from '../../src/mirror/state.ts';

/** What decisions are asked about. */

export const SETTLE = 10;
export const TIMING = { settleMs: SETTLE };
export const NOW_ISO = '2026-11-01T12:00:00.000Z';
export const row = (data: JsonObject, deletedAt: string | null = null) =>
  contentOf('policy', data, deletedAt);
/** Something is outstanding since instant 100, from the event of number 5; no read of it is too early. */
export const state = (over: Partial<RecordState> = {}): RecordState => ({
  ...UNKNOWN_STATE,
  dirty: 5,
  dirtyAt: 100,
  firstDirtyAt: 100,
  unverifiedSince: 1_000,
  dueAt: 110,
  confirmed: 5,
  ...over,
});
export const VERIFIED = {
  unverifiedSince: null,
  dirtyAt: null,
  firstDirtyAt: null,
  dueAt: null,
  returned: true,
} as const;
