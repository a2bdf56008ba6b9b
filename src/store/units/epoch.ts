import { randomBytes } from 'node:crypto';
import { KINDS } from '../../compliance/kinds.ts';
import type { Unit } from '../database.ts';
import type { Now } from '../values.ts';
import { addProblem } from './problems.ts';
import { iso, readFact, writeFact } from './sql.ts';

/** The fact that identifies a database's epoch: a new epoch begins when a copy is put in its place. */
export const EPOCH_FACT = 'epoch';
const EPOCH_BYTES = 8;

/**
 * Begins a new epoch, and in the same commit opens a problem for each kind: accepted events may be lost. `copiedAt`: when the copy was made
 * (ISO 8601); null: the copy does not say, so the last heartbeat counts.
 */
export async function beginEpoch(unit: Unit, copiedAt: string | null, now: Now): Promise<void> {
  const from = copiedAt ?? (await readFact(unit, 'heartbeat')) ?? 'an unknown time';
  const to = iso(now.wall);
  const error = `a copy of the database was put back: what was accepted from ${from} to ${to} is not in it`;
  const settleMs = Number((await readFact(unit, 'settle_ms')) ?? 0);
  const coverableAt = Math.ceil(now.steady + settleMs);
  for (const kind of KINDS) {
    const problem = { reason: 'restored', kind, recordId: null } as const;
    await addProblem(unit, problem, { error, openedAt: to, number: unit.numbers.next(), coverableAt });
  }
  await writeFact(unit, EPOCH_FACT, randomBytes(EPOCH_BYTES).toString('hex'));
}
