/** One after the other, in the order of calls; a failure is its caller's alone. */
export function turns(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<void> = Promise.resolve();
  return async (work) => {
    const mine = last.then(work);
    last = mine.then(nothing, nothing);
    // Not the promise that is waited for here: a failure that its caller leaves alone would go unnoticed.
    return await mine;
  };
}

const nothing = () => undefined;
