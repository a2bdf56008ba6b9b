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
  outcome: Outcome;
  faults: string[];
  attempts: Attempt[];
  cancel: AbortController;
  /** While it waits for another event's delivery to overtake it: lets it go. */
  overtake: AbortController | null;
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
  readonly #settled: DeliveryView[] = [];

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
    this.#queue = new PQueue({ concurrency: parts.sending.deliveryConcurrency });
  }

  /** Sends an event to all subscribers, as the faults let it. */
  dispatch(about: EventAbout): void {
    for (const registration of this.#parts.registrations.subscribedTo(about.event.type)) {
      const fate = drawFate(this.#parts.settings.faults);
      for (let copy = 1; copy <= fate.copies; copy += 1) {
        const delivery: Delivery = {
          id: newId('delivery-'),
          registration,
          ...about,
          outcome: 'queued',
          faults: copy > 1 ? ['duplicate'] : [],
          attempts: [],
          cancel: new AbortController(),
          overtake: null,
        };
        this.#unsettled.add(delivery);
        void this.#deliver(delivery, fate);
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
    return [...this.#settled, ...[...this.#unsettled].map(view)];
  }

  /** Waits until nothing is under way, waiting or to be retried. False: `timeoutMs` has passed first. */
  async whenQuiet(timeoutMs: number): Promise<boolean> {
    const until = performance.now() + timeoutMs;
    while (this.#unsettled.size > 0 && performance.now() < until) await sleep(QUIET_LOOK_MS);
    return this.#unsettled.size === 0;
  }

  /** Cuts attempts short and forgets what was still to be sent. */
  async stop(): Promise<void> {
    this.#queue.clear();
    for (const { cancel } of this.#unsettled) cancel.abort();
    this.#unsettled.clear();
    await this.#queue.onIdle();
  }

  /** Never rejects. Makes the outcome final; only what is shown of the delivery is remembered. */
  async #deliver(delivery: Delivery, fate: Fate): Promise<void> {
    delivery.outcome = await this.#outcomeOf(delivery, fate);
    this.#unsettled.delete(delivery);
    this.#settled.push(view(delivery));
    if (this.#settled.length > MAX_SETTLED) this.#settled.shift();
  }

  async #outcomeOf(delivery: Delivery, fate: Fate): Promise<Outcome> {
    const { faults, registration, attempts, event } = delivery;
    const { signal } = delivery.cancel;
    const { id, type, created, data } = event;
    // The same for every attempt.
    const body = JSON.stringify({ id, type, created, data });
    if (fate.drop || this.#unsettled.size > MAX_OPEN) {
      faults.push(fate.drop ? 'drop' : 'backlog');
      return fate.drop ? 'dropped' : 'abandoned';
    }
    if (fate.delayMs > 0 || fate.overtaken) await this.#hold(delivery, fate);
    const { retryDelaysMs, deliveryTimeoutMs } = this.#parts.sending;
    for (const [nth, delayMs] of retryDelaysMs.entries()) {
      const waitMs = nth === 0 ? delayMs : retryDelayMs(delayMs, Math.random());
      if (waitMs > 0) {
        delivery.outcome = 'retrying';
        await this.#parts.timers.sleep(waitMs, signal);
      }
      if (signal.aborted) return 'cancelled';
      delivery.outcome = 'queued';
      const send = () => sendOnce(registration, body, deliveryTimeoutMs, signal);
      const attempt = (await this.#queue.add(send))!;
      attempts.push(attempt);
      if (signal.aborted) return 'cancelled';
      for (const { overtake } of this.#othersTo(delivery)) overtake?.abort();
      const status = attempt.status ?? 0;
      if (status === 410) {
        this.#disable(registration);
        return 'cancelled';
      }
      if (status >= 200 && status < 300) {
        this.announced.add(`${delivery.kind}/${delivery.recordId}`);
        return 'delivered';
      }
    }
    return 'abandoned';
  }

  /** Waits as the faults say. */
  async #hold(delivery: Delivery, { delayMs, overtaken }: Fate): Promise<void> {
    if (delayMs > 0) delivery.faults.push('delay');
    if (overtaken) delivery.faults.push('reorder');
    // It waits only if no other waits to be overtaken: otherwise all would wait and be sent in order by their timers.
    const waits = overtaken && !this.#othersTo(delivery).some(({ overtake }) => overtake !== null);
    const waitMs = delayMs + (waits ? OVERTAKE_WAIT_MS : 0);
    if (waitMs === 0) return;
    delivery.outcome = 'waiting';
    delivery.overtake = waits ? new AbortController() : null;
    const ends = [delivery.cancel, ...(delivery.overtake ? [delivery.overtake] : [])];
    const signal = AbortSignal.any(ends.map((each) => each.signal));
    await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    delivery.overtake = null;
  }

  /** The unsettled deliveries of other events to the same registration. */
  #othersTo({ event, registration }: Delivery): Delivery[] {
    return [...this.#unsettled].filter(
      (other) => other.event.id !== event.id && other.registration.id === registration.id,
    );
  }

  #disable(registration: Registration): void {
    registration.disabled = true;
    for (const each of this.#unsettled) if (each.registration.id === registration.id) each.cancel.abort();
  }
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
