import { pointersSettingOf } from '../compliance/pointers.ts';
import type { KindStatus, OpenGaps, StoreSummary, VerdictName } from '../store/reports.ts';
import type { PendingCount } from './api/schemas.ts';
import type { LiveFacts } from './context.ts';
import { gapText, isEndedByPerson, isUnreadable, oldestOf } from './gap-texts.ts';
import { age, count, kindNoun, kindPlural } from './words.ts';

/** The rules of the verdict; `judge.ts` has their order. All are pure. */

/** Longer than the time between two heartbeats, so that one failed heartbeat, as during a failover, raises no alarm. */
const UNWRITABLE_BLOCKS_MS = 6_000;

/** A full sync is overdue after twice the interval and the length of one. */
const FULL_SYNC_LATENESS_FACTOR = 2;
const FULL_SYNC_LENGTH_MS = 10 * 60_000;

/** A read is due six times SETTLE after a dirty mark at the latest; this is far more, with room for a small budget. */
const UNVERIFIED_SETTLES = 20;
const UNVERIFIED_FLOOR_MS = 30 * 60_000;

/** Events are processed within a second or two. Late: as for the alert BacklogGrowing. Overdue: longer than any burst takes. */
const BACKLOG_LATE_MS = 30_000;
const BACKLOG_OVERDUE_MS = 5 * 60_000;

/** A service that started less than this ago may not have written its first heartbeat. */
const FIRST_BEAT_MS = 60_000;

const LIST = new Intl.ListFormat('en-GB');

export interface Verdict {
  verdict: VerdictName;
  /** Stable code of the rule that decided. */
  reason: string;
  /** One sentence in plain words. */
  sentence: string;
  /** What to do; null when there is nothing to do. */
  remedy: string | null;
  /** The one button that may end it. Without an API the page has none for `sync`. */
  action: 'resume' | 'sync' | 'approve' | 'retry' | 'resolve' | null;
  /** ISO 8601; null: not known. */
  since: string | null;
}

export interface VerdictInput {
  /** Null: the database could not be read. */
  summary: StoreSummary | null;
  pending: readonly PendingCount[];
  live: LiveFacts;
  /** Wall-clock milliseconds. */
  now: number;
}

/** `gaps`: all that are open. */
type Facts = VerdictInput & { summary: StoreSummary; gaps: readonly OpenGaps[] };

/** What a rule says about the verdict. Absent fields are null there. */
export interface Finding {
  sentence: string;
  remedy?: string | null;
  action?: Verdict['action'];
  /** Wall-clock milliseconds, or ISO 8601. */
  since?: number | string | null;
}

/** False: the rule does not apply. `reason`: the code beside the rule in `judge.ts`. */
export type Rule = (facts: Facts, reason: string) => Finding | false;

export const sumOf = (counted: readonly { count: number }[]) =>
  counted.reduce((sum, { count }) => sum + count, 0);

/** `otherwise`: what to look at when no error is known. */
export const databaseRemedy = ({ databaseError }: LiveFacts, otherwise: string) =>
  `${databaseError ?? otherwise} Deliveries are answered 503, so that the sender tries again.`;

export const unwritable: Rule = ({ live, now }) =>
  live.unwritableSince !== null &&
  now - live.unwritableSince >= UNWRITABLE_BLOCKS_MS && {
    sentence: 'The database takes no writes, so nothing that is delivered can be kept.',
    remedy: databaseRemedy(
      live,
      'See whether its disk is full, whether another program holds it, or whether its server is read-only; the log has its answer.',
    ),
    since: live.unwritableSince,
  };

export const noSigningSecret: Rule = ({ live }) =>
  // A command does not know the secrets of registrations.
  live.state !== 'elsewhere' &&
  live.secrets.length === 0 && {
    sentence: 'No signing secret is known, so every delivery is rejected.',
    remedy:
      'Set WEBHOOK_SECRETS and restart, or register the webhook (“register --url …”). If it is registered, “registrations list” says whether its secret verifies; if it does, restart: the service was started without CREDENTIALS_KEY.',
  };

export const paused: Rule = ({ summary, live: { pausedSince: since } }) =>
  since !== null && {
    sentence: `The mirror is paused; ${count(summary.events.pending, 'event waits', 'events wait')}.`,
    remedy:
      'Deliveries are still received and kept. The audit says who paused it. Resume when the reason for the pause is over.',
    action: 'resume',
    since,
  };

interface GapRule {
  /** Which gaps with the reason count; default: all. */
  only?(gap: OpenGaps, facts: Facts): boolean;
  /** Default: the gap's own. */
  remedy?: string;
  action?: Verdict['action'];
}

