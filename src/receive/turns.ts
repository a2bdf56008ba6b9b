/** While connections come in one after the other, so many of them come before a turn: of what is dear, a few milliseconds. */
const ACCEPTED_BEFORE_A_TURN = 3;
const ACCEPTED_BEFORE_A_DEAR_TURN = 16;

/** Of more that wait none more is accepted first: a sender's burst is read before its connections are too many for one address. */
const MOST_WAITING = 200;

/** False: there was nothing to begin any more, and the turn is the next one's. */
export type Begin = () => unknown;

/**
 * Begins at most so many in one turn of the event loop. Those that wait go in the order of calls, but one of each network
 * at a time, so that whoever asks for hundreds at once waits for them himself. And connections come in first: libuv accepts
 * one a turn, in the order of their arrival, so that behind hundreds of new ones everybody waits as long as their turns take.
 */
export function createTurns(perTurn: number) {
  const waiting = new Map<string, Begin[]>();
  let begun = 0;
  let accepted = false;
  /** So many are accepted before the next turn. */
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
    accepted(network: string, isDear = true): void {
      accepted = (waiting.get(network)?.length ?? 0) < MOST_WAITING;
      most = isDear ? ACCEPTED_BEFORE_A_DEAR_TURN : ACCEPTED_BEFORE_A_TURN;
      ask();
    },
    begin(network: string, begin: Begin): void {
      ask();
      // Others wait although none has begun in this turn: connections came first in it, and nobody overtakes those.
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
