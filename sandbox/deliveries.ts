import { setTimeout as sleep } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { EventType, Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import { drawFate, type Fate, type Settings } from './faults.ts';
import { newId } from './random.ts';
import type { Registration, Registrations } from './registrations.ts';
import { type Attempt, retryDelayMs, sendOnce } from './send.ts';
import type { ScaledTimers } from './time.ts';

interface SandboxEvent {
  id: string;
  type: EventType;
  /** ISO 8601, UTC, milliseconds. */
  created: string;
  data: JsonObject;
}

/**
 * waiting: held back by a fault · queued: due · retrying: failed, will be sent again · final outcomes:
 * delivered · dropped: by a fault · abandoned: no attempt left · cancelled: the registration was disabled.
 */
type Outcome = 'waiting' | 'queued' | 'retrying' | 'delivered' | 'dropped' | 'abandoned' | 'cancelled';

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
  /** Set while it waits for its timer, or for another event's delivery to overtake it. */
  hold: { isToBeOvertaken: boolean; cancelTimer: () => void } | null;
}

export interface DeliverySettings {
  /** For one attempt. */
  deliveryTimeoutMs: number;
  /** How many attempts may be under way at once, over all registrations. */
  deliveryConcurrency: number;
  /** The wait before each attempt, counted from the attempt before it. There are as many attempts as entries. */
  retryDelaysMs: readonly number[];
}

interface DeliveryParts {
  sending: DeliverySettings;
  settings: Readonly<Settings>;
  registrations: Registrations;
  timers: ScaledTimers;
}

export interface EventAbout {
  event: SandboxEvent;
  kind: Kind;
  recordId: string;
}

/** Above this many unsettled deliveries, new ones are abandoned at once: a dead receiver must not fill the memory. */
const MAX_OPEN = 20_000;

/** How long a delivery that is to be overtaken waits for another one, because none may come. */
const OVERTAKE_WAIT_MS = 2_000;

/** How many settled deliveries are remembered. */
const MAX_SETTLED = 5_000;
/** How often to look whether all is settled. */
const QUIET_LOOK_MS = 20;

