import { randomBytes } from 'node:crypto';
import { KINDS } from '../compliance/kinds.ts';
import type { GapKey } from './store.ts';

/** A database's life. Another one begins where a copy goes on in its place: the same on every engine. */

/** The present life, as `facts` keep it. */
export const EPOCH_FACT = 'epoch';
const EPOCH_BYTES = 8;

export const newEpoch = (): string => randomBytes(EPOCH_BYTES).toString('hex');

/**
 * What a copy lacks, whoever made it: of each kind a gap of its own, since a list brings back what it shows, and nothing
 * brings back an assessment that only lost events have named.
 */
export const RESTORED: readonly GapKey[] = KINDS.map((kind) => ({
  reason: 'restored',
  kind,
  recordId: null,
}));

/**
 * The gap's words. Pure. `from`: when it was copied, where the copy says so, else its last heartbeat; null: there is none. No
 * event is asked for more: one may have come since, in the new life. `to`: when that was told to begin. Both ISO 8601.
 */
export function saysRestored(from: string | null, to: string): string {
  return `a copy of the database was put back: what was accepted from ${from ?? 'a moment that nothing here tells'} to ${to} is not in it`;
}