/** A rule that applies while a gap with its reason is open. */
const openGap =
  (
    sentence: (facts: Facts, open: readonly OpenGaps[]) => string,
    { only = () => true, remedy, action = null }: GapRule = {},
  ): Rule =>
  (facts, reason) => {
    const open = facts.gaps.filter((gap) => gap.reason === reason && only(gap, facts));
    const since = oldestOf(open);
    return (
      since !== null && {
        sentence: sentence(facts, open),
        remedy: remedy ?? gapText(reason).remedy,
        action,
        since,
      }
    );
  };

export const noUsableToken = openGap(
  () => 'There is no token for the compliance service that can be used, so nothing can be verified.',
  {
    only: (_, { live }) => live.lacksCredentials,
    remedy:
      'If the error of the gap names CREDENTIALS_KEY, set it to the key of the stored tokens, which after “credentials rotate-key” is the new one. Otherwise a person signs in: compliance-mirror login.',
  },
);

/** Credentials that may read some kinds only are rejected for the others. */
export const credentialsRejected = openGap(({ summary: { kinds } }, open) => {
  const rejected = kinds.filter(({ kind }) => open.some((gap) => (gap.kind ?? kind) === kind));
  return rejected.length === kinds.length
    ? 'The compliance service rejects our credentials, so nothing can be verified.'
    : `The compliance service rejects our credentials for the ${namesOf(rejected)}, which cannot be verified.`;
});

export const deletionPending: Rule = ({ gaps, pending }, reason) => {
  const waiting = sumOf(pending);
  return (
    waiting > 0 && {
      sentence: `${count(waiting, 'deletion waits', 'deletions wait')} for your approval.`,
      remedy: gapText(reason).remedy,
      action: 'approve',
      since: oldestOf(gaps.filter((gap) => gap.reason === reason)),
    }
  );
};

export const unreadableAnswer = openGap(() => 'Answers of the compliance service could not be understood.');

export const deletionsUnproven = openGap(
  () => 'Some records may be gone upstream, and that could not be proven.',
  { action: 'sync' },
);

export const noRecordId = openGap(
  () => 'Events do not say which risk assessment they are about, so some may be missing here.',
  {
    only: (gap) => gap.kind === 'risk_assessment',
    remedy: `The id stands where ${pointersSettingOf('risk_assessment')} does not look: the error of the gap and the body of such an event show where. Set it, restart, and retry the events; or discard them. If the error names the quarantine, release the delivery there.`,
    action: 'retry',
  },
);

export const restored = openGap(
  ({ live }) =>
    `A copy of the database was put back, so ${live.eventsOnly ? 'records' : 'risk assessments'} may be missing here.`,
  { only: (gap, { live }) => isEndedByPerson(gap, live.eventsOnly), action: 'resolve' },
);

export const blockedKind: Rule = ({ summary }) => {
  const blocked = summary.kinds.find(({ verdict }) => verdict === 'action_required');
  return (
    blocked !== undefined && {
      sentence: `The ${kindPlural(blocked.kind)} cannot be brought into sync without you.`,
      remedy: 'The open gaps say what is in the way.',
    }
  );
};

/** The minute is rounded up, and so does not change with each look. */
function askedAgain({ waits_until: until }: LiveFacts['upstream']): string {
  if (until === null) return 'It is asked again automatically';
  const minute = new Date(Math.ceil(Date.parse(until) / 60_000) * 60_000).toISOString().slice(11, 16);
  return `It asked us to wait, so it is asked again at ${minute} UTC`;
}

/** Not known after a start during such a wait. */
const aboutError = ({ last_error: error }: LiveFacts['upstream']) =>
  error === null ? '' : ` about the last error: ${error}`;

export const unreachable: Rule = ({ live: { unreachableSince: since, upstream } }) =>
  since !== null && {
    sentence: 'The compliance service gives no usable answer, so nothing can be verified.',
    remedy: `${askedAgain(upstream)}, and deliveries are still received. If it lasts, “doctor” says what to do${aboutError(upstream)}.`,
    since,
  };

export const fullSyncOverdue: Rule = ({ summary, live, now }) => {
  if (live.eventsOnly || live.fullSyncMs === 0) return false;
  const longestMs = FULL_SYNC_LATENESS_FACTOR * live.fullSyncMs + FULL_SYNC_LENGTH_MS;
  const overdue = summary.kinds.find(({ last_full_sync_at: last, verdict }) =>
    last === null
      ? // The view says when a first full sync is overdue.
        verdict === 'stale' && now - live.startedAt > FIRST_BEAT_MS
      : now - Date.parse(last) > longestMs,
  );
  if (overdue === undefined) return false;
  const { kind, last_full_sync_at: since } = overdue;
  const compared =
    since === null
      ? 'have never been compared in full'
      : `were last compared in full ${age(now - Date.parse(since))} ago`;
  return {
    sentence: `The ${kindPlural(kind)} ${compared}.`,
    remedy: 'Sync runs fail or take too long. Look at the last ones, then run a full sync.',
    action: 'sync',
    since,
  };
};

