import type { ClaimedEvent } from '../store.ts';

type Claimable = Pick<ClaimedEvent, 'seq' | 'kind' | 'recordId'>;

/**
 * Who works on which events. In memory: one process writes a SQLite file, and its end is what ends every claim,
 * so a claim written to disk would cost a write per event and tell nothing.
 */
export function createClaims() {
  const bySeq = new Map<number, { owner: string; until: number; record: string | null }>();
  const records = new Map<string, { owner: string; count: number }>();

  function release(seq: number): void {
    const claim = bySeq.get(seq);
    if (claim === undefined) return;
    bySeq.delete(seq);
    const record = claim.record === null ? undefined : records.get(claim.record);
    if (record === undefined || claim.record === null) return;
    record.count -= 1;
    if (record.count === 0) records.delete(claim.record);
  }

  return {
    /** False: taken, or another owner holds an event of the same record. */
    take(event: Claimable, owner: string, until: number): boolean {
      if (bySeq.has(event.seq)) return false;
      const key = event.kind === null || event.recordId === null ? null : `${event.kind} ${event.recordId}`;
      const record = key === null ? undefined : records.get(key);
      if (record !== undefined && record.owner !== owner) return false;
      bySeq.set(event.seq, { owner, until, record: key });
      if (record !== undefined) record.count += 1;
      else if (key !== null) records.set(key, { owner, count: 1 });
      return true;
    },
    holds: (event: ClaimedEvent): boolean => bySeq.get(event.seq)?.owner === event.owner,
    letGo(event: ClaimedEvent): void {
      if (bySeq.get(event.seq)?.owner === event.owner) release(event.seq);
    },
    revoke: release,
    expire(steady: number): void {
      for (const [seq, claim] of bySeq) if (claim.until <= steady) release(seq);
    },
    clear(): void {
      bySeq.clear();
      records.clear();
    },
  };
}
