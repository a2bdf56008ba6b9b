import { randomBytes } from 'node:crypto';
import { KINDS } from '../../compliance/kinds.ts';
import type { Unit } from '../database.ts';
import type { Now } from '../store.ts';
import { readFact, writeFact } from './facts.ts';
import { addGap } from './gaps.ts';
import { iso } from './sql.ts';

/** The fact that names the present life of a database. Another one begins where a copy goes on in its place. */
export const EPOCH_FACT = 'epoch';
const EPOCH_BYTES = 8;

/**
 * Begins another epoch, and says in the same commit what the copy lacks: of each kind a gap of its own, since a list brings back
 * what it shows, and nothing brings back an assessment that only lost events have named. `copiedAt`: ISO 8601, where the copy
 * says it; else what it lacks begins at its last heartbeat. No event is asked: one may have come since, in the new epoch.
 */
export async function beginEpoch(unit: Unit, copiedAt: string | null, now: Now): Promise<void> {
  const from = copiedAt ?? (await readFact(unit, 'heartbeat')) ?? 'a moment that nothing here tells';
  const to = iso(now.wall);
  const error = `a copy of the database was put back: what was accepted from ${from} to ${to} is not in it`;
  const settleMs = Number((await readFact(unit, 'settle_ms')) ?? 0);
  const coverableAt = Math.ceil(now.steady + settleMs);
  for (const kind of KINDS) {
    const gap = { reason: 'restored', kind, recordId: null } as const;
    await addGap(unit, gap, error, to, unit.numbers.next(), coverableAt);
  }
  await writeFact(unit, EPOCH_FACT, randomBytes(EPOCH_BYTES).toString('hex'));
}
