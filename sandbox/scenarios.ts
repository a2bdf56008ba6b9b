import { z } from 'zod';
import { KINDS } from '../src/compliance/kinds.ts';
import { describeError } from '../src/platform/errors.ts';
import { type LivelySettings, runLively } from './lively.ts';
import type { Random } from './random.ts';
import { STORIES, STORY_NAMES, type StoryOutcome } from './stories.ts';
import type { Upstream } from './upstream.ts';

/** Above this the loop's pauses are shorter than a timer can keep. */
const MAX_PER_SECOND = 500;
const DEFAULT_PER_SECOND = 5;
const DEFAULT_MAX_RECORDS = 200;
const MAX_MAX_RECORDS = 20_000;
const MAX_COPIES = 20;
const MAX_CLOCK_SKEW_MS = 3_600_000;

export const scenarioSchema = z.union(
  [
    z.strictObject({
      name: z.literal('lively'),
      perSecond: z.number().positive().max(MAX_PER_SECOND).default(DEFAULT_PER_SECOND),
      maxRecords: z.int().positive().max(MAX_MAX_RECORDS).default(DEFAULT_MAX_RECORDS),
    }),
    z.strictObject({ name: z.literal('stop') }),
    z.strictObject({
      name: z.enum(STORY_NAMES),
      kind: z.enum(KINDS).optional(),
      id: z.string().optional(),
      copies: z.int().min(2).max(MAX_COPIES).optional(),
      clockSkewMs: z.number().min(-MAX_CLOCK_SKEW_MS).max(MAX_CLOCK_SKEW_MS).optional(),
    }),
  ],
  `one of lively (perSecond, maxRecords), stop, ${STORY_NAMES.join(', ')} (kind, id, copies, clockSkewMs)`,
);

type ScenarioAnswer = { name: string } & Partial<StoryOutcome>;

/** What runs by itself, and what is staged on demand. At most one lively loop at a time. */
export class Scenarios {
  readonly #upstream: Upstream;
  readonly #random: Random;
  readonly #reserved = new Set<string>();
  #lively: { settings: LivelySettings; controller: AbortController; done: Promise<void> } | null = null;
  #failure: string | null = null;

  constructor(upstream: Upstream, random: Random) {
    this.#upstream = upstream;
    this.#random = random;
  }

  get status(): { lively: LivelySettings | null; failure: string | null } {
    return { lively: this.#lively?.settings ?? null, failure: this.#failure };
  }

  async run(request: z.infer<typeof scenarioSchema>): Promise<ScenarioAnswer> {
    if (request.name === 'stop') {
      await this.stop();
      return { name: 'stop' };
    }
    if ('perSecond' in request) {
      await this.stop();
      this.#start({ perSecond: request.perSecond, maxRecords: request.maxRecords });
      return { name: 'lively' };
    }
    const parts = { upstream: this.#upstream, random: this.#random, reserved: this.#reserved };
    return { name: request.name, ...STORIES[request.name](parts, request) };
  }

  /** Resolves once the loop has made its last change. */
  async stop(): Promise<void> {
    const lively = this.#lively;
    this.#lively = null;
    lively?.controller.abort();
    await lively?.done;
  }

  #start(settings: LivelySettings): void {
    const controller = new AbortController();
    this.#failure = null;
    const done = runLively(
      this.#upstream,
      this.#random.fork('lively'),
      settings,
      this.#reserved,
      controller.signal,
    ).catch((error: unknown) => {
      // Shown by /_sandbox/state, where whoever waits for changes looks.
      this.#failure = describeError(error);
      this.#lively = null;
    });
    this.#lively = { settings, controller, done };
  }
}
