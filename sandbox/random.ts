/** Random decisions that are no secrets. */

/** At least `min`, below `max`. */
export const between = (min: number, max: number): number => min + Math.random() * (max - min);

export const chance = (probability: number): boolean => Math.random() < probability;

/** A whole number, both ends included. */
export const integer = (min: number, max: number): number => Math.floor(between(min, max + 1));

export const pick = <T>(items: readonly T[]): T | undefined => items[integer(0, items.length - 1)];

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const ID_LENGTH = 12;

/** `prefix` and twelve characters. */
export const newId = (prefix: string): string =>
  prefix + Array.from({ length: ID_LENGTH }, () => pick([...ALPHABET])).join('');
