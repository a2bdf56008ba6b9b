import type { GapReport, KindStatus, StoreSummary } from '../store/reports.ts';
import type { GapReason } from '../store/store.ts';
import type { HeldDeletions, LiveFacts } from './context.ts';
import { GAP_TEXTS, gapText } from './gap-texts.ts';
import { age, count, figure, kindNoun, kindPlural } from './words.ts';

export type OverallVerdict = 'in_step' | 'catching_up' | 'stale' | 'blocked' | 'unverified';

/** The one button that may end it, where one does. */
export type RemedyAction = 'resume' | 'sweep' | 'consent' | null;

export interface Verdict {
  verdict: OverallVerdict;
  /** Stable code of what decided it. */
  reason: string;
  /** One sentence in plain words. */
  sentence: string;
  /** What to do; null when there is nothing to do. */
  remedy: string | null;
  action: RemedyAction;
  /** Since when, ISO 8601; null where nobody can say. */
  since: string | null;
}

export interface VerdictInput {
  /** Null: the database could not be read. */
  summary: StoreSummary | null;
  /** Open ones. */
  gaps: readonly GapReport[];
  held: readonly HeldDeletions[];
  live: Pick<
    LiveFacts,
    | 'state'
    | 'startedAt'
    | 'paused'
    | 'eventsOnly'
    | 'signingSecrets'
    | 'settleMs'
    | 'sweepMs'
    | 'silenceMs'
    | 'runningSweeps'
    | 'upstream'
  >;
  /** Wall-clock milliseconds. */
  now: number;
}

/** Shorter outages of the upstream are everyday, and repair themselves; after this a person should look. */
export const UPSTREAM_OUTAGE_BLOCKS_MS = 15 * 60_000;

/** Twice the interval means that a sweep was missed altogether; the rest is the time that one may take. */
const SWEEP_LATENESS_FACTOR = 2;
const SWEEP_LENGTH_MS = 10 * 60_000;

/** A read falls due six times SETTLE after a hint at the latest; this is far beyond, with room for a tight budget. */
const UNVERIFIED_SETTLES = 20;
const UNVERIFIED_FLOOR_MS = 30 * 60_000;

/** The heart beats more often than this; until then a fresh start has not told the database that it lives. */
const FIRST_BEAT_MS = 60_000;

const LIST = new Intl.ListFormat('en-GB');

/**
 * The whole service in one sentence. The first rule that holds decides, the gravest first: what only a person
 * can mend, then what has gone out of date, then what is under way.
 */
export function judge(input: VerdictInput): Verdict {
  return blocked(input) ?? stale(input) ?? eventsOnly(input) ?? catchingUp(input) ?? inStep(input);
}

function blocked({ summary, gaps, held, live, now }: VerdictInput): Verdict | null {
  const say = (reason: string, sentence: string, remedy: string, rest: Partial<Verdict> = {}): Verdict => ({
    verdict: 'blocked',
    reason,
    sentence,
    remedy,
    action: null,
    since: null,
    ...rest,
  });

  if (summary === null) {
    return say(
      'database_unreadable',
      'The database cannot be read.',
      'Look at the disk it is on and at the log. Deliveries are answered 503, so that the sender tries again.',
    );
  }
  if (live.signingSecrets === 0) {
    return say(
      'no_signing_secret',
      'No signing secret is known, so every delivery is turned away.',
      'Set WEBHOOK_SECRETS, or register the webhook with `compliance-mirror register`.',
    );
  }
  if (live.paused) {
    return say(
      'paused',
      `The mirror is paused; ${count(summary.events.pending, 'event')} ${summary.events.pending === 1 ? 'waits' : 'wait'}.`,
      'Deliveries are still received and kept. Resume when whatever it was paused for is done.',
      { action: 'resume' },
    );
  }
  const rejected = gapOf(gaps, 'credentials_rejected');
  if (rejected !== null) {
    return say(
      'credentials_rejected',
      'The compliance service rejects our credentials, so nothing can be verified.',
      GAP_TEXTS.credentials_rejected.remedy,
      { since: rejected.opened_at },
    );
  }
  const heldCount = held.reduce((sum, one) => sum + one.count, 0);
  if (heldCount > 0) {
    return say(
      'deletion_held',
      `${count(heldCount, 'deletion')} ${heldCount === 1 ? 'awaits' : 'await'} your consent.`,
      GAP_TEXTS.deletion_held.remedy,
      { action: 'consent', since: gapOf(gaps, 'deletion_held')?.opened_at ?? null },
    );
  }
  const outageSince = upstreamOutageSince(gaps, live);
  if (outageSince !== null && now - outageSince >= UPSTREAM_OUTAGE_BLOCKS_MS) {
    return say(
      'upstream_unavailable',
      `The compliance service has not answered for ${age(now - outageSince)}.`,
      'Look at its status page and at the network between. Deliveries are still received, and repairs resume by themselves.',
      { since: new Date(outageSince).toISOString() },
    );
  }
  const unproven = gapOf(gaps, 'deletions_unproven');
  if (unproven !== null) {
    return say(
      'deletions_unproven',
      'Some records may be gone upstream, and that could not be proven.',
      GAP_TEXTS.deletions_unproven.remedy,
      { action: 'sweep', since: unproven.opened_at },
    );
  }
  const kind = summary.kinds.find((one) => one.verdict === 'blocked');
  if (kind !== undefined) {
    return say(
      'kind_blocked',
      `The ${kindPlural(kind.kind)} cannot be brought into step without you.`,
      'The open gaps below say what is in the way.',
    );
  }
  return null;
}

