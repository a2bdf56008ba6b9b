export type InTurn = <T>(work: () => Promise<T>) => Promise<T>;

/** Runs one call after another, in order. If one fails, only its own caller is told. */
export function turns(): InTurn {
  let last: Promise<void> = Promise.resolve();
  return async (work) => {
    const mine = last.then(work);
    last = mine.then(nothing, nothing);
    // A new promise: `mine` counts as handled, so Node would not report a failure that its caller ignores.
    return await mine;
  };
}

/** Two queues for the same turns. A long queue delays each call of the other by one of its calls at most. */
export function alternatingTurns(): readonly [InTurn, InTurn] {
  const shared = turns();
  // Only the first call of a queue waits for the shared turn.
  const queue = (): InTurn => {
    const own = turns();
    return (work) => own(() => shared(work));
  };
  return [queue(), queue()];
}

const nothing = () => undefined;
