import type { Clock } from '../platform/clock.ts';
import { StoreUnavailable } from '../platform/errors.ts';
import type {
  AcceptOutcome,
  CountedRejection,
  InboxStore,
  IncomingEvent,
  ProvisionalRules,
  Rejection,
  UnusableDelivery,
} from '../store/store.ts';
import { createRejectionSampler, MINUTE_MS } from './rejections.ts';

/** Makes verified deliveries durable. */
export interface Inbox {
  /**
   * Resolves after the commit of the event. Rejects with StoreUnavailable when it cannot be committed. `sender`: the connection
   * on which the delivery came. A sender that waits for an answer sends nothing else on it.
   */
  accept(event: IncomingEvent, sender?: object): Promise<AcceptOutcome>;
  /** Keeps a correctly signed delivery that is no event. Resolves and rejects like `accept`. */
  quarantine(delivery: UnusableDelivery): Promise<void>;
  /** Notes a rejected delivery, at a bounded rate. Never waits and never fails. */
  reject(rejection: Rejection): void;
}

/**
 * The most deliveries in one commit. A flush to a slow disk, or the round trips to a server, cost the same for any number. The
 * rest of a commit of this size takes about ten milliseconds, and deliveries that arrive meanwhile wait for it.
 */
const LARGEST_GROUP = 512;

/**
 * After a group of this size or more, the next one waits some more turns of the event loop. Under load as many deliveries arrive
 * again, and one commit for all costs less processor time than several.
 */
const CROWD = 16;
const TURNS_BEHIND_A_CROWD = 4;

/** Rejections kept in memory while the database does not answer. */
const MAX_WAITING_REJECTIONS = 500;

/**
 * Milliseconds. If the last group had several senders, the next one begins this long after it, or once all of them wait again. At
 * 2,000 deliveries a second, a commit for each one or two cost twice the processor time. After a commit that took longer than
 * this, the time counts from its end: otherwise half of the senders wait while the other half is committed, and 64 connections
 * got 4,000 deliveries a second through a flush of 5 ms instead of 6,000.
 */
const GATHER_MS = 4;

/** A sender gives up after about 15 s and tries again later. It gets its 503 before. */
const ANSWERED_WITHIN_MS = 10_000;

interface Waiting<T> {
  item: T;
  sender: object | null;
  /** Steady time of its arrival. */
  since: number;
  resolve: (outcome: AcceptOutcome) => void;
  reject: (error: unknown) => void;
}

export interface InboxOptions {
  store: Pick<InboxStore, 'accept' | 'recordRejections'>;
  clock: Clock;
  rules: Pick<ProvisionalRules, 'timing' | 'pointers'>;
  /** New events are committed, so the worker has work. */
  onAccepted: (commitMs: number) => void;
  onError: (error: unknown) => void;
}

/**
 * Group commit. A durable commit costs one flush to the disk for any number of rows, so deliveries that arrive in the same turn
 * of the event loop share one. Each is answered after that commit.
 */
