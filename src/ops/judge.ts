import type { KindStatus, OpenGaps, StoreSummary } from '../store/reports.ts';
import { GAP_TEXTS, gapText, isUnreadable, oldestOf } from './gap-texts.ts';
import { blocked, type Facts, type Rest, say, sumOf, type Verdict, type VerdictInput } from './verdict.ts';
import { age, count, kindNoun, kindPlural } from './words.ts';

/** After twice the interval a full sync was missed altogether; the rest is the time that one may take. */
const FULL_SYNC_LATENESS_FACTOR = 2;
const FULL_SYNC_LENGTH_MS = 10 * 60_000;

/** A read is due six times SETTLE after a dirty mark at the latest; this is far more, with room for a small budget. */
const UNVERIFIED_SETTLES = 20;
const UNVERIFIED_FLOOR_MS = 30 * 60_000;

/** Events are processed within a second or two. Late: longer than the alert BacklogGrowing allows; overdue: no burst takes so long. */
const BACKLOG_LATE_MS = 30_000;
const BACKLOG_OVERDUE_MS = 5 * 60_000;

/** Heartbeats are more frequent than this: a service that started more recently may not have written one. */
const FIRST_BEAT_MS = 60_000;

const WORST_FIRST = [
  'action_required',
  'unreachable',
  'stale',
  'catching_up',
  'unverified',
  'in_sync',
] as const;

const LIST = new Intl.ListFormat('en-GB');

/**
 * The whole service in one sentence. The first rule that is true decides, the worst first: what only a person
 * can mend, then what is out of date, then what is under way.
 */
export function judge(input: VerdictInput): Verdict {
  const { summary, live } = input;
  if (live.state === 'stopped' || live.state === 'elsewhere') return unasked(live.state, summary);
  if (summary === null) {
    return say('action_required', 'database_unreadable', 'The database cannot be read.', {
      remedy:
        'Look at the disk it is on and at the log. Deliveries are answered 503, so that the sender tries again.',
    });
  }
  const facts = { ...input, summary };
  return (
    blocked(facts) ??
    unreachable(facts) ??
    stale(facts) ??
    eventsOnly(facts) ??
    catchingUp(facts) ??
    inSync(facts)
  );
}

/** From the tables alone: the verdict of each kind in them includes whether a service still writes. */
function unasked(state: 'stopped' | 'elsewhere', summary: StoreSummary | null): Verdict {
  const verdicts = summary?.kinds.map(({ verdict }) => verdict) ?? [];
  const worst = WORST_FIRST.find((verdict) => verdicts.includes(verdict)) ?? 'stale';
  return state === 'stopped'
    ? say(worst, 'not_running', 'No service is running on this database.', {})
    : say(worst, 'not_asked', 'Services run on this database, and none of them was asked.', {});
}

function unreachable({ live, now }: Facts): Verdict | null {
  const { unreachableSince, upstream } = live;
  if (!upstream.configured || unreachableSince === null || live.state !== 'running') return null;
  const sentence = `The compliance service has given no usable answer for ${age(now - unreachableSince)}, so nothing can be verified.`;
  return say('unreachable', 'upstream_unreachable', sentence, {
    remedy: `Last error: ${upstream.last_error ?? 'not known'}. It is asked again by itself, and deliveries are still received. Look at its status page, the network between, and COMPLIANCE_BASE_URL.`,
    since: unreachableSince,
  });
}