export const verificationOverdue: Rule = ({ summary, gaps, live, now }) => {
  if (live.eventsOnly) return false;
  const longestMs = Math.max(UNVERIFIED_FLOOR_MS, UNVERIFIED_SETTLES * live.settleMs);
  const overdue = summary.kinds.find(
    ({ kind, unverified, oldest_unverified_at: oldest }) =>
      unverified > 0 &&
      oldest !== null &&
      now - Date.parse(oldest) > longestMs &&
      // The oldest one may be a record that no read can verify, and then says nothing about the others.
      !gaps.some((gap) => gap.kind === kind && isUnreadable(gap)),
  );
  if (overdue === undefined) return false;
  const { kind, unverified, oldest_unverified_at: since } = overdue;
  const records = count(unverified, `${kindNoun(kind, 1)} has`, `${kindPlural(kind)} have`);
  return {
    sentence: `${records} been unverified for up to ${age(now - Date.parse(since!))}.`,
    remedy:
      'Repairs do not keep up. Look at the compliance service and its request budget, then run a full sync.',
    action: 'sync',
    since,
  };
};

/** `longestMs`: how long the oldest pending event may have waited. */
const slowBacklog =
  (longestMs: number, remedy: string): Rule =>
  ({ summary: { events, oldest_pending_at: since }, now }) => {
    const waitedMs = since === null ? 0 : now - Date.parse(since);
    const waiting = count(events.pending, 'event waits', 'events wait');
    return (
      waitedMs > longestMs && { sentence: `${waiting}, the oldest for ${age(waitedMs)}.`, remedy, since }
    );
  };

export const backlogOverdue = slowBacklog(
  BACKLOG_OVERDUE_MS,
  'Processing does not keep up. Look at the errors of the pending events and at the log.',
);

export const backlogLate = slowBacklog(
  BACKLOG_LATE_MS,
  'They are processed as they come in; if their number does not fall, look at their errors and at the log.',
);

/** Strangers can open such a gap at any time. A delivery that came in since shows that the sender's secret is known. */
export const rejectedSignatures = openGap(
  () => 'Deliveries are rejected for their signature, so the mirror does not hear of changes.',
  {
    only: (gap, { summary: { last_delivery_at: last }, live }) =>
      last === null || Date.parse(last) <= Date.parse(gap.oldest_at) || live.rejectsSignatures,
    action: 'sync',
  },
);

/** Only the sender can sign such deliveries. Old ones that a stranger repeats count until the next delivery in time, or for a while. */
export const rejectedTimestamp: Rule = ({ live: { untimelySince: since } }, reason) =>
  since !== null && {
    sentence: 'Deliveries are rejected for their time, so the mirror does not hear of changes.',
    remedy: gapText(reason).remedy,
    action: 'sync',
    since,
  };

export const silence: Rule = ({ summary: { last_delivery_at: since }, gaps, live, now }, reason) => {
  const quietSince = since === null ? live.startedAt : Math.max(Date.parse(since), live.startedAt);
  const isQuiet = live.silenceMs > 0 && now - quietSince > live.silenceMs;
  if (!isQuiet && !gaps.some((gap) => gap.reason === reason)) return false;
  return {
    sentence:
      since === null
        ? 'No delivery has ever arrived.'
        : `No delivery has arrived for ${age(now - Date.parse(since))}.`,
    remedy: gapText(reason).remedy,
    action: 'sync',
    since,
  };
};

/** No full sync is overdue. If the view says stale all the same, the heartbeat is missing. */
export const heartbeatMissed: Rule = ({ summary, live, now }) =>
  summary.kinds.some(({ verdict }) => verdict === 'stale') &&
  now - live.startedAt > FIRST_BEAT_MS && {
    sentence: 'The service has stopped writing its heartbeat.',
    remedy: 'Look at its log, then restart it. Nothing that was acknowledged is lost.',
  };

export const eventsOnly: Rule = ({ live, summary: { events } }) => {
  const left = events.pending === 0 ? '' : `; ${count(events.pending, 'event')} still to do`;
  return (
    live.eventsOnly && {
      sentence: `The mirror shows what the deliveries said, and cannot check it${left}.`,
      remedy:
        'Set COMPLIANCE_BASE_URL and COMPLIANCE_API_KEY, and restart, to have every record verified and lost deliveries repaired.',
      since: live.startedAt,
    }
  );
};

