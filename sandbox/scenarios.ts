import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { nextMutation } from './changes.ts';
import { type Faults, NO_FAULTS, type Settings } from './faults.ts';
import { between } from './random.ts';
import { recordId } from './records.ts';
import type { Upstream } from './upstream.ts';

/** What goes wrong while a scenario makes its changes. */
const FAULTS = {
  'good day': NO_FAULTS,
  /** Each way in which a delivery can go wrong, and an API that fails now and then and lags a little behind. */
  'bad day': {
    ...NO_FAULTS,
    drop: 0.15,
    duplicate: 0.15,
    delay: { probability: 0.25, minMs: 100, maxMs: 1_500 },
    reorder: 0.15,
    staleMs: 200,
    errorRate: 0.02,
  },
  /** The service goes on inside, but nothing comes out: its API fails, and its deliveries are lost. */
  outage: { ...NO_FAULTS, drop: 1, errorRate: 1 },
} as const satisfies Record<string, Faults>;

const LASTING = ['good day', 'bad day', 'outage'] as const;
export const SCENARIO_NAMES = [...LASTING, 'mass deletion'] as const;

const MAX_SECONDS = 86_400;
const DEFAULT_SECONDS = 30;
/** With more changes, the pauses would be shorter than a timer can be. */
const MAX_PER_SECOND = 500;
const DEFAULT_PER_SECOND = 4;
const MAX_WAIT_MS = 600_000;
/** The pause between two changes differs from its average by up to this share. */
const PAUSE_SPREAD = 0.5;
/** The part of the vendors that a mass deletion deletes: more than a mirror should believe without asking. */
const MASS = 0.75;

export const scenarioSchema = z.union(
  [
    z.strictObject({
      name: z.enum(LASTING),
      seconds: z.number().positive().max(MAX_SECONDS).default(DEFAULT_SECONDS),
      perSecond: z.number().positive().max(MAX_PER_SECOND).default(DEFAULT_PER_SECOND),
    }),
    z.strictObject({ name: z.literal('mass deletion') }),
    // Waits so long for the deliveries that are still under way.
    z.strictObject({ name: z.literal('stop'), waitMs: z.int().min(0).max(MAX_WAIT_MS).default(0) }),
  ],
  `one of ${LASTING.join(', ')} (seconds, perSecond), mass deletion, stop (waitMs)`,
);

/** Plays at most one scenario at a time. A new one ends the one before. */
export class Scenarios {
  readonly #upstream: Upstream;
  readonly #settings: Settings;
  #running: { name: string; until: string; controller: AbortController; done: Promise<void> } | null = null;

  constructor(upstream: Upstream, settings: Settings) {
    this.#upstream = upstream;
    this.#settings = settings;
  }

  get running(): { name: string; until: string } | null {
    return this.#running && { name: this.#running.name, until: this.#running.until };
  }

  async run(request: z.infer<typeof scenarioSchema>) {
    await this.stop();
    if (request.name === 'stop') {
      const quiet = await this.#upstream.deliveries.whenQuiet(request.waitMs);
      return { name: request.name, quiet, ...this.#upstream.deliveries.open };
    }
    if (request.name === 'mass deletion') return { name: request.name, deleted: this.#deleteMany() };
    const { name, seconds, perSecond } = request;
    const controller = new AbortController();
    const signal = AbortSignal.any([controller.signal, AbortSignal.timeout(seconds * 1000)]);
    const until = new Date(Date.now() + seconds * 1000).toISOString();
    this.#running = { name, until, controller, done: this.#play(FAULTS[name], perSecond, signal) };
    return { name, until };
  }

  /** Resolves after the last change, with the faults as they were before. */
  async stop(): Promise<void> {
    this.#running?.controller.abort();
    await this.#running?.done;
  }

  async #play(faults: Faults, perSecond: number, signal: AbortSignal): Promise<void> {
    const before = this.#settings.faults;
    this.#settings.faults = faults;
    while (!signal.aborted) {
      const mutation = nextMutation(this.#upstream);
      if (mutation !== null) this.#upstream.announce(this.#upstream.apply(mutation));
      const waitMs = (1000 / perSecond) * between(1 - PAUSE_SPREAD, 1 + PAUSE_SPREAD);
      await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    }
    this.#settings.faults = before;
    this.#running = null;
  }

  /** Each with its event. */
  #deleteMany(): string[] {
    const vendors = this.#upstream.state.list('vendor');
    const ids = vendors
      .slice(0, Math.ceil(vendors.length * MASS))
      .map((record) => recordId('vendor', record));
    for (const id of ids) {
      this.#upstream.announce(this.#upstream.apply({ kind: 'vendor', op: 'delete', id }));
    }
    return ids;
  }
}
