import type { SQL } from '../drizzle.ts';
import { EPOCH_FACT, newEpoch, RESTORED, saysRestored } from '../restored.ts';
import type { GapChange } from '../store.ts';
import { writtenFact } from '../units/facts.ts';
import { openedGap } from '../units/gaps.ts';
import { iso } from '../units/sql.ts';
import { type Connection, guarded, statementsOf } from './connection.ts';

/** From when on this file lacks what the one has that it is a backup of; only in backups. */
const COPIED_FACT = 'copied_at';

/**
 * Into a backup: whoever opens it for writing begins a life of its own. `at`: ISO 8601, not after the moment that it shows. A
 * copy of a copy that never lived shows the first one's.
 */
export function markAsCopy(db: Connection, at: string): void {
  db.prepare('INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING').run(
    COPIED_FACT,
    at,
  );
}

/**
 * Before anything else is written: a backup that was put back begins another epoch, and so does a database without one,
 * which is how a person says that a copy made by other means was put back. In the same commit it says what it lacks.
 * Returns the gaps that it has opened.
 */
export function settleEpoch(db: Connection, nowMs: number): GapChange[] {
  const read = db.prepare('SELECT value FROM facts WHERE name = ?').pluck();
  const fact = (name: string) => (read.get(name) as string | undefined) ?? null;
  const copiedAt = fact(COPIED_FACT);
  if (fact(EPOCH_FACT) !== null && copiedAt === null) return [];
  const error = saysRestored(copiedAt ?? fact('heartbeat'), iso(nowMs));
  // The start lays it anew by the service's own clock and settings.
  const coverableAt = nowMs + Number(fact('settle_ms') ?? 0);
  const statement = statementsOf(db);
  const run = (asked: SQL) => {
    const { prepared, params } = statement(asked);
    prepared.run(...params);
  };
  guarded(() =>
    db
      .transaction(() => {
        const number = db.prepare('UPDATE counter SET value = value + ? RETURNING value').pluck();
        const last = number.get(RESTORED.length) as number;
        for (const [nth, gap] of RESTORED.entries())
          run(openedGap(gap, error, iso(nowMs), last - RESTORED.length + 1 + nth, coverableAt));
        run(writtenFact(EPOCH_FACT, newEpoch()));
        db.prepare('DELETE FROM facts WHERE name = ?').run(COPIED_FACT);
      })
      .immediate(),
  );
  return RESTORED.map((gap) => ({ gap, what: 'opened', error, openForMs: null }));
}
