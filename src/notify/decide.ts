import { backoffMs } from '../platform/clock.ts';

/** What somebody outside is told: the verdict of the status page. */
export interface Verdict {
  verdict: string;
  /** Stable code of what decided it. */
  reason: string;
  sentence: string;
  remedy: string | null;
  /** ISO 8601; null where nobody can say. */
  since: string | null;
}

/**
 * How long a verdict must last before it is told. Each event makes the mirror catch up for a while, SETTLE and a
 * little more: told at once, a healthy service would call somebody every minute. Bad news waits for one more look
 * only, so that what mends itself in between wakes nobody. Milliseconds.
 */
const CATCHING_UP_HOLD_MS = 60_000;
const HOLD_MS = 3_000;

/** A refused connection is tried again soon; a receiver that is down for a day is not asked a thousand times. */
const RETRY = { firstMs: 1_000, longestMs: 300_000 };

/** What is being told, or was last. Instants by the steady clock, milliseconds. */
export interface NotifyState {
  /** The topic last told; null: nothing was, ever. */
  told: string | null;
  /** The topic now, and since when. */
  topic: string | null;
  topicAt: number;
  /** Of telling the topic now. */
  failures: number;
  nextAttemptAt: number;
}

export const NOTHING_TOLD: Omit<NotifyState, 'told'> = {
  ...{ topic: null, topicAt: 0, failures: 0, nextAttemptAt: 0 },
};

/**
 * Two verdicts of one topic are one piece of news. What somebody must act on is told by its reason, because
 * another reason asks for another act; how the mirror comes into sync is not.
 */
export function topicOf({ verdict, reason }: Verdict): string {
  const isTrouble =
    verdict === 'action_required' ||
    verdict === 'unreachable' ||
    verdict === 'stale' ||
    reason === 'backlog_late';
  return isTrouble ? `${verdict}:${reason}` : verdict;
}

/** A start or a stop is no news: what comes of it is. */
function isPassing({ reason }: Verdict): boolean {
  return reason === 'starting' || reason === 'migrating' || reason === 'draining';
}

/** Whether to tell `verdict` now. A new topic drops whatever was still being tried for the one before. */
export function look(
  state: NotifyState,
  verdict: Verdict,
  now: number,
): { state: NotifyState; tell: boolean } {
  if (isPassing(verdict)) return { state, tell: false };
  const topic = topicOf(verdict);
  const next =
    topic === state.topic ? state : { ...state, topic, topicAt: now, failures: 0, nextAttemptAt: 0 };
  const holdMs = topic === 'catching_up' ? CATCHING_UP_HOLD_MS : HOLD_MS;
  const tell = topic !== state.told && now - next.topicAt >= holdMs && now >= next.nextAttemptAt;
  return { state: next, tell };
}

/** After an attempt. `chance` in [0, 1): two services whose receiver comes back do not call it at once. */
export function attempted(state: NotifyState, isOk: boolean, now: number, chance: number): NotifyState {
  if (isOk) return { ...state, told: state.topic, failures: 0, nextAttemptAt: 0 };
  const failures = state.failures + 1;
  return { ...state, failures, nextAttemptAt: now + backoffMs(RETRY, failures, chance) };
}