export function createInbox(options: InboxOptions): Inbox & { drain(): Promise<void> } {
  const { store, clock, rules } = options;
  const events: Waiting<IncomingEvent>[] = [];
  const unusable: Waiting<UnusableDelivery>[] = [];
  let isScheduled = false;
  let flushing: Promise<void> = Promise.resolve();
  /** The deliveries of the present commit, but for those that were rejected because it takes too long. */
  let committing: Waiting<unknown>[] = [];
  let lateCheck: AbortController | null = null;
  /** The senders of the last group. */
  let senders: readonly (object | null)[] = [];
  let lastCommitAt = 0;
  let lastCommitMs = 0;
  /** The last wait of a group, for the senders of the group before it that have not sent again. */
  let gathering = { absent: new Set<object | null>(), end: new AbortController() };
  const sampler = createRejectionSampler();
  let rejections: CountedRejection[] = [];
  let minuteEnd: AbortController | null = null;

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    let turns = senders.length < CROWD ? 1 : TURNS_BEHIND_A_CROWD;
    const nextTurn = () => {
      turns -= 1;
      if (turns > 0) {
        setImmediate(nextTurn);
        return;
      }
      isScheduled = false;
      flushing = flush(flushing);
    };
    // After the I/O callbacks of this turn, so that every request body that has arrived is in the group.
    setImmediate(nextTurn);
  }

  async function flush(before: Promise<void>): Promise<void> {
    const isBehind = committing.length > 0;
    await before;
    // A single sender does not wait.
    if (isBehind || senders.length > 1) await gather();
    const group = events.splice(0, LARGEST_GROUP);
    const kept = unusable.splice(0, LARGEST_GROUP);
    if (group.length > 0) senders = group.map(({ sender }) => sender);
    if (events.length > 0 || unusable.length > 0) schedule();
    if (group.length > 0 || kept.length > 0) {
      committing = [...group, ...kept];
      await commit(group, kept);
      committing = [];
    }
    const noted = rejections;
    rejections = [];
    if (noted.length > 0) await store.recordRejections(noted).catch(options.onError);
  }

  async function gather(): Promise<void> {
    if (events.length === 0 || isEnough()) return;
    const ms = isSlow() ? GATHER_MS : lastCommitAt + GATHER_MS - clock.steady();
    const absent = new Set(senders);
    for (const { sender } of events) absent.delete(sender);
    if (ms <= 0 || absent.size === 0) return;
    gathering = { absent, end: new AbortController() };
    await clock.sleep(ms, gathering.end.signal);
  }

  function endGatheringIfComplete(sender: object | null): void {
    gathering.absent.delete(sender);
    if (gathering.absent.size === 0 || isEnough()) gathering.end.abort(null);
  }

  const isSlow = () => lastCommitMs >= GATHER_MS;

  /** Whether more deliveries would make the commit hardly cheaper for each. */
  const isEnough = () => events.length >= (isSlow() ? LARGEST_GROUP : CROWD);

  async function commit(group: Waiting<IncomingEvent>[], kept: Waiting<UnusableDelivery>[]): Promise<void> {
    try {
      const batch = { events: group.map((entry) => entry.item), unusable: kept.map((entry) => entry.item) };
      while (clock.hasJumped?.()) await clock.measure?.();
      // On a shared clock the latest that it may be now, because a read covers only events from well before it.
      const now = { wall: clock.wall(), steady: clock.steady() + (clock.marginMs?.() ?? 0) };
      const began = performance.now();
      lastCommitAt = clock.steady();
      const outcomes = await store.accept(batch, now, rules.timing, rules.pointers);
      const commitMs = performance.now() - began;
      lastCommitMs = clock.steady() - lastCommitAt;
      answer(() => {
        for (const [index, entry] of group.entries()) entry.resolve(outcomes[index]!);
        for (const entry of kept) entry.resolve({ status: 'accepted', seq: 0 });
      });
      options.onAccepted(commitMs);
    } catch (error) {
      for (const entry of [...group, ...kept]) entry.reject(error);
      options.onError(error);
    }
  }

  /** Rejects deliveries that have waited too long, until none waits. One sleep serves all of them. */
  async function rejectLate(signal: AbortSignal): Promise<void> {
    const lists: Waiting<unknown>[][] = [events, unusable];
    for (;;) {
      const oldest = Math.min(
        ...[committing, ...lists].map((list) => list[0]?.since ?? Number.POSITIVE_INFINITY),
      );
      if (oldest === Number.POSITIVE_INFINITY || signal.aborted) break;
      await clock.sleep(oldest + ANSWERED_WITHIN_MS - clock.steady(), signal);
      const since = clock.steady() - ANSWERED_WITHIN_MS;
      const isLate = (entry: Waiting<unknown>) => entry.since <= since;
      const late = [committing, ...lists].flatMap((list) => list.filter(isLate));
      // Their commit may still succeed. Then the sender's next attempt is a duplicate.
      committing = committing.filter((entry) => !isLate(entry));
      for (const list of lists) list.splice(0, list.filter(isLate).length);
      const error = new StoreUnavailable('the database has not taken a delivery for too long');
      for (const { reject } of late) reject(error);
    }
    lateCheck = null;
  }

  /** Answers a group, but starts the commit of a waiting group first: a database server works on it while we write answers. */
  function answer(group: () => void): void {
    if (events.length === 0) group();
    else setImmediate(group);
  }

  function keepRejections(some: readonly CountedRejection[]): void {
    if (some.length === 0) return;
    rejections.push(...some.slice(0, MAX_WAITING_REJECTIONS - rejections.length));
    schedule();
  }

  function wait<T>(list: Waiting<T>[], item: T, sender: object | null = null): Promise<AcceptOutcome> {
    return new Promise((resolve, reject) => {
      list.push({ item, sender, since: clock.steady(), resolve, reject });
      schedule();
      endGatheringIfComplete(sender);
      if (lateCheck !== null) return;
      lateCheck = new AbortController();
      void rejectLate(lateCheck.signal);
    });
  }

  return {
    accept: (event, sender = {}) => wait(events, event, sender),

    async quarantine(delivery) {
      await wait(unusable, delivery);
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
      while (isScheduled || events.length > 0 || unusable.length > 0) {
        await new Promise((resolve) => setImmediate(resolve));
        await flushing;
      }
      await flushing;
      lateCheck?.abort();
    },
  };
}
