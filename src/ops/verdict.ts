import { pointersSettingOf } from '../compliance/pointers.ts';
import type { OpenGaps, StoreSummary, VerdictName } from '../store/reports.ts';
import type { GapReason } from '../store/store.ts';
import type { PendingCount } from './api/schemas.ts';
import type { LiveFacts } from './context.ts';
import { GAP_TEXTS, isEndedByPerson, oldestOf } from './gap-texts.ts';
import { count, kindPlural } from './words.ts';

/** More than the time between two heartbeats: a single failed one, as while a database server fails over, raises no alarm. */
const UNWRITABLE_BLOCKS_MS = 6_000;

export interface Verdict {
  verdict: VerdictName;
  /** Stable code of the rule that decided. */
  reason: string;
  /** One sentence in plain words. */
  sentence: string;
  /** What to do; null when there is nothing to do. */
  remedy: string | null;
  /** The one button that may end it. */
  action: 'resume' | 'sync' | 'approve' | 'retry' | 'resolve' | null;
  /** ISO 8601; null: not known. */
  since: string | null;
}

export interface VerdictInput {
  /** Null: the database could not be read. */
  summary: StoreSummary | null;
  /** All that are open. */
  gaps: readonly OpenGaps[];
  pending: readonly PendingCount[];
  live: LiveFacts;
  /** Wall-clock milliseconds. */
  now: number;
}

export type Facts = VerdictInput & { summary: StoreSummary };

export interface Rest {
  remedy?: string | null;
  action?: Verdict['action'] | undefined;
  /** Wall-clock milliseconds, or ISO 8601. */
  since?: number | string | null | undefined;
}

export function say(
  verdict: VerdictName,
  reason: string,
  sentence: string,
  { remedy = null, action = null, since = null }: Rest,
): Verdict {
  const iso = typeof since === 'number' ? new Date(since).toISOString() : since;
  return { verdict, reason, sentence, remedy, action, since: iso };
}

/** What only a person can mend. */
export function blocked(facts: Facts): Verdict | null {
  return serviceBlocked(facts) ?? blockedByGap(facts) ?? blockedKind(facts);
}

function serviceBlocked({ summary, live, now }: Facts): Verdict | null {
  if (live.unwritableSince !== null && now - live.unwritableSince >= UNWRITABLE_BLOCKS_MS) {
    const sentence = 'The database takes no writes, so nothing that is delivered can be kept.';
    return say('action_required', 'database_unwritable', sentence, {
      remedy:
        'See whether its disk is full, whether another program holds it, or whether its server is read-only; the log has its answer. Deliveries are answered 503, so that the sender tries again.',
      since: live.unwritableSince,
    });
  }
  if (live.signingSecrets === 0) {
    const sentence = 'No signing secret is known, so every delivery is rejected.';
    return say('action_required', 'no_signing_secret', sentence, {
      remedy: 'Set WEBHOOK_SECRETS, or register the webhook with compliance-mirror register.',
    });
  }
  if (live.paused) {
    const waiting = count(summary.events.pending, 'event waits', 'events wait');
    return say('action_required', 'paused', `The mirror is paused; ${waiting}.`, {
      remedy: 'Deliveries are still received and kept. Resume when whatever it was paused for is done.',
      action: 'resume',
      since: live.pausedSince,
    });
  }
  return null;
}

export const sumOf = (counted: readonly { count: number }[]) =>
  counted.reduce((sum, { count }) => sum + count, 0);

interface GapRule {
  reason: GapReason;
  /** Default: whether such a gap is open. */
  holds?(facts: Facts): boolean;
  /** Which gaps of the reason count; default: all. */
  only?(gap: OpenGaps, facts: Facts): boolean;
  sentence(facts: Facts): string;
  /** Default: the gap's own. */
  remedy?: string;
  action?: Verdict['action'];
}

const BLOCKING_GAPS: readonly GapRule[] = [
  {
    reason: 'credentials_rejected',
    sentence: () => 'The compliance service rejects our credentials, so nothing can be verified.',
  },
  {
    reason: 'deletion_pending',
    holds: ({ pending }) => sumOf(pending) > 0,
    sentence: ({ pending }) =>
      `${count(sumOf(pending), 'deletion waits', 'deletions wait')} for your approval.`,
    action: 'approve',
  },
  {
    reason: 'unreadable_answer',
    sentence: () => 'Answers of the compliance service could not be understood.',
  },
  {
    reason: 'deletions_unproven',
    sentence: () => 'Some records may be gone upstream, and that could not be proven.',
    action: 'sync',
  },
  {
    reason: 'no_record_id',
    only: (gap) => gap.kind === 'risk_assessment',
    sentence: () => 'Events about risk assessments do not say which, so some may be missing here.',
    remedy: `The id stands where ${pointersSettingOf('risk_assessment')} does not look: the error of the gap and the body of such an event show where. Set it, start again, and retry them; or discard them. Of a delivery in quarantine, release it.`,
    action: 'retry',
  },
  {
    reason: 'restored',
    only: (gap, { live }) => isEndedByPerson(gap, live.eventsOnly),
    sentence: ({ live }) =>
      `A copy of the database was put back, so ${live.eventsOnly ? 'records' : 'risk assessments'} may be missing here.`,
    action: 'resolve',
  },
];

function blockedByGap(facts: Facts): Verdict | null {
  for (const { reason, sentence, only = () => true, ...rule } of BLOCKING_GAPS) {
    const open = facts.gaps.filter((gap) => gap.reason === reason && only(gap, facts));
    if (rule.holds?.(facts) ?? open.length > 0) {
      const { remedy = GAP_TEXTS[reason].remedy, action } = rule;
      return say('action_required', reason, sentence(facts), { remedy, action, since: oldestOf(open) });
    }
  }
  return null;
}

function blockedKind({ summary }: Facts): Verdict | null {
  const kind = summary.kinds.find(({ verdict }) => verdict === 'action_required')?.kind;
  if (kind === undefined) return null;
  const sentence = `The ${kindPlural(kind)} cannot be brought into sync without you.`;
  return say('action_required', 'action_required', sentence, {
    remedy: 'The open gaps below say what is in the way.',
  });
}
