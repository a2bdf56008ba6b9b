import type { Store } from '../store/store.ts';

/** Where the service looks at its start, and every replica of several once a second. */
const PAUSED_FACT = 'paused';
/** Counts only while that one holds. A fact of its own: a process of an older version, which knows no instant, stays paused. */
const SINCE_FACT = 'paused_since';

type Facts = Pick<Store, 'readFact' | 'writeFact'>;

export interface Pause {
  /** Wall-clock milliseconds; null: it was paused by a version that did not keep it. */
  since: number | null;
}

/** Null: nobody has paused it. */
export async function readPause(facts: Pick<Facts, 'readFact'>): Promise<Pause | null> {
  if ((await facts.readFact(PAUSED_FACT)) !== 'true') return null;
  const since = Date.parse((await facts.readFact(SINCE_FACT)) ?? '');
  return { since: Number.isNaN(since) ? null : since };
}

/** Pauses it as of `wall`, or leaves it paused as it is. */
export async function beginPause(facts: Facts, wall: number): Promise<Pause> {
  const before = await readPause(facts);
  if (before !== null) return before;
  // First, so that whoever sees the pause sees its own instant, and not that of an earlier one.
  await facts.writeFact(SINCE_FACT, new Date(wall).toISOString());
  await facts.writeFact(PAUSED_FACT, 'true');
  return { since: wall };
}

export async function endPause(facts: Pick<Facts, 'writeFact'>): Promise<void> {
  await facts.writeFact(PAUSED_FACT, 'false');
}
