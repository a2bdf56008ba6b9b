import PQueue from 'p-queue';
import type { EventType, Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import { drawFate, type Fate, type Faults } from './faults.ts';
import type { Random } from './random.ts';
import type { Registration, Registrations } from './registrations.ts';
import { type Attempt, retryDelayMs, type SendSettings, sendOnce } from './send.ts';
import type { ScaledTimers } from './time.ts';

interface SandboxEvent {
  id: string;
  type: EventType;
  /** ISO 8601, UTC, milliseconds. */
  created: string;
  data: JsonObject;
}

/**
 * waiting: held back by a fault · queued: due · retrying: failed, will be sent again · and then for good:
 * delivered · dropped: by a fault · abandoned: no attempt left · cancelled: the registration was disabled.
 */
export type Outcome = 'waiting' | 'queued' | 'retrying' | 'delivered' | 'dropped' | 'abandoned' | 'cancelled';

interface Delivery {
  id: string;
  registration: Registration;
  event: SandboxEvent;
  kind: Kind;
  recordId: string;
  /** What is signed and sent, the same for every attempt. */
  body: string;
  outcome: Outcome;
  faults: string[];
  attempts: Attempt[];
}

interface DeliverySettings extends SendSettings {
  /** Attempts under way at once, over all registrations. */
  concurrency: number;
  /** The wait before each attempt, counted from the one before; as many attempts as entries. */
  retryDelaysMs: readonly number[];
}

interface DeliveryParts {
  sending: DeliverySettings;
  /** Read anew for each event: they may change. */
  settings: { readonly faults: Faults };
  registrations: Registrations;
  random: Random;
  timers: ScaledTimers;
}

export interface EventAbout {
  event: SandboxEvent;
  kind: Kind;
  recordId: string;
}

/** Beyond this many unsettled deliveries new ones are abandoned at once: a dead receiver must not fill the memory. */
const MAX_OPEN = 20_000;

/** How long a delivery that is to be overtaken waits for the one that overtakes it, in case none comes. */
const OVERTAKE_WAIT_MS = 2_000;

/** A delivery that waits: for its timer, or for the attempt of another one. */
interface Hold {
  delivery: Delivery;
  isReleasedBy: (attempted: Delivery) => boolean;
  cancelTimer: () => void;
}

/** Sends events to their subscribers, with retries and with the faults that are switched on. */
export class Deliveries {
  readonly log = new DeliveryLog();
  /** Records (`kind/id`) that at least one delivered event was about. */
  readonly announced = new Set<string>();
  readonly #queue: PQueue;
  readonly #holds = new Map<string, Hold>();
  readonly #stopping = new AbortController();
  #quietWaiters: ((isQuiet: boolean) => void)[] = [];
  readonly #parts: DeliveryParts;

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
    this.#queue = new PQueue({ concurrency: parts.sending.concurrency });
  }

  /**
   * Sends an event to everyone subscribed. `fate` null: the faults decide. `afterEventId`: not before that
   * event's delivery to the same address is settled.
   */
  dispatch(about: EventAbout, fate: Fate | null = null, afterEventId: string | null = null): void {
    for (const registration of this.#parts.registrations.subscribedTo(about.event.type)) {
      // Its own generator: what is drawn for an event must not depend on which attempts of others failed.
      const random = this.#parts.random.fork(`${about.event.id}/${registration.id}`);
      const drawn = fate ?? drawFate(this.#parts.settings.faults, random);
      for (let copy = 1; copy <= drawn.copies; copy += 1) {
        const delivery = this.#create(about, registration, random.id('delivery-'));
        if (copy > 1) delivery.faults.push('duplicate');
        this.#start(delivery, drawn, afterEventId);
      }
    }
  }

  get open(): { underWay: number; waiting: number; retrying: number } {
    const waiting = this.log.countOpen('waiting');
    const retrying = this.log.countOpen('retrying');
    return { underWay: this.log.openCount - waiting - retrying, waiting, retrying };
  }

  /** Resolves once nothing is under way, waiting or to be retried; false if `timeoutMs` passes first. */
  async whenQuiet(timeoutMs: number): Promise<boolean> {
    if (this.log.openCount === 0) return true;
    return await new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => answer(false), timeoutMs);
      const answer = (isQuiet: boolean) => {
        clearTimeout(timer);
        this.#quietWaiters = this.#quietWaiters.filter((waiter) => waiter !== answer);
        resolve(isQuiet);
      };
      this.#quietWaiters.push(answer);
    });
  }

  /** Cuts attempts short and forgets what was still to be sent. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const answer of this.#quietWaiters) answer(false);
    this.#queue.clear();
    await this.#queue.onIdle();
  }

  #create({ event, kind, recordId }: EventAbout, registration: Registration, deliveryId: string): Delivery {
    const { id, type, created, data } = event;
    const delivery: Delivery = {
      id: deliveryId,
      registration,
      event,
      kind,
      recordId,
      body: JSON.stringify({ id, type, created, data }),
      outcome: 'queued',
      faults: [],
      attempts: [],
    };
    this.log.add(delivery);
    return delivery;
  }

  #start(delivery: Delivery, fate: Fate, afterEventId: string | null): void {
    if (fate.drop || this.log.openCount > MAX_OPEN) {
      delivery.faults.push(fate.drop ? 'drop' : 'backlog');
      this.#settle(delivery, fate.drop ? 'dropped' : 'abandoned');
      return;
    }
    if (fate.delayMs > 0) delivery.faults.push('delay');
    if (fate.overtaken || afterEventId !== null) delivery.faults.push('reorder');

    if (afterEventId !== null && this.#isUnsettled(afterEventId, delivery.registration)) {
      const isReleasedBy = (other: Delivery) => isSettled(other) && other.event.id === afterEventId;
      this.#hold(delivery, 'waiting', null, isReleasedBy);
    } else if (fate.overtaken && !this.#overtakesOther(delivery)) {
      const isReleasedBy = (other: Delivery) => other.event.id !== delivery.event.id;
      const timer = { ms: fate.delayMs + OVERTAKE_WAIT_MS, scaled: false };
      this.#hold(delivery, 'waiting', timer, isReleasedBy);
    } else if (fate.delayMs > 0) {
      this.#hold(delivery, 'waiting', { ms: fate.delayMs, scaled: false }, () => false);
    } else this.#sendAfter(delivery, this.#parts.sending.retryDelaysMs[0] ?? 0);
  }

  #sendAfter(delivery: Delivery, waitMs: number): void {
    if (waitMs <= 0) this.#enqueue(delivery);
    else this.#hold(delivery, 'retrying', { ms: waitMs, scaled: true }, () => false);
  }

  #isUnsettled(eventId: string, registration: Registration): boolean {
    return this.log.open.some(
      (delivery) => delivery.event.id === eventId && delivery.registration.id === registration.id,
    );
  }

  /** If each of them waited for the next one, their timers would send all of them in order. */
  #overtakesOther(delivery: Delivery): boolean {
    return [...this.#holds.values()].some(
      (hold) => hold.delivery.registration.id === delivery.registration.id && hold.isReleasedBy(delivery),
    );
  }

  /** Until the timer (null: none) or an attempt that `isReleasedBy` accepts lets it go. */
  #hold(
    delivery: Delivery,
    outcome: 'waiting' | 'retrying',
    timer: { ms: number; scaled: boolean } | null,
    isReleasedBy: Hold['isReleasedBy'],
  ): void {
    delivery.outcome = outcome;
    const release = () => this.#release(delivery);
    const cancelTimer =
      timer === null ? () => {} : this.#parts.timers.after(timer.ms, release, { scaled: timer.scaled });
    this.#holds.set(delivery.id, { delivery, isReleasedBy, cancelTimer });
  }

  #release(delivery: Delivery): void {
    this.#holds.get(delivery.id)?.cancelTimer();
    this.#holds.delete(delivery.id);
    this.#enqueue(delivery);
  }

  #enqueue(delivery: Delivery): void {
    delivery.outcome = 'queued';
    // The queue holds the promise: stop() awaits it through onIdle, and an attempt does not reject.
    this.#queue.add(() => this.#attempt(delivery));
  }

  async #attempt(delivery: Delivery): Promise<void> {
    if (isSettled(delivery) || this.#stopping.signal.aborted) return;
    const attempt = await sendOnce(
      delivery.registration,
      delivery.body,
      this.#parts.sending,
      this.#stopping.signal,
    );
    delivery.attempts.push(attempt);
    if (this.#stopping.signal.aborted) return;
    if (attempt.status === 410) this.#disable(delivery.registration);
    else if (attempt.status !== null && attempt.status >= 200 && attempt.status < 300) {
      this.announced.add(`${delivery.kind}/${delivery.recordId}`);
      this.#settle(delivery, 'delivered');
    } else this.#retry(delivery);
    this.#releaseOvertaken(delivery);
  }

  #retry(delivery: Delivery): void {
    // Its registration may have been disabled while this attempt was under way.
    if (isSettled(delivery)) return;
    const baseMs = this.#parts.sending.retryDelaysMs[delivery.attempts.length];
    if (baseMs === undefined) this.#settle(delivery, 'abandoned');
    else {
      const random = this.#parts.random.fork(`${delivery.id}/${delivery.attempts.length}`);
      this.#sendAfter(delivery, retryDelayMs(baseMs, random.next()));
    }
  }

  #releaseOvertaken(attempted: Delivery): void {
    for (const { delivery, isReleasedBy } of [...this.#holds.values()]) {
      if (delivery.registration.id === attempted.registration.id && isReleasedBy(attempted)) {
        this.#release(delivery);
      }
    }
  }

  #disable(registration: Registration): void {
    registration.disabled = true;
    for (const delivery of this.log.open) {
      if (delivery.registration.id === registration.id) this.#settle(delivery, 'cancelled');
    }
  }

  #settle(delivery: Delivery, outcome: Outcome): void {
    if (isSettled(delivery)) return;
    this.#holds.get(delivery.id)?.cancelTimer();
    this.#holds.delete(delivery.id);
    delivery.outcome = outcome;
    this.log.settle(delivery);
    if (this.log.openCount > 0) return;
    for (const answer of this.#quietWaiters) answer(true);
  }
}

