import { pointersSettingOf } from '../compliance/pointers.ts';
import { GAP_TEXTS } from './gap-texts.ts';
import {
  isEndedByPerson,
  oldestOf,
  openSince,
  type Verdict,
  type VerdictInput,
  verdictOf,
} from './verdict-facts.ts';
import { count, kindPlural } from './words.ts';

/** Longer than from one heartbeat to the next: one that fails alone, as while a server changes over, calls nobody. */
const UNWRITABLE_BLOCKS_MS = 6_000;

/** What only a person can mend. */
export function blocked({ summary, gaps, pending, live, now }: VerdictInput): Verdict | null {
  const say = (reason: string, sentence: string, remedy: string, rest: Partial<Verdict> = {}) =>
    verdictOf('action_required', reason, sentence, { remedy, ...rest });

  if (summary === null) {
    return say(
      'database_unreadable',
      'The database cannot be read.',
      'Look at the disk it is on and at the log. Deliveries are answered 503, so that the sender tries again.',
    );
  }
  if (live.unwritableSince !== null && now - live.unwritableSince >= UNWRITABLE_BLOCKS_MS) {
    return say(
      'database_unwritable',
      'The database takes no writes, so nothing that is delivered can be kept.',
      'See whether its disk is full, whether another program holds it, or whether its server is read-only; the log has its answer. Deliveries are answered 503, so that the sender tries again.',
      { since: new Date(live.unwritableSince).toISOString() },
    );
  }
  if (live.signingSecrets === 0) {
    return say(
      'no_signing_secret',
      'No signing secret is known, so every delivery is rejected.',
      'Set WEBHOOK_SECRETS, or register the webhook with compliance-mirror register.',
    );
  }
  if (live.paused) {
    return say(
      'paused',
      `The mirror is paused; ${count(summary.events.pending, 'event')} ${summary.events.pending === 1 ? 'waits' : 'wait'}.`,
      'Deliveries are still received and kept. Resume when whatever it was paused for is done.',
      {
        action: 'resume',
        since: live.pausedSince === null ? null : new Date(live.pausedSince).toISOString(),
      },
    );
  }
  const rejected = openSince(gaps, 'credentials_rejected');
  if (rejected !== null) {
    return say(
      'credentials_rejected',
      'The compliance service rejects our credentials, so nothing can be verified.',
      GAP_TEXTS.credentials_rejected.remedy,
      { since: rejected },
    );
  }
  const pendingCount = pending.reduce((sum, one) => sum + one.count, 0);
  if (pendingCount > 0) {
    return say(
      'deletion_pending',
      `${count(pendingCount, 'deletion')} ${pendingCount === 1 ? 'waits' : 'wait'} for your approval.`,
      GAP_TEXTS.deletion_pending.remedy,
      { action: 'approve', since: openSince(gaps, 'deletion_pending') },
    );
  }
  const unreadable = openSince(gaps, 'unreadable_answer');
  if (unreadable !== null) {
    return say(
      'unreadable_answer',
      'Answers of the compliance service could not be understood.',
      GAP_TEXTS.unreadable_answer.remedy,
      { since: unreadable },
    );
  }
  const unproven = openSince(gaps, 'deletions_unproven');
  if (unproven !== null) {
    return say(
      'deletions_unproven',
      'Some records may be gone upstream, and that could not be proven.',
      GAP_TEXTS.deletions_unproven.remedy,
      { action: 'sync', since: unproven },
    );
  }
  const unread = gaps.find((gap) => gap.reason === 'no_record_id' && gap.kind === 'risk_assessment');
  if (unread !== undefined) {
    return say(
      'no_record_id',
      'Events about risk assessments do not say which, so some may be missing here.',
      `The id stands where ${pointersSettingOf('risk_assessment')} does not look: the error of the gap and the body of such an event show where. Set it, start again, and retry them; or discard them. Of a delivery in quarantine, release it.`,
      { action: 'retry', since: unread.oldest_at },
    );
  }
  const restored = gaps.filter((gap) => isEndedByPerson(gap, live.eventsOnly));
  if (restored.length > 0) {
    return say(
      'restored',
      `A copy of the database was put back, so ${live.eventsOnly ? 'records' : 'risk assessments'} may be missing here.`,
      GAP_TEXTS.restored.remedy,
      { action: 'resolve', since: oldestOf(restored) },
    );
  }
  const kind = summary.kinds.find((one) => one.verdict === 'action_required');
  if (kind !== undefined) {
    return say(
      'action_required',
      `The ${kindPlural(kind.kind)} cannot be brought into sync without you.`,
      'The open gaps below say what is in the way.',
    );
  }
  return null;
}
