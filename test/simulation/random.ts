/**
 * Chance that can be played again. Draws are named (`latency vendor v3`, for example) and numbered per name, so that
 * taking one operation out of a plan leaves the draws of all others as they were: without that, shrinking would
 * compare unrelated histories. A name is part of the history that a seed stands for: another name, another history.
 */
export interface Chance {
  /** In [0, 1), the next draw under this name. */
  draw(name: string): number;
  /** An integer from `low` to `high`, both included. */
  between(name: string, low: number, high: number): number;
  happens(name: string, probability: number): boolean;
  pick<T>(name: string, from: readonly T[]): T;
}

export function createChance(seed: number): Chance {
  const drawn = new Map<string, number>();
  const draw = (name: string): number => {
    const count = (drawn.get(name) ?? 0) + 1;
    drawn.set(name, count);
    return hashed(name, (seed ^ Math.imul(count, 0x9e3779b1)) >>> 0) / 2 ** 32;
  };
  const between = (name: string, low: number, high: number) =>
    low + Math.floor(draw(name) * (high - low + 1));
  return {
    draw,
    between,
    happens: (name, probability) => draw(name) < probability,
    pick: (name, from) => from[between(name, 0, from.length - 1)]!,
  };
}

/** FNV-1a with the finish of MurmurHash3: small seeds and like names still give unlike numbers. */
function hashed(text: string, seed: number): number {
  let hash = Math.imul(seed ^ 0x811c9dc5, 0x85ebca6b);
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