export type DeliveryView = ReturnType<typeof view>;

/** Settled deliveries that are remembered; those under way are kept besides. */
const MAX_SETTLED = 5_000;

const SETTLED: ReadonlySet<Outcome> = new Set(['delivered', 'dropped', 'abandoned', 'cancelled']);

function isSettled(delivery: Delivery): boolean {
  return SETTLED.has(delivery.outcome);
}

class DeliveryLog {
  readonly #open = new Map<string, Delivery>();
  #settled: DeliveryView[] = [];

  add(delivery: Delivery): void {
    this.#open.set(delivery.id, delivery);
  }

  /** Its outcome is final: only what the log shows of it is kept. */
  settle(delivery: Delivery): void {
    this.#open.delete(delivery.id);
    this.#settled.push(view(delivery));
    // In halves: removing one from the front each time would move the rest each time.
    if (this.#settled.length > MAX_SETTLED * 2) this.#settled = this.#settled.slice(-MAX_SETTLED);
  }

  get open(): Delivery[] {
    return [...this.#open.values()];
  }

  get openCount(): number {
    return this.#open.size;
  }

  countOpen(outcome: Outcome): number {
    return this.open.filter((delivery) => delivery.outcome === outcome).length;
  }

  /** Settled ones in the order in which they settled, then those under way. */
  list(): DeliveryView[] {
    return [...this.#settled.slice(-MAX_SETTLED), ...this.open.map(view)];
  }
}

function view(delivery: Delivery) {
  const { id, registration, event, kind, recordId, outcome, faults, attempts } = delivery;
  return {
    ...{ id, registrationId: registration.id, eventId: event.id, type: event.type, created: event.created },
    ...{ kind, recordId, outcome, faults: [...faults], attempts: [...attempts] },
  };
}