export const starting: Rule = ({ live }, reason) =>
  live.state === reason && { sentence: 'The service is starting.', since: live.startedAt };

export const draining: Rule = ({ live }) =>
  live.state === 'draining' && { sentence: 'The service is finishing what it holds, and stops.' };

const namesOf = (kinds: readonly KindStatus[]) => LIST.format(kinds.map(({ kind }) => kindPlural(kind)));

/** The oldest gap that keeps one of `kinds` from being in sync. */
function firstGap(gaps: readonly OpenGaps[], kinds: readonly KindStatus[]): OpenGaps | undefined {
  return gaps
    .filter((gap) => (gap.kind === null || kinds.some(({ kind }) => kind === gap.kind)) && !isUnreadable(gap))
    .sort((a, b) => Date.parse(a.oldest_at) - Date.parse(b.oldest_at))[0];
}

const causeText = (cause: OpenGaps | undefined): string | null =>
  cause === undefined ? null : `${gapText(cause.reason).title}. ${gapText(cause.reason).remedy}`;

/** Null: it answers. */
const upstreamNote = ({ live: { upstream } }: Facts): string | null =>
  upstream.ok === false
    ? `The compliance service gives no usable answer right now. ${askedAgain(upstream)}.`
    : null;

export const firstFullSync: Rule = ({ summary, gaps, live }) => {
  const unsynced = summary.kinds.filter((kind) => kind.last_full_sync_at === null);
  if (unsynced.length === 0) return false;
  const isRunning = live.runningSyncRuns.length > 0;
  const why =
    causeText(firstGap(gaps, unsynced)) ??
    'It starts automatically; the last full syncs say what kept it from finishing.';
  return {
    sentence: `The first full sync of the ${namesOf(unsynced)} ${isRunning ? 'is under way' : 'is not finished yet'}.`,
    remedy: isRunning ? null : why,
    since: live.startedAt,
  };
};

export const nothingRead: Rule = (facts) => {
  const unread = facts.summary.kinds.filter((kind) => kind.readable_since === null);
  return (
    unread.length > 0 && {
      sentence: `The ${namesOf(unread)} have not been read with the present credentials yet.`,
      remedy:
        upstreamNote(facts) ??
        'They are asked for automatically. If this lasts, the last full syncs and “doctor” say what came of it.',
      since: facts.live.startedAt,
    }
  );
};

export const backlog: Rule = (facts) => {
  const { events, oldest_pending_at: since } = facts.summary;
  const sentence = `The mirror is processing ${count(events.pending, 'event')}.`;
  return events.pending > 0 && { sentence, remedy: upstreamNote(facts), since };
};

export const verifying: Rule = (facts) => {
  const { kinds } = facts.summary;
  const unverified = kinds.reduce((sum, kind) => sum + kind.unverified, 0);
  const instants = kinds.map((kind) => kind.oldest_unverified_at).filter((at) => at !== null);
  return (
    unverified > 0 && {
      sentence: `${count(unverified, 'record is', 'records are')} being checked against the compliance service.`,
      remedy: upstreamNote(facts),
      since: instants.sort()[0] ?? null,
    }
  );
};

/** With a deletion that is not approved, the verdict is `deletion_pending`. */
const ALL_APPROVED = 'The deletions are approved. A full sync proves them once more, and then they are made.';

export const gapsOpen: Rule = (facts) => {
  const behind = facts.summary.kinds.find((kind) => kind.verdict === 'catching_up');
  if (behind === undefined) return false;
  const cause = firstGap(facts.gaps, [behind]);
  return {
    sentence: `The ${kindPlural(behind.kind)} are being brought into sync.`,
    remedy: upstreamNote(facts) ?? (cause?.reason === 'deletion_pending' ? ALL_APPROVED : causeText(cause)),
    since: cause?.oldest_at ?? null,
  };
};

/** When the last kind came into sync. */
function inSyncSince({ kinds }: StoreSummary): string | null {
  const instants = kinds.map((kind) => kind.in_sync_since);
  return instants.includes(null) ? null : (instants.sort().at(-1) ?? null);
}

export const inSyncButUnresolved: Rule = ({ summary, gaps }) => {
  const unreadable = sumOf(gaps.filter(isUnreadable));
  const sentence = `The mirror is in sync with all that the compliance service shows; it does not show ${count(unreadable, 'record')} that events or people named.`;
  return unreadable > 0 && { sentence, since: inSyncSince(summary) };
};

export const inSync = ({ summary }: Facts): Finding => ({
  sentence: 'The mirror is in sync with the compliance service.',
  since: inSyncSince(summary),
});