/** Sends events to their subscribers, with retries and with the faults that are switched on. */
export class Deliveries {
  /** Records (`kind/id`) that at least one delivered event was about. */
  readonly announced = new Set<string>();
  readonly #parts: DeliveryParts;
  readonly #queue: PQueue;
  /** In the order in which they were made. */
  readonly #unsettled = new Set<Delivery>();
  #settled: DeliveryView[] = [];
  readonly #stopping = new AbortController();

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
    this.#queue = new PQueue({ concurrency: parts.sending.deliveryConcurrency });
  }

  /** Sends an event to all subscribers, as the faults let it. */
  dispatch(about: EventAbout): void {
    const { id, type, created, data } = about.event;
    const body = JSON.stringify({ id, type, created, data });
    for (const registration of this.#parts.registrations.subscribedTo(type)) {
      const fate = drawFate(this.#parts.settings.faults);
      for (let copy = 1; copy <= fate.copies; copy += 1) {
        const delivery: Delivery = {
          id: newId('delivery-'),
          registration,
          ...about,
          body,
          outcome: 'queued',
          faults: copy > 1 ? ['duplicate'] : [],
          attempts: [],
          hold: null,
        };
        this.#unsettled.add(delivery);
        this.#start(delivery, fate);
      }
    }
  }

  get open(): { underWay: number; waiting: number; retrying: number } {
    const count = (outcome: Outcome) =>
      [...this.#unsettled].filter((delivery) => delivery.outcome === outcome).length;
    return { underWay: count('queued'), waiting: count('waiting'), retrying: count('retrying') };
  }

  /** The settled deliveries in the order in which they settled, then those under way. */
  list(): DeliveryView[] {
    return [...this.#settled.slice(-MAX_SETTLED), ...[...this.#unsettled].map(view)];
  }

  /** Waits until nothing is under way, waiting or to be retried. False: `timeoutMs` has passed first. */
  async whenQuiet(timeoutMs: number): Promise<boolean> {
    const until = performance.now() + timeoutMs;
    while (this.#unsettled.size > 0 && performance.now() < until && !this.#stopping.signal.aborted) {
      await sleep(QUIET_LOOK_MS);
    }
    return this.#unsettled.size === 0;
  }

  /** Cuts attempts short and forgets what was still to be sent. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#queue.clear();
    for (const delivery of this.#unsettled) endHold(delivery);
    await this.#queue.onIdle();
  }

  #start(delivery: Delivery, fate: Fate): void {
    if (fate.drop || this.#unsettled.size > MAX_OPEN) {
      delivery.faults.push(fate.drop ? 'drop' : 'backlog');
      this.#settle(delivery, fate.drop ? 'dropped' : 'abandoned');
      return;
    }
    if (fate.delayMs > 0) delivery.faults.push('delay');
    if (fate.overtaken) delivery.faults.push('reorder');
    // It waits only if no other waits to be overtaken: otherwise all would wait and be sent in order by their timers.
    const waits = fate.overtaken && !this.#othersTo(delivery).some((other) => other.hold?.isToBeOvertaken);
    const waitMs = fate.delayMs + (waits ? OVERTAKE_WAIT_MS : 0);
    if (waitMs === 0) this.#sendAfter(delivery, this.#parts.sending.retryDelaysMs[0] ?? 0);
    else {
      const timer = setTimeout(() => this.#enqueue(delivery), waitMs);
      delivery.outcome = 'waiting';
      delivery.hold = { isToBeOvertaken: waits, cancelTimer: () => clearTimeout(timer) };
    }
  }

  /** The unsettled deliveries of other events to the same registration. */
  #othersTo({ event, registration }: Delivery): Delivery[] {
    return [...this.#unsettled].filter(
      (other) => other.event.id !== event.id && other.registration.id === registration.id,
    );
  }

  #sendAfter(delivery: Delivery, waitMs: number): void {
    if (waitMs <= 0) {
      this.#enqueue(delivery);
      return;
    }
    const cancelTimer = this.#parts.timers.after(waitMs, () => this.#enqueue(delivery));
    delivery.outcome = 'retrying';
    delivery.hold = { isToBeOvertaken: false, cancelTimer };
  }

  #enqueue(delivery: Delivery): void {
    endHold(delivery);
    delivery.outcome = 'queued';
    // Not awaited here: stop() waits for the queue, and an attempt never rejects.
    this.#queue.add(() => this.#attempt(delivery));
  }

  async #attempt(delivery: Delivery): Promise<void> {
    const { registration, body, attempts } = delivery;
    const { signal } = this.#stopping;
    if (isSettled(delivery) || signal.aborted) return;
    const attempt = await sendOnce(registration, body, this.#parts.sending.deliveryTimeoutMs, signal);
    attempts.push(attempt);
    if (signal.aborted) return;
    const { status } = attempt;
    if (status === 410) this.#disable(registration);
    else if (status !== null && status >= 200 && status < 300) {
      this.announced.add(`${delivery.kind}/${delivery.recordId}`);
      this.#settle(delivery, 'delivered');
    } else this.#retry(delivery);
    for (const other of this.#othersTo(delivery)) {
      if (other.hold?.isToBeOvertaken) this.#enqueue(other);
    }
  }

  #retry(delivery: Delivery): void {
    // Its registration may have been disabled while this attempt was under way.
    if (isSettled(delivery)) return;
    const baseMs = this.#parts.sending.retryDelaysMs[delivery.attempts.length];
    if (baseMs === undefined) this.#settle(delivery, 'abandoned');
    else this.#sendAfter(delivery, retryDelayMs(baseMs, Math.random()));
  }

  #disable(registration: Registration): void {
    registration.disabled = true;
    for (const delivery of [...this.#unsettled]) {
      if (delivery.registration.id === registration.id) this.#settle(delivery, 'cancelled');
    }
  }

  /** Makes the outcome final. Only what is shown of the delivery is remembered. */
  #settle(delivery: Delivery, outcome: Outcome): void {
    if (isSettled(delivery)) return;
    endHold(delivery);
    delivery.outcome = outcome;
    this.#unsettled.delete(delivery);
    this.#settled.push(view(delivery));
    // Trimmed to half now and then: removing one from the front each time would move all others each time.
    if (this.#settled.length > MAX_SETTLED * 2) this.#settled = this.#settled.slice(-MAX_SETTLED);
  }
}

const SETTLED: ReadonlySet<Outcome> = new Set(['delivered', 'dropped', 'abandoned', 'cancelled']);

const isSettled = (delivery: Delivery) => SETTLED.has(delivery.outcome);

function endHold(delivery: Delivery): void {
  delivery.hold?.cancelTimer();
  delivery.hold = null;
}

export type DeliveryView = ReturnType<typeof view>;

function view(delivery: Delivery) {
  const { id, registration, event, kind, recordId, outcome, faults, attempts } = delivery;
  return {
    id,
    registrationId: registration.id,
    eventId: event.id,
    type: event.type,
    created: event.created,
    kind,
    recordId,
    outcome,
    faults: [...faults],
    attempts: [...attempts],
  };
}
