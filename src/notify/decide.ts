import { backoffMs } from '../platform/clock.ts';

/** A problem, as the API has it. */
export interface Problem {
  id: number;
  kind: string | null;
  record_id: string | null;
  reason: string;
  verdict: string;
  needs: 'you' | 'time';
  /** ISO 8601. */
  opened_at: string;
  resolved_at: string | null;
  error: string | null;
  sentence: string;
  action: string;
}

/** Of the problem that is about the database itself, which has no row. */
export const DATABASE_ID = 0;

/** What a problem that ends by itself must have been open for, so that a short one wakes nobody. Milliseconds. */
const TIME_MS = 10_000;

export interface News {
  what: 'opened' | 'resolved';
  id: number;
}

/**
 * `open`: the worst first; where there are very many, not all. `told`: whose opening was told, and whose end was not. While the database
 * is a problem, nothing is known of the others. Pure.
 */
export function newsOf(open: readonly Problem[], told: ReadonlySet<number>, wall: number): News[] {
  const isDue = ({ id, needs, opened_at }: Problem) =>
    !told.has(id) && (needs === 'you' || wall - Date.parse(opened_at) >= TIME_MS);
  const isBlind = open.some(({ id }) => id === DATABASE_ID);
  const gone = isBlind ? [] : [...told].filter((id) => !open.some((problem) => problem.id === id));
  return [
    ...open.filter(isDue).map(({ id }): News => ({ what: 'opened', id })),
    ...gone.map((id): News => ({ what: 'resolved', id })),
  ];
}

const RETRY = { firstMs: 1_000, longestMs: 300_000 };
/** About a day. */
const ATTEMPTS = 300;

/** Failed attempts to send one piece of news, and when the next one is due (steady milliseconds). */
export interface Tries {
  failures: number;
  nextAt: number;
}

/** After a failed attempt; null: it is given up. `chance`: in [0, 1), so that two services do not try again at the same time. */
export function triedAgain(before: Tries | undefined, steady: number, chance: number): Tries | null {
  const failures = (before?.failures ?? 0) + 1;
  return failures >= ATTEMPTS ? null : { failures, nextAt: steady + backoffMs(RETRY, failures, chance) };
}