/** What is out of date, or may be without anybody noticing. */
function stale(facts: Facts): Verdict | null {
  const { summary, gaps, live, now } = facts;
  const action = live.eventsOnly ? null : 'sync';
  const stopped = live.eventsOnly ? null : recordsStale(facts);
  if (stopped !== null) return stopped;
  const { oldest_pending_at } = summary;
  if (oldest_pending_at !== null && now - Date.parse(oldest_pending_at) > BACKLOG_OVERDUE_MS) {
    return say('stale', 'backlog_overdue', backlogSentence(facts), {
      remedy: 'Processing does not keep up. Look at the errors of the pending events and at the log.',
      since: oldest_pending_at,
    });
  }
  const rejected = oldestOf(gaps.filter(({ reason }) => reason === 'rejected_signatures'));
  if (rejected !== null) {
    const sentence = 'Deliveries are rejected for their signature, so the mirror does not hear of changes.';
    const { remedy } = GAP_TEXTS.rejected_signatures;
    return say('stale', 'rejected_signatures', sentence, { remedy, action, since: rejected });
  }
  const last = summary.last_delivery_at;
  const quietMs = now - Math.max(last === null ? 0 : Date.parse(last), live.startedAt);
  if (gaps.some(({ reason }) => reason === 'silence') || (live.silenceMs > 0 && quietMs > live.silenceMs)) {
    const sentence =
      last === null
        ? 'No delivery has ever arrived.'
        : `No delivery has arrived for ${age(now - Date.parse(last))}.`;
    return say('stale', 'silence', sentence, { remedy: GAP_TEXTS.silence.remedy, action, since: last });
  }
  // Sync runs are in time, and still the view calls it stale: then it misses the heartbeat.
  if (summary.kinds.some(({ verdict }) => verdict === 'stale') && now - live.startedAt > FIRST_BEAT_MS) {
    return say('stale', 'heartbeat_missed', 'The service has stopped saying that it lives.', {
      remedy: 'Look at its log, then restart it. Nothing that was acknowledged is lost.',
    });
  }
  return null;
}

function recordsStale({ summary, gaps, live, now }: Facts): Verdict | null {
  for (const { kind, last_full_sync_at: last, verdict } of summary.kinds) {
    if (live.fullSyncMs === 0) break;
    const isOverdue =
      last === null
        ? // The view knows since when a first one has been tried.
          verdict === 'stale' && now - live.startedAt > FIRST_BEAT_MS
        : now - Date.parse(last) > FULL_SYNC_LATENESS_FACTOR * live.fullSyncMs + FULL_SYNC_LENGTH_MS;
    if (!isOverdue) continue;
    const compared =
      last === null
        ? 'have never been compared in full'
        : `were last compared in full ${age(now - Date.parse(last))} ago`;
    return say('stale', 'full_sync_overdue', `The ${kindPlural(kind)} ${compared}.`, {
      remedy: 'Sync runs fail or take too long. Look at the last ones below, then run a full sync.',
      action: 'sync',
      since: last,
    });
  }
  const longestMs = Math.max(UNVERIFIED_FLOOR_MS, UNVERIFIED_SETTLES * live.settleMs);
  for (const { kind, unverified, oldest_unverified_at: oldest } of summary.kinds) {
    if (unverified === 0 || oldest === null || now - Date.parse(oldest) <= longestMs) continue;
    // The oldest one may be a record that no read can verify, and then says nothing about the others.
    if (gaps.some((gap) => gap.kind === kind && isUnreadable(gap))) continue;
    const records = count(unverified, `${kindNoun(kind, 1)} has`, `${kindPlural(kind)} have`);
    const sentence = `${records} been unverified for up to ${age(now - Date.parse(oldest))}.`;
    return say('stale', 'verification_overdue', sentence, {
      remedy:
        'Repairs do not keep up. Look at the compliance service and its budget below, then run a full sync.',
      action: 'sync',
      since: oldest,
    });
  }
  return null;
}

function backlogSentence({ summary, now }: Facts): string {
  const waiting = count(summary.events.pending, 'event waits', 'events wait');
  return `${waiting}, the oldest for ${age(now - Date.parse(summary.oldest_pending_at!))}.`;
}

function eventsOnly({ live, summary }: Facts): Verdict | null {
  if (!live.eventsOnly) return null;
  const waiting = summary.events.pending;
  const left = waiting === 0 ? '' : `; ${count(waiting, 'event')} still to do`;
  const sentence = `The mirror shows what the deliveries said, and cannot check it${left}.`;
  return say('unverified', 'events_only', sentence, {
    remedy:
      'Set COMPLIANCE_BASE_URL and COMPLIANCE_API_KEY to have every record verified and lost deliveries repaired.',
    since: live.startedAt,
  });
}