function stale({ summary, gaps, live, now }: VerdictInput): Verdict | null {
  if (summary === null) return null;
  const say = (reason: string, sentence: string, remedy: string, since: string | null): Verdict => ({
    verdict: 'stale',
    reason,
    sentence,
    remedy,
    action: live.eventsOnly ? null : 'sweep',
    since,
  });

  if (!live.eventsOnly) {
    const overdue = summary.kinds.find((kind) => isSweepOverdue(kind, live.sweepMs, now));
    if (overdue !== undefined) {
      return say(
        'sweep_overdue',
        `The ${kindPlural(overdue.kind)} were last compared in full ${age(now - instant(overdue.last_full_sweep_at)!)} ago.`,
        'Sweeps fail or take too long. Look at the last ones below, then sweep now.',
        overdue.last_full_sweep_at,
      );
    }
    const lagging = summary.kinds.find((kind) => isLagging(kind, gaps, live.settleMs, now));
    if (lagging !== undefined) {
      return say(
        'verification_overdue',
        `${figure(lagging.unverified)} ${kindNoun(lagging.kind, lagging.unverified)} ${lagging.unverified === 1 ? 'has' : 'have'} been unverified for up to ${age(now - instant(lagging.oldest_unverified_at)!)}.`,
        'Repairs do not keep up. Look at the compliance service and its budget below, then sweep now.',
        lagging.oldest_unverified_at,
      );
    }
  }
  const lastDelivery = instant(summary.last_delivery_at);
  const quietMs = now - Math.max(lastDelivery ?? 0, live.startedAt);
  if (gapOf(gaps, 'silence') !== null || (live.silenceMs > 0 && quietMs > live.silenceMs)) {
    return say(
      'silence',
      lastDelivery === null
        ? 'No delivery has ever arrived.'
        : `No delivery has arrived for ${age(now - lastDelivery)}.`,
      GAP_TEXTS.silence.remedy,
      summary.last_delivery_at,
    );
  }
  // Sweeps are in time, and still the view calls it stale: then it is the service's heart that it misses.
  if (summary.kinds.some((kind) => kind.verdict === 'stale') && now - live.startedAt > FIRST_BEAT_MS) {
    return {
      ...say(
        'heartbeat_missed',
        'The service has stopped saying that it lives.',
        'Look at its log, then restart it. Nothing that was acknowledged is lost.',
        null,
      ),
      action: null,
    };
  }
  return null;
}

function isSweepOverdue(kind: KindStatus, sweepMs: number, now: number): boolean {
  const last = instant(kind.last_full_sweep_at);
  return sweepMs > 0 && last !== null && now - last > SWEEP_LATENESS_FACTOR * sweepMs + SWEEP_LENGTH_MS;
}

function isLagging(kind: KindStatus, gaps: readonly GapReport[], settleMs: number, now: number): boolean {
  const oldest = instant(kind.oldest_unverified_at);
  if (kind.unverified === 0 || oldest === null) return false;
  // The oldest one may be a record that no read can verify, and then says nothing about the others.
  if (gaps.some((gap) => gap.kind === kind.kind && isUnreadable(gap))) return false;
  return now - oldest > Math.max(UNVERIFIED_FLOOR_MS, UNVERIFIED_SETTLES * settleMs);
}

