import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../platform/clock.ts';
import { StoreUnavailable } from '../platform/errors.ts';
import type {
  AcceptOutcome,
  CountedRejection,
  IncomingEvent,
  ProvisionalRules,
  Rejection,
  Store,
  UnusableDelivery,
} from '../store/store.ts';
import { createRejectionSampler, MINUTE_MS } from './rejections.ts';

/** Makes verified deliveries durable. */
export interface Inbox {
  /** Resolves after the commit of a delivery's events, all in one. Rejects with StoreUnavailable when they cannot be committed. */
  accept(events: readonly IncomingEvent[]): Promise<AcceptOutcome[]>;
  /** Keeps a correctly signed delivery that is no event. Resolves and rejects like `accept`. */
  quarantine(delivery: UnusableDelivery): Promise<void>;
  /** Notes a rejected delivery, at a bounded rate. Never waits and never fails. */
  reject(rejection: Rejection): void;
}

/** The most deliveries in one commit. It takes some ten milliseconds besides its flush, and what arrives meanwhile waits for it. */
const LARGEST_GROUP = 512;

/** Rejections kept in memory while the database does not answer. */
const MAX_WAITING_REJECTIONS = 500;

/** A sender gives up after about 15 s and tries again later. It gets its 503 before. */
const ANSWERED_WITHIN_MS = 10_000;

interface Waiting {
  delivery: { events: readonly IncomingEvent[] } | { unusable: UnusableDelivery };
  /** Steady time of its arrival. */
  since: number;
  resolve: (outcomes: AcceptOutcome[]) => void;
  reject: (error: unknown) => void;
}

export interface InboxOptions {
  store: Pick<Store, 'accept' | 'recordRejections'>;
  clock: Clock;
  rules: Pick<ProvisionalRules, 'timing' | 'pointers'>;
  /** New events are committed, so the worker has work. */
  onAccepted: (commitMs: number) => void;
  onError: (error: unknown) => void;
}

/**
 * Group commit. A durable commit costs one flush to the disk for any number of rows, so deliveries that arrive in the same turn of the
 * event loop, or during the commit before, share one. Each is answered after that commit.
 */
export function createInbox(options: InboxOptions): Inbox & { drain(): Promise<void> } {
  const { store, clock, rules } = options;
  /** In order of arrival. */
  let waiting: Waiting[] = [];
  /** The deliveries of the present commit, but for those that were rejected because it takes too long. */
  let committing: Waiting[] = [];
  let running: Promise<void> | null = null;
  let lateCheck: AbortController | null = null;
  const sampler = createRejectionSampler();
  let rejections: CountedRejection[] = [];
  let minuteEnd: AbortController | null = null;

  /** Commits one group after another, until nothing waits. */
  async function run(): Promise<void> {
    // After the I/O callbacks of this turn, so that every request body that has arrived is in the group.
    await setImmediate();
    while (waiting.length > 0 || rejections.length > 0) {
      committing = waiting.splice(0, LARGEST_GROUP);
      if (committing.length > 0) await commit(committing);
      committing = [];
      const noted = rejections;
      rejections = [];
      if (noted.length > 0) await store.recordRejections(noted).catch(options.onError);
    }
    running = null;
  }

  async function commit(group: readonly Waiting[]): Promise<void> {
    const events: IncomingEvent[] = [];
    const unusable: UnusableDelivery[] = [];
    for (const { delivery } of group) {
      if ('events' in delivery) events.push(...delivery.events);
      else unusable.push(delivery.unusable);
    }
    try {
      while (clock.hasJumped?.()) await clock.measure?.();
      // On a shared clock the latest that it may be now, because a read covers only events from well before it.
      const now = { wall: clock.wall(), steady: clock.steady() + (clock.marginMs?.() ?? 0) };
      const began = performance.now();
      const outcomes = await store.accept({ events, unusable }, now, rules.timing, rules.pointers);
      for (const { delivery, resolve } of group)
        resolve('events' in delivery ? outcomes.splice(0, delivery.events.length) : []);
      options.onAccepted(performance.now() - began);
    } catch (error) {
      for (const { reject } of group) reject(error);
      options.onError(error);
    }
  }

  /** Rejects deliveries that have waited too long, until none waits. One sleep serves all of them. */
  async function rejectLate(signal: AbortSignal): Promise<void> {
    for (;;) {
      const oldest = committing[0] ?? waiting[0];
      if (oldest === undefined || signal.aborted) break;
      await clock.sleep(oldest.since + ANSWERED_WITHIN_MS - clock.steady(), signal);
      const since = clock.steady() - ANSWERED_WITHIN_MS;
      const isLate = (entry: Waiting) => entry.since <= since;
      const late = [...committing, ...waiting].filter(isLate);
      // Their commit may still succeed. Then the sender's next attempt is a duplicate.
      committing = committing.filter((entry) => !isLate(entry));
      waiting = waiting.filter((entry) => !isLate(entry));
      const error = new StoreUnavailable('the database has not taken a delivery for too long');
      for (const { reject } of late) reject(error);
    }
    lateCheck = null;
  }

  function keepRejections(some: readonly CountedRejection[]): void {
    if (some.length === 0) return;
    rejections.push(...some.slice(0, MAX_WAITING_REJECTIONS - rejections.length));
    running ??= run();
  }

  function committed(delivery: Waiting['delivery']): Promise<AcceptOutcome[]> {
    return new Promise((resolve, reject) => {
      waiting.push({ delivery, since: clock.steady(), resolve, reject });
      running ??= run();
      if (lateCheck !== null) return;
      lateCheck = new AbortController();
      void rejectLate(lateCheck.signal);
    });
  }

  return {
    accept: (events) => committed({ events }),

    async quarantine(unusable) {
      await committed({ unusable });
    },

    reject(rejection) {
      const steady = clock.steady();
      keepRejections(sampler.note(rejection, steady));
      if (minuteEnd !== null) return;
      minuteEnd = new AbortController();
      // At the end of the minute its newest are written, even if no more rejections come.
      void clock.sleep(MINUTE_MS - (steady % MINUTE_MS), minuteEnd.signal).then(() => {
        minuteEnd = null;
        keepRejections(sampler.close());
      });
    },

    /** Resolves when nothing waits for a commit any more. */
    async drain() {
      minuteEnd?.abort();
      keepRejections(sampler.close());
      while (running !== null) await running;
      lateCheck?.abort();
    },
  };
}
