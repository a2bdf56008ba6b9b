import type { OpenGaps, StoreSummary } from '../store/reports.ts';
import { gapText } from './gap-texts.ts';
import { blocked } from './verdict-blocked.ts';
import { instant, isUnreadable, type Verdict, type VerdictInput, verdictOf } from './verdict-facts.ts';
import { stale } from './verdict-stale.ts';
import { age, count, figure, kindPlural } from './words.ts';

/** Events are worked off within a second or two. What waits longer than the alert BacklogGrowing allows is worth a word. */
const BACKLOG_LATE_MS = 30_000;

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
 * The whole service in one sentence. The first rule that holds decides, the gravest first: what only a person
 * can mend, then what has gone out of date, then what is under way.
 */
export function judge(input: VerdictInput): Verdict {
  return (
    unasked(input) ??
    blocked(input) ??
    unreachable(input) ??
    stale(input) ??
    eventsOnly(input) ??
    catchingUp(input) ??
    inSync(input)
  );
}

/** By the tables alone: their own verdicts, kind by kind, know whether a service still writes. */
function unasked({ live, summary }: VerdictInput): Verdict | null {
  if (live.state !== 'stopped' && live.state !== 'elsewhere') return null;
  const verdicts = summary?.kinds.map(({ verdict }) => verdict) ?? [];
  const worst = WORST_FIRST.find((verdict) => verdicts.includes(verdict)) ?? 'stale';
  return live.state === 'stopped'
    ? verdictOf(worst, 'not_running', 'No service is running on this database.')
    : verdictOf(worst, 'not_asked', 'Services run on this database, and none of them was asked.');
}

function unreachable({ live, now }: VerdictInput): Verdict | null {
  const { configured, unreachableSince, lastError } = live.upstream;
  if (!configured || unreachableSince === null || live.state !== 'running') return null;
  return verdictOf(
    'unreachable',
    'upstream_unreachable',
    `The compliance service has given no usable answer for ${age(now - unreachableSince)}, so nothing can be verified.`,
    {
      remedy: `Last error: ${lastError ?? 'not known'}. It is asked again by itself, and deliveries are still received. Look at its status page, the network between, and COMPLIANCE_BASE_URL.`,
      since: new Date(unreachableSince).toISOString(),
    },
  );
}

function eventsOnly({ live, summary }: VerdictInput): Verdict | null {
  if (!live.eventsOnly || summary === null) return null;
  const waiting = summary.events.pending;
  const left = waiting === 0 ? '' : `; ${count(waiting, 'event')} still to do`;
  return verdictOf(
    'unverified',
    'events_only',
    `The mirror shows what the deliveries said, and cannot check it${left}.`,
    {
      remedy:
        'Set COMPLIANCE_BASE_URL and COMPLIANCE_API_KEY to have every record verified and lost deliveries repaired.',
      since: new Date(live.startedAt).toISOString(),
    },
  );
}

