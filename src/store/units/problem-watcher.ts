import type { Database } from '../database.ts';
import type { ProblemChange } from '../values.ts';

/** Wraps a database, so that changes of problems are reported after each commit. The first watcher also gets the earlier ones. */
export function withProblemWatcher<D extends Database>(database: D) {
  const early: ProblemChange[] = [];
  let onChange = (change: ProblemChange): void => void early.push(change);
  const transact: Database['transact'] = async (work, first, flush) => {
    // Those of the last try, since earlier tries were rolled back.
    let changes: readonly ProblemChange[] = [];
    const result = await database.transact(
      (unit, read) => {
        changes = unit.problemChanges;
        return work(unit, read);
      },
      first,
      flush,
    );
    for (const change of changes) onChange(change);
    return result;
  };
  return {
    database: { ...database, transact },
    watchProblems(next: (change: ProblemChange) => void): void {
      onChange = next;
      early.splice(0).forEach(next);
    },
  };
}
