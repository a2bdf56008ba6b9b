/** New connections that are accepted before the next turn of a task; more if the last turn was costly. */
const ACCEPTED_BEFORE_A_TURN = 3;
const ACCEPTED_BEFORE_A_COSTLY_TURN = 16;

/** If one network has more waiting tasks, they go before new connections, so that a sender's burst stays below its limit. */
const MOST_WAITING = 200;

/** Begins a task. Returns false if there is nothing left to do; then the next task begins in the same turn. */
export type Begin = () => unknown;

/**
 * Begins at most one task in a turn of the event loop, in the order of calls, but one per network at a time, so that a
 * client with hundreds of tasks delays only itself. New connections go first: libuv accepts one per turn of the event loop, so
 * with a task in each turn, everybody would wait behind hundreds of new connections.
 */
export function createTurns() {
  const waiting = new Map<string, Begin[]>();
  /** A connection was accepted since the last turn. */
  let accepted = false;
  /** How often in a row new connections may put off the tasks, and how often they have. */
  let most = 0;
  let putOff = 0;
  let isScheduled = false;

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(nextTurn);
  }

  function nextTurn(): void {
    isScheduled = false;
    const waits = accepted && putOff < most;
    accepted = false;
    putOff = waits ? putOff + 1 : 0;
    let isOver = waits;
    while (!isOver) {
      const [next] = waiting;
      if (next === undefined) break;
      const [network, own] = next;
      const begin = own.shift()!;
      waiting.delete(network);
      if (own.length > 0) waiting.set(network, own);
      isOver = begin() !== false;
    }
    if (waiting.size > 0) schedule();
  }

  return {
    accepted(network: string, isCostly = true): void {
      accepted = (waiting.get(network)?.length ?? 0) < MOST_WAITING;
      most = isCostly ? ACCEPTED_BEFORE_A_COSTLY_TURN : ACCEPTED_BEFORE_A_TURN;
    },
    begin(network: string, begin: Begin): void {
      const own = waiting.get(network);
      if (own === undefined) waiting.set(network, [begin]);
      else own.push(begin);
      schedule();
    },
  };
}