function catchingUp({ summary, gaps, live, now }: VerdictInput): Verdict | null {
  if (summary === null) return null;
  const say = (reason: string, sentence: string, since: string | null, remedy: string | null = null) =>
    verdictOf('catching_up', reason, sentence, { since, remedy });

  if (live.state === 'starting' || live.state === 'migrating') {
    return say(live.state, 'The service is starting.', new Date(live.startedAt).toISOString());
  }
  if (live.state === 'draining') {
    return say('draining', 'The service is finishing what it holds, and stops.', null);
  }
  const waiting = summary.events.pending;
  const unverified = summary.kinds.reduce((sum, kind) => sum + kind.unverified, 0);
  const firstFullSync = summary.kinds.filter((kind) => kind.last_full_sync_at === null);
  if (firstFullSync.length > 0) {
    const names = LIST.format(firstFullSync.map((kind) => kindPlural(kind.kind)));
    const underWay = live.runningSyncRuns.length > 0;
    return say(
      'first_full_sync',
      `The first full sync of the ${names} ${underWay ? 'is under way' : 'is not finished yet'}.`,
      new Date(live.startedAt).toISOString(),
      underWay
        ? null
        : (causeText(firstGap(gaps, firstFullSync)) ??
            'It starts by itself; the last full syncs below say what kept it from finishing.'),
    );
  }
  const unread = summary.kinds.filter((kind) => kind.readable_since === null);
  if (unread.length > 0) {
    return say(
      'nothing_read',
      `The ${LIST.format(unread.map((kind) => kindPlural(kind.kind)))} have not been read with the present credentials yet.`,
      new Date(live.startedAt).toISOString(),
      upstreamNote(live) ??
        'They are asked for by themselves. If this lasts, the last full syncs below and “doctor” say what came of it.',
    );
  }
  const oldestPending = instant(summary.oldest_pending_at);
  if (oldestPending !== null && now - oldestPending > BACKLOG_LATE_MS) {
    return say(
      'backlog_late',
      `${figure(waiting)} ${waiting === 1 ? 'event waits' : 'events wait'}, the oldest for ${age(now - oldestPending)}.`,
      summary.oldest_pending_at,
      'They are processed as they come in; if their number does not fall, look at their errors and at the log.',
    );
  }
  if (waiting > 0) {
    return say(
      'backlog',
      `The mirror is working off ${count(waiting, 'event')}.`,
      summary.oldest_pending_at,
      upstreamNote(live),
    );
  }
  if (unverified > 0) {
    return say(
      'verifying',
      `${count(unverified, 'record')} ${unverified === 1 ? 'is' : 'are'} being checked against the compliance service.`,
      oldestUnverified(summary),
      upstreamNote(live),
    );
  }
  const behind = summary.kinds.find((kind) => kind.verdict === 'catching_up');
  if (behind === undefined) return null;
  const cause = firstGap(gaps, [behind]);
  return say(
    'gaps_open',
    `The ${kindPlural(behind.kind)} are being brought into sync.`,
    cause?.oldest_at ?? null,
    upstreamNote(live) ?? causeText(cause),
  );
}

/** The one that has been open the longest of those that keep one of the kinds from being in sync. */
function firstGap(gaps: VerdictInput['gaps'], kinds: readonly { kind: string }[]): OpenGaps | undefined {
  const [first] = gaps
    .filter((gap) => (gap.kind === null || kinds.some(({ kind }) => kind === gap.kind)) && !isUnreadable(gap))
    .sort((a, b) => Date.parse(a.oldest_at) - Date.parse(b.oldest_at));
  return first;
}

const causeText = (cause: OpenGaps | undefined): string | null =>
  cause === undefined ? null : `${gapText(cause.reason).title}. ${gapText(cause.reason).remedy}`;

function inSync({ summary, gaps }: VerdictInput): Verdict {
  const kinds = summary?.kinds ?? [];
  // In sync as a whole since the last kind came into sync.
  const since = kinds.every((kind) => kind.in_sync_since !== null)
    ? (kinds
        .map((kind) => kind.in_sync_since!)
        .sort()
        .at(-1) ?? null)
    : null;
  const unreadable = gaps.filter(isUnreadable).reduce((sum, gap) => sum + gap.count, 0);
  if (unreadable === 0) {
    return verdictOf('in_sync', 'in_sync', 'The mirror is in sync with the compliance service.', { since });
  }
  return verdictOf(
    'in_sync',
    'in_sync_but_unresolved',
    `The mirror is in sync with all that the compliance service shows; it does not show ${count(unreadable, 'record')} that events named.`,
    { since },
  );
}

function upstreamNote(live: VerdictInput['live']): string | null {
  if (!live.upstream.configured || live.upstream.ok !== false) return null;
  return 'The compliance service does not answer right now; it is asked again by itself.';
}

function oldestUnverified(summary: StoreSummary): string | null {
  return (
    summary.kinds
      .map((kind) => kind.oldest_unverified_at)
      .filter((at) => at !== null)
      .sort()[0] ?? null
  );
}
