/** Does `value` nest more than `limit` objects and arrays, itself the first? Level by level, so that no depth ends the stack. */
export function isDeeperThan(value: unknown, limit: number): boolean {
  let level = [value].filter(isContainer);
  for (let depth = 0; level.length > 0; depth++) {
    if (depth === limit) return true;
    const next: object[] = [];
    for (const container of level) {
      for (const name in container) {
        const child = (container as Record<string, unknown>)[name];
        if (isContainer(child)) next.push(child);
      }
    }
    level = next;
  }
  return false;
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
