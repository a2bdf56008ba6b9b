import { setImmediate as nextTurn } from 'node:timers/promises';

/** Work that can be stopped between any two of its steps, each of which takes a few milliseconds at most. */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/** For how long the event loop may be held at a time: a delivery that arrives meanwhile waits as long. */
const SLICE_MS = 5;

/** For a process that has nothing else to do. */
export function allAtOnce<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** The same beside deliveries and probes: after each slice, whatever has arrived meanwhile goes first. */
export async function inSlices<Result>(steps: Steps<Result>): Promise<Result> {
  for (;;) {
    const until = performance.now() + SLICE_MS;
    do {
      const step = steps.next();
      if (step.done) return step.value;
    } while (performance.now() < until);
    await nextTurn();
  }
}
