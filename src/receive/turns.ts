/** While new connections wait, at most so many are accepted before a turn; more if the last turn was costly. */
const ACCEPTED_BEFORE_A_TURN = 3;
const ACCEPTED_BEFORE_A_COSTLY_TURN = 16;

/** Above so many waiting turns of one network, reading goes first, so that a sender's burst is read before it reaches the limit per address. */
const MOST_WAITING = 200;

/** Returns false if there is nothing left to begin; the turn then goes to the next. */
export type Begin = () => unknown;

/**
 * Begins at most `perTurn` tasks in one turn of the event loop, in the order of calls, but one per network at a time: a
 * client that asks for hundreds delays only itself. New connections go first: libuv accepts one per turn, so behind hundreds of them
 * everybody would wait.
 */
export function createTurns(perTurn: number) {
  const waiting = new Map<string, Begin[]>();
  let begun = 0;
  let accepted = false;
  /** Connections accepted before the next turn, at most. */
  let most = 0;
  let putOff = 0;
  let isAsked = false;

  function ask(): void {
    if (isAsked) return;
    isAsked = true;
    setImmediate(nextTurn);
  }

  function nextTurn(): void {
    isAsked = false;
    begun = 0;
    const waits = accepted && putOff < most;
    accepted = false;
    putOff = waits ? putOff + 1 : 0;
    while (!waits && begun < perTurn) {
      const [next] = waiting;
      if (next === undefined) break;
      const [network, own] = next;
      const begin = own.shift()!;
      waiting.delete(network);
      if (own.length > 0) waiting.set(network, own);
      if (begin() !== false) begun += 1;
    }
    if (waiting.size > 0 || begun > 0) ask();
  }

  return {
    accepted(network: string, isCostly = true): void {
      accepted = (waiting.get(network)?.length ?? 0) < MOST_WAITING;
      most = isCostly ? ACCEPTED_BEFORE_A_COSTLY_TURN : ACCEPTED_BEFORE_A_TURN;
      ask();
    },
    begin(network: string, begin: Begin): void {
      ask();
      // Not while others wait: tasks keep their order, also in a turn that accepted a connection.
      if (begun < perTurn && !accepted && waiting.size === 0) {
        begun += 1;
        begin();
        return;
      }
      const own = waiting.get(network);
      if (own === undefined) waiting.set(network, [begin]);
      else own.push(begin);
    },
  };
}
