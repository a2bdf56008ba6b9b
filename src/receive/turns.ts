/**
 * Begins few tasks in a turn of the event loop, in the order of calls. Node accepts one connection a turn: where hundreds of tasks
 * begin in each, everybody waits behind all of them for each connection that comes before his own.
 */
export function createTurns(tasksATurn: number): (begin: () => void) => void {
  const waiting: (() => void)[] = [];
  function nextTurn(): void {
    for (const begin of waiting.splice(0, tasksATurn)) begin();
    if (waiting.length > 0) setImmediate(nextTurn);
  }
  return (begin) => {
    if (waiting.push(begin) === 1) setImmediate(nextTurn);
  };
}