function catchingUp(facts: Facts): Verdict | null {
  const { summary, gaps, live, now } = facts;
  const underWay = (reason: string, sentence: string, since: Rest['since'], remedy: string | null = null) =>
    say('catching_up', reason, sentence, { since, remedy });

  if (live.state === 'starting' || live.state === 'migrating') {
    return underWay(live.state, 'The service is starting.', live.startedAt);
  }
  if (live.state === 'draining') {
    return underWay('draining', 'The service is finishing what it holds, and stops.', null);
  }
  const { kinds, oldest_pending_at } = summary;
  const unsynced = kinds.filter((kind) => kind.last_full_sync_at === null);
  if (unsynced.length > 0) {
    const isRunning = live.runningSyncRuns.length > 0;
    const why =
      causeText(firstGap(gaps, unsynced)) ??
      'It starts by itself; the last full syncs below say what kept it from finishing.';
    return underWay(
      'first_full_sync',
      `The first full sync of the ${namesOf(unsynced)} ${isRunning ? 'is under way' : 'is not finished yet'}.`,
      live.startedAt,
      isRunning ? null : why,
    );
  }
  const upstreamNote =
    live.upstream.configured && live.upstream.ok === false
      ? 'The compliance service does not answer right now; it is asked again by itself.'
      : null;
  const unread = kinds.filter((kind) => kind.readable_since === null);
  if (unread.length > 0) {
    return underWay(
      'nothing_read',
      `The ${namesOf(unread)} have not been read with the present credentials yet.`,
      live.startedAt,
      upstreamNote ??
        'They are asked for by themselves. If this lasts, the last full syncs below and “doctor” say what came of it.',
    );
  }
  if (oldest_pending_at !== null && now - Date.parse(oldest_pending_at) > BACKLOG_LATE_MS) {
    return underWay(
      'backlog_late',
      backlogSentence(facts),
      oldest_pending_at,
      'They are processed as they come in; if their number does not fall, look at their errors and at the log.',
    );
  }
  const waiting = summary.events.pending;
  if (waiting > 0) {
    const sentence = `The mirror is working off ${count(waiting, 'event')}.`;
    return underWay('backlog', sentence, oldest_pending_at, upstreamNote);
  }
  const unverified = kinds.reduce((sum, kind) => sum + kind.unverified, 0);
  if (unverified > 0) {
    return underWay(
      'verifying',
      `${count(unverified, 'record is', 'records are')} being checked against the compliance service.`,
      kinds.flatMap((kind) => kind.oldest_unverified_at ?? []).sort()[0],
      upstreamNote,
    );
  }
  const behind = kinds.find((kind) => kind.verdict === 'catching_up');
  if (behind === undefined) return null;
  const cause = firstGap(gaps, [behind]);
  return underWay(
    'gaps_open',
    `The ${kindPlural(behind.kind)} are being brought into sync.`,
    cause?.oldest_at,
    upstreamNote ?? causeText(cause),
  );
}

const namesOf = (kinds: readonly KindStatus[]) => LIST.format(kinds.map(({ kind }) => kindPlural(kind)));

/** The one that has been open the longest of those that keep one of the kinds from being in sync. */
function firstGap(gaps: readonly OpenGaps[], kinds: readonly KindStatus[]): OpenGaps | undefined {
  return gaps
    .filter((gap) => (gap.kind === null || kinds.some(({ kind }) => kind === gap.kind)) && !isUnreadable(gap))
    .sort((a, b) => Date.parse(a.oldest_at) - Date.parse(b.oldest_at))[0];
}

const causeText = (cause: OpenGaps | undefined): string | null =>
  cause === undefined ? null : `${gapText(cause.reason).title}. ${gapText(cause.reason).remedy}`;

function inSync({ summary, gaps }: Facts): Verdict {
  const instants = summary.kinds.map((kind) => kind.in_sync_since);
  // In sync as a whole since the last kind came into sync.
  const since = instants.includes(null) ? null : instants.sort().at(-1);
  const unreadable = sumOf(gaps.filter(isUnreadable));
  if (unreadable === 0) {
    return say('in_sync', 'in_sync', 'The mirror is in sync with the compliance service.', { since });
  }
  const sentence = `The mirror is in sync with all that the compliance service shows; it does not show ${count(unreadable, 'record')} that events named.`;
  return say('in_sync', 'in_sync_but_unresolved', sentence, { since });
}
