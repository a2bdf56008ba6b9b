import { hash } from 'node:crypto';

/** Makes every random decision but secrets, so that one seed number always gives the same sequence of events. */
export interface Random {
  /** At least 0, below 1. */
  next(): number;
  /** Draws even if the probability is 0 or 1, so that switching a fault does not change later draws. */
  chance(probability: number): boolean;
  between(min: number, max: number): number;
  /** A whole number, both ends included. */
  integer(min: number, max: number): number;
  pick<T>(items: readonly T[]): T | undefined;
  /** `prefix` and twelve characters. */
  id(prefix: string): string;
  /** A separate generator, so that the draws of one part do not change those of another. */
  fork(label: string): Random;
}

const ID_ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const ID_LENGTH = 12;

export function seededRandom(seed: number | string): Random {
  const digest = hash('sha256', String(seed), 'buffer');
  const words = new Uint32Array([0, 4, 8, 12].map((offset) => digest.readUInt32LE(offset)));

  // Marsaglia's xorshift with 128 bits of state. It is good enough for faults, and the same on every machine.
  const word = (): number => {
    let mixed = words[3]!;
    mixed ^= mixed << 11;
    mixed ^= mixed >>> 8;
    words[3] = words[2]!;
    words[2] = words[1]!;
    words[1] = words[0]!;
    words[0] = mixed ^ words[0]! ^ (words[0]! >>> 19);
    return words[0]!;
  };

  const random: Random = {
    next: () => word() / 2 ** 32,
    chance: (probability) => random.next() < probability,
    between: (min, max) => min + random.next() * (max - min),
    integer: (min, max) => min + Math.floor(random.next() * (max - min + 1)),
    pick: (items) => items[random.integer(0, items.length - 1)],
    id: (prefix) => prefix + Array.from({ length: ID_LENGTH }, () => random.pick([...ID_ALPHABET])).join(''),
    fork: (label) => seededRandom(`${seed}/${label}`),
  };
  return random;
}
