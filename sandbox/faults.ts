import { z } from 'zod';
import { parseOrRefuse } from './problems.ts';
import type { Random } from './random.ts';
import { MAX_STALE_MS } from './state.ts';

/** Longer than any mirror's settling time; short enough that draining stays a matter of minutes. */
const MAX_DELAY_MS = 600_000;

const probability = z.number().min(0).max(1);

const delay = z.strictObject({
  probability,
  minMs: z.number().min(0).max(MAX_DELAY_MS),
  maxMs: z.number().min(0).max(MAX_DELAY_MS),
});

const faultFields = {
  /** Probability that a delivery is never sent, not even again. */
  drop: probability,
  /** Probability that a delivery is sent twice. */
  duplicate: probability,
  /** Probability that a delivery waits before its first attempt, and between which bounds. */
  delay: delay
    .refine(({ minMs, maxMs }) => minMs <= maxMs, 'minMs must not be above maxMs')
    .refine(({ probability, maxMs }) => probability === 0 || maxMs > 0, 'a delay needs minMs and maxMs'),
  /** Probability that a delivery is overtaken by the next one to the same address. */
  reorder: probability,
  /** Each read shows the state as of a moment up to this long ago, chosen anew per request. */
  staleMs: z.number().min(0).max(MAX_STALE_MS),
  /** Probability that an API request is answered 5xx, before it has any effect. */
  errorRate: probability,
  /** API requests a minute before 429, bursts up to the same number; null: no limit. */
  rateLimit: z.number().positive().nullable(),
  /** Probability that an API request is not answered. */
  hang: probability,
  /** Probability that a list's page lacks rows at its end while meta.total counts them. */
  truncatedPages: probability,
  payloads: z.enum(['thin', 'full']),
};

const faultsSchema = z.strictObject(faultFields);
export type Faults = z.infer<typeof faultsSchema>;

/** Any of the fields, and any of those of `delay`; those left out stay as they are. */
export const faultsPatchSchema = faultsSchema.extend({ delay: delay.partial() }).partial();

export const NO_FAULTS: Faults = {
  drop: 0,
  duplicate: 0,
  delay: { probability: 0, minMs: 0, maxMs: 0 },
  reorder: 0,
  staleMs: 0,
  errorRate: 0,
  rateLimit: null,
  hang: 0,
  truncatedPages: 0,
  payloads: 'full',
};

/** What becomes of one delivery on its way. `copies` counts the first one too. */
export interface Fate {
  drop: boolean;
  copies: number;
  delayMs: number;
  overtaken: boolean;
}

export const UNDISTURBED: Fate = { drop: false, copies: 1, delayMs: 0, overtaken: false };

export function drawFate(faults: Faults, random: Random): Fate {
  return {
    drop: random.chance(faults.drop),
    copies: random.chance(faults.duplicate) ? 2 : 1,
    delayMs: random.chance(faults.delay.probability)
      ? random.between(faults.delay.minMs, faults.delay.maxMs)
      : 0,
    overtaken: random.chance(faults.reorder),
  };
}

/** The live setting: parts read `current` each time, so that a change holds from the next request on. */
export class FaultSwitch {
  #faults: Faults;

  constructor(initial: Faults) {
    this.#faults = initial;
  }

  get current(): Faults {
    return this.#faults;
  }

  change(patch: z.infer<typeof faultsPatchSchema>): Faults {
    const delayed = { ...this.#faults.delay, ...patch.delay };
    this.#faults = parseOrRefuse(faultsSchema, { ...this.#faults, ...patch, delay: delayed });
    return this.#faults;
  }
}
