import { backoffMs } from '../platform/clock.ts';

/** What NOTIFY_URL receives: the verdict of the status page. */
export interface Verdict {
  verdict: string;
  /** Stable code of what decided it. */
  reason: string;
  sentence: string;
  remedy: string | null;
  /** ISO 8601; null: unknown. */
  since: string | null;
}

/**
 * How long a verdict must last before it is sent. Each event makes the mirror catch up for a while, the consistency window
 * and a little more: sent at once, a healthy service would call somebody every minute. Bad news waits for one more look,
 * so that a short failure wakes nobody. Milliseconds.
 */
const CATCHING_UP_HOLD_MS = 60_000;
const HOLD_MS = 3_000;

/** A refused connection is tried again soon; a receiver that is down for a day is not asked a thousand times. */
const RETRY = { firstMs: 1_000, longestMs: 300_000 };

/** The topic being sent, or sent last. Instants by the steady clock, milliseconds. */
export interface NotifyState {
  /** The topic last sent; null: none yet. */
  sent: string | null;
  /** The topic now, and since when. */
  topic: string | null;
  topicAt: number;
  /** Failed attempts to send the present topic, and when the next one is due. */
  failures: number;
  nextAttemptAt: number;
}

export const NOTHING_SENT = { topic: null, topicAt: 0, failures: 0, nextAttemptAt: 0 };

/**
 * Verdicts of one topic are one piece of news. Where a person must act, the reason is part of the topic, because another
 * reason needs another action.
 */
export function topicOf({ verdict, reason }: Verdict): string {
  const isTrouble =
    verdict === 'action_required' ||
    verdict === 'unreachable' ||
    verdict === 'stale' ||
    reason === 'backlog_late';
  return isTrouble ? `${verdict}:${reason}` : verdict;
}

/** A start or a stop is not sent. The verdict after it is. */
function isPassing({ reason }: Verdict): boolean {
  return reason === 'starting' || reason === 'migrating' || reason === 'draining';
}

/** Whether to send `verdict` now. A new topic replaces one that is still being retried. */
export function look(
  state: NotifyState,
  verdict: Verdict,
  now: number,
): { state: NotifyState; isDue: boolean } {
  if (isPassing(verdict)) return { state, isDue: false };
  const topic = topicOf(verdict);
  const next =
    topic === state.topic ? state : { ...state, topic, topicAt: now, failures: 0, nextAttemptAt: 0 };
  const holdMs = topic === 'catching_up' ? CATCHING_UP_HOLD_MS : HOLD_MS;
  const isDue = topic !== state.sent && now - next.topicAt >= holdMs && now >= next.nextAttemptAt;
  return { state: next, isDue };
}

/** After an attempt. `chance` in [0, 1): two services whose receiver comes back do not call it at once. */
export function attempted(state: NotifyState, isOk: boolean, now: number, chance: number): NotifyState {
  if (isOk) return { ...state, sent: state.topic, failures: 0, nextAttemptAt: 0 };
  const failures = state.failures + 1;
  return { ...state, failures, nextAttemptAt: now + backoffMs(RETRY, failures, chance) };
}
