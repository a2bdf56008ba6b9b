import type { Database } from '../database.ts';
import type { GapChange } from '../store.ts';

/** The same database, whose units tell what they have done to gaps once they are committed. */
export function tellingGaps<D extends Database>(database: D, told: (change: GapChange) => void): D {
  const transact: Database['transact'] = async (work, first) => {
    // Those of the try that was committed: an earlier one has changed nothing.
    let changes: readonly GapChange[] = [];
    const result = await database.transact((unit, read) => {
      changes = unit.gapChanges;
      return work(unit, read);
    }, first);
    changes.forEach(told);
    return result;
  };
  return { ...database, transact };
}
