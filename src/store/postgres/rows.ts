import { keepJson } from './text.ts';

/**
 * Many rows as one parameter, for json_to_recordset: a batch costs a round trip whatever its size. Instants are text,
 * and what goes into a jsonb column is text as well, made by `keepJson`.
 */
export const rowsOf = (rows: readonly object[]): string => keepJson(rows);

/** In the order of their keys, in which every transaction writes them. */
export function sortedBy<T>(items: Iterable<T>, keyOf: (item: T) => string): T[] {
  return [...items]
    .map((item) => [keyOf(item), item] as const)
    .sort(byKey)
    .map(([, item]) => item);
}

const byKey = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]) =>
  a < b ? -1 : a > b ? 1 : 0;
