import type { StoreSummary, VerdictName } from '../store/reports.ts';
import type { Finding, Rule, Verdict, VerdictInput } from './verdict.ts';
import * as rules from './verdict.ts';

/** The first rule that applies decides: the worst verdicts come first. The reasons are stable codes. */
const RULES: readonly (readonly [VerdictName, reason: string, Rule])[] = [
  // What only a person can end.
  ['action_required', 'database_unwritable', rules.unwritable],
  ['action_required', 'no_signing_secret', rules.noSigningSecret],
  ['action_required', 'paused', rules.paused],
  ['action_required', 'credentials_rejected', rules.noUsableToken],
  ['action_required', 'credentials_rejected', rules.credentialsRejected],
  ['action_required', 'deletion_pending', rules.deletionPending],
  ['action_required', 'unreadable_answer', rules.unreadableAnswer],
  ['action_required', 'deletions_unproven', rules.deletionsUnproven],
  ['action_required', 'no_record_id', rules.noRecordId],
  ['action_required', 'restored', rules.restored],
  ['action_required', 'action_required', rules.blockedKind],
  ['unreachable', 'upstream_unreachable', rules.unreachable],
  // What is out of date, or may be without anybody noticing.
  ['stale', 'full_sync_overdue', rules.fullSyncOverdue],
  ['stale', 'verification_overdue', rules.verificationOverdue],
  ['stale', 'backlog_overdue', rules.backlogOverdue],
  ['stale', 'rejected_signatures', rules.rejectedSignatures],
  ['stale', 'rejected_timestamp', rules.rejectedTimestamp],
  ['stale', 'silence', rules.silence],
  ['stale', 'heartbeat_missed', rules.heartbeatMissed],
  ['unverified', 'events_only', rules.eventsOnly],
  // What is under way.
  ['catching_up', 'starting', rules.starting],
  ['catching_up', 'migrating', rules.starting],
  ['catching_up', 'draining', rules.draining],
  ['catching_up', 'first_full_sync', rules.firstFullSync],
  ['catching_up', 'nothing_read', rules.nothingRead],
  ['catching_up', 'backlog_late', rules.backlogLate],
  ['catching_up', 'backlog', rules.backlog],
  ['catching_up', 'verifying', rules.verifying],
  ['catching_up', 'gaps_open', rules.gapsOpen],
  ['in_sync', 'in_sync_but_unresolved', rules.inSyncButUnresolved],
];

const WORST_FIRST = ['action_required', 'unreachable', 'stale', 'catching_up', 'unverified', 'in_sync'];

/** The whole service in one sentence. */
export function judge(input: VerdictInput): Verdict {
  const { summary, live } = input;
  if (live.state === 'stopped') {
    return verdictOf(worstOf(summary), 'not_running', {
      sentence: 'No service is running on this database.',
      remedy: 'Start it (“serve”). Its last log line says why it ended.',
    });
  }
  if (summary === null) {
    return verdictOf('action_required', 'database_unreadable', {
      sentence: 'The database cannot be read.',
      remedy: rules.databaseRemedy(live, 'Look at its disk or its server, and at the log.'),
    });
  }
  const found = firstOf({ ...input, summary, gaps: summary.open_gaps_by });
  return live.state === 'elsewhere' ? unasked(found, input) : found;
}

function firstOf(facts: Parameters<Rule>[0]): Verdict {
  for (const [verdict, reason, rule] of RULES) {
    const finding = rule(facts, reason);
    if (finding) return verdictOf(verdict, reason, finding);
  }
  return verdictOf('in_sync', 'in_sync', rules.inSync(facts));
}

/** A command that asked none of the services has only the tables. What it found there counts if it explains the kinds' verdicts. */
function unasked(found: Verdict, { summary, live }: VerdictInput): Verdict {
  const worst = worstOf(summary);
  // The services did not start when the command did.
  const isOwnStart = found.since !== null && Date.parse(found.since) === live.startedAt;
  if (found.verdict === worst) return { ...found, since: isOwnStart ? null : found.since };
  return verdictOf(worst, 'not_asked', {
    sentence: 'None of them was asked for the reason.',
    remedy: 'Set OPS_URL and OPS_TOKEN: then one of them is asked.',
  });
}

/** `stale` when no service writes any more. */
function worstOf(summary: StoreSummary | null): VerdictName {
  const verdicts = summary?.kinds.map(({ verdict }) => verdict) ?? [];
  const [worst = 'stale'] = verdicts.toSorted((a, b) => WORST_FIRST.indexOf(a) - WORST_FIRST.indexOf(b));
  return worst;
}

function verdictOf(
  verdict: VerdictName,
  reason: string,
  { sentence, remedy = null, action = null, since = null }: Finding,
): Verdict {
  const iso = typeof since === 'number' ? new Date(since).toISOString() : since;
  return { verdict, reason, sentence, remedy, action, since: iso };
}
