import type { EventType, Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import type { Registration } from './registrations.ts';

export interface SandboxEvent {
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

export interface Attempt {
  at: string;
  /** Null: no answer; `error` says why. */
  status: number | null;
  error: string | null;
  durationMs: number;
}

export interface Delivery {
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

export type DeliveryView = ReturnType<typeof view>;

/** Settled deliveries that are remembered; those under way are kept besides. */
const MAX_SETTLED = 5_000;

const SETTLED: ReadonlySet<Outcome> = new Set(['delivered', 'dropped', 'abandoned', 'cancelled']);

export function isSettled(delivery: Delivery): boolean {
  return SETTLED.has(delivery.outcome);
}

export class DeliveryLog {
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
