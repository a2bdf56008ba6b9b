import { backoffMs } from '../platform/clock.ts';

/** The verdict of the status page, as it is sent to NOTIFY_URL. */
export interface Verdict {
  verdict: string;
  /** Stable code of its reason. */
  reason: string;
  sentence: string;
  remedy: string | null;
  /** ISO 8601; null: unknown. */
  since: string | null;
}

/**
 * Milliseconds for which a verdict must last before it is sent. Each event makes the mirror catch up for the consistency window
 * and a little more: sent at once, that would call somebody every minute while all is well. Other verdicts wait for a second
 * look, so that a short failure wakes nobody.
 */
const CATCHING_UP_HOLD_MS = 60_000;
const HOLD_MS = 3_000;

const RETRY = { firstMs: 1_000, longestMs: 300_000 };

/** Times are steady milliseconds. */
export interface NotifyState {
  /** The topic last sent; null: none yet. */
  sent: string | null;
  /** The present topic, and since when. */
  topic: string | null;
  topicAt: number;
  /** Failed attempts to send the present topic, and when the next one is due. */
  failures: number;
  nextAttemptAt: number;
}

export const NOTHING_SENT = { topic: null, topicAt: 0, failures: 0, nextAttemptAt: 0 };

/** Verdicts with the same topic are sent once. If a person may have to act, the reason is part of it: each needs another action. */
export function topicOf({ verdict, reason }: Verdict): string {
  const isTrouble =
    verdict === 'action_required' ||
    verdict === 'unreachable' ||
    verdict === 'stale' ||
    reason === 'backlog_late';
  return isTrouble ? `${verdict}:${reason}` : verdict;
}

/** A start or a stop is not sent, but the verdict after it is. */
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

/** The state after an attempt to send. `chance`: in [0, 1), so that two services do not try again at the same time. */
export function attempted(state: NotifyState, isOk: boolean, now: number, chance: number): NotifyState {
  if (isOk) return { ...state, sent: state.topic };
  const failures = state.failures + 1;
  return { ...state, failures, nextAttemptAt: now + backoffMs(RETRY, failures, chance) };
}