function eventsOnly({ live, summary }: VerdictInput): Verdict | null {
  if (!live.eventsOnly || summary === null) return null;
  const waiting = summary.events.pending;
  return {
    verdict: 'unverified',
    reason: 'events_only',
    sentence:
      waiting === 0
        ? 'The mirror shows what the deliveries said, and cannot check it.'
        : `The mirror shows what the deliveries said, and cannot check it; ${count(waiting, 'event')} still to do.`,
    remedy:
      'Set COMPLIANCE_BASE_URL and COMPLIANCE_API_KEY to have every record verified and lost deliveries repaired.',
    action: null,
    since: new Date(live.startedAt).toISOString(),
  };
}

function catchingUp({ summary, gaps, live }: VerdictInput): Verdict | null {
  if (summary === null) return null;
  const say = (
    reason: string,
    sentence: string,
    since: string | null,
    remedy: string | null = null,
  ): Verdict => ({
    verdict: 'catching_up',
    reason,
    sentence,
    remedy,
    action: null,
    since,
  });

  if (live.state === 'starting' || live.state === 'migrating') {
    return say(live.state, 'The service is starting.', new Date(live.startedAt).toISOString());
  }
  if (live.state === 'draining') {
    return say('draining', 'The service is finishing what it holds, and stops.', null);
  }
  const waiting = summary.events.pending;
  const unverified = summary.kinds.reduce((sum, kind) => sum + kind.unverified, 0);
  const firstSweep = summary.kinds.filter((kind) => kind.last_full_sweep_at === null);
  if (firstSweep.length > 0) {
    const names = LIST.format(firstSweep.map((kind) => kindPlural(kind.kind)));
    const underWay = live.runningSweeps.length > 0;
    return say(
      'first_sweep',
      `The first sweep of the ${names} ${underWay ? 'is under way' : 'is not finished yet'}.`,
      new Date(live.startedAt).toISOString(),
      underWay ? null : 'It starts by itself; the last sweeps below say what kept it from finishing.',
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
  const cause = gaps.findLast((gap) => (gap.kind === null || gap.kind === behind.kind) && !isUnreadable(gap));
  return say(
    'gaps_open',
    `The ${kindPlural(behind.kind)} are being brought into step.`,
    cause?.opened_at ?? null,
    upstreamNote(live) ??
      (cause === undefined ? null : `${gapText(cause.reason).title}. ${gapText(cause.reason).remedy}`),
  );
}

function inStep({ summary, gaps }: VerdictInput): Verdict {
  const kinds = summary?.kinds ?? [];
  // In step as a whole since the last kind came into step.
  const since = kinds.every((kind) => kind.in_step_since !== null)
    ? (kinds
        .map((kind) => kind.in_step_since!)
        .sort()
        .at(-1) ?? null)
    : null;
  const unreadable = gaps.filter(isUnreadable).length;
  return {
    verdict: 'in_step',
    reason: unreadable === 0 ? 'in_step' : 'in_step_but_unresolved',
    sentence:
      unreadable === 0
        ? 'The mirror is in step with the compliance service.'
        : `The mirror is in step with all that the compliance service shows; it does not show ${count(unreadable, 'record')} that events named.`,
    remedy: null,
    action: null,
    since,
  };
}

function gapOf(gaps: readonly GapReport[], reason: GapReason): GapReport | null {
  return gaps.findLast((gap) => gap.reason === reason) ?? null;
}

/** About a record that no read can verify, because the API does not show it: that keeps nothing from being in step. */
function isUnreadable(gap: GapReport): boolean {
  return gap.reason === 'unresolved' || gap.reason === 'unaddressable';
}

function upstreamOutageSince(gaps: readonly GapReport[], live: VerdictInput['live']): number | null {
  const gap = gapOf(gaps, 'upstream_unavailable');
  if (gap !== null) return instant(gap.opened_at);
  const { configured, ok, lastOkAt } = live.upstream;
  return configured && ok === false ? (lastOkAt ?? live.startedAt) : null;
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

function instant(text: string | null): number | null {
  return text === null ? null : Date.parse(text);
}
