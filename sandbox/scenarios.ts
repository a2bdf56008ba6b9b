import { z } from 'zod';
import { KINDS, type Kind } from '../src/compliance/kinds.ts';
import type { JsonObject } from '../src/compliance/pointers.ts';
import type { EventAbout } from './deliveries.ts';
import { type Fate, UNDISTURBED } from './faults.ts';
import { runLively } from './lively.ts';
import { isAllowed, nextVersion, operationNamed } from './machines.ts';
import { Problem } from './problems.ts';
import type { Random } from './random.ts';
import { recordId } from './records.ts';
import { shownId } from './shaping.ts';
import type { Upstream } from './upstream.ts';

/** Changes of one record, and the fate of each event, with words for it. Null: the event is not sent. */
interface Story {
  kind: Kind;
  steps: { op: string; fields?: (record: JsonObject | null) => JsonObject; fate: [string, Fate] | null }[];
  /** The second event arrives first, and the first one has a later `created`. */
  isOvertaken?: boolean;
}

const DROPPED: [string, Fate] = ['dropped', { ...UNDISTURBED, drop: true }];
const THRICE: [string, Fate] = ['delivered 3 times', { ...UNDISTURBED, copies: 3 }];

/** The older event's `created` is later by this much. A mirror that relies on that field ends with the older state. */
const CLOCK_SKEW_MS = 1_500;

/** Each stages one way in which a mirror can go wrong, whatever faults are set. Those with a parameter work for any kind. */
const STORIES = {
  'lost-policy-delete': () => ({ kind: 'policy', steps: [{ op: 'delete', fate: DROPPED }] }),
  'lost-vendor-removal': () => ({ kind: 'vendor', steps: [{ op: 'delete', fate: DROPPED }] }),
  'overtaken-update': (kind = 'policy') => ({
    kind,
    steps: [
      { op: UPDATES[kind][0], fields: edit(kind, 'first'), fate: ['arrives last', UNDISTURBED] },
      { op: UPDATES[kind][1], fields: edit(kind, 'second'), fate: ['arrives first', UNDISTURBED] },
    ],
    isOvertaken: true,
  }),
  'lost-identification': () => ({
    kind: 'risk_assessment',
    steps: [
      { op: 'create', fields: assessment('Assessment whose first event is lost'), fate: DROPPED },
      { op: 'assess', fields: () => ({ likelihood: 3, impact: 3 }), fate: ['delivered', UNDISTURBED] },
    ],
  }),
  'unannounced-assessment': () => ({
    kind: 'risk_assessment',
    steps: [{ op: 'create', fields: assessment('Assessment without an event'), fate: null }],
  }),
  'duplicate-delivery': (kind = 'vendor') => ({
    kind,
    steps: [{ op: UPDATES[kind][0], fields: edit(kind, 'only'), fate: THRICE }],
  }),
} satisfies Record<string, (kind?: Kind) => Story>;

/** Two operations that a record of the kind allows one after the other. */
const UPDATES = {
  policy: ['update', 'update'],
  risk_assessment: ['assess', 'mitigate'],
  vendor: ['update', 'update'],
} as const;

const assessment = (name: string) => () => ({ name, category: 'Operations' });

/** Events show some of the fields (a policy's name and version); only the API shows others (its owner). */
const edit = (kind: Kind, which: string) => (record: JsonObject | null) => {
  if (kind === 'risk_assessment') return { note: `${which} assessment` };
  if (kind === 'vendor') return { contact: `${which}-contact@vendor.example` };
  return {
    name: `${String(record?.name).replace(/ \((?:first|second|only) edit\)$/, '')} (${which} edit)`,
    version: nextVersion(String(record?.version)),
    owner: `${which} owner`,
  };
};

export const STORY_NAMES = Object.keys(STORIES) as (keyof typeof STORIES)[];

/** With more changes, the pauses would be shorter than a timer can be. */
const MAX_PER_SECOND = 500;
const DEFAULT_PER_SECOND = 5;

export const scenarioSchema = z.union(
  [
    z.strictObject({
      name: z.literal('lively'),
      perSecond: z.number().positive().max(MAX_PER_SECOND).default(DEFAULT_PER_SECOND),
    }),
    z.strictObject({ name: z.literal('stop') }),
    z.strictObject({
      name: z.enum(STORY_NAMES),
      kind: z.enum(KINDS).optional(),
      // The record's id as readers see it; absent: a random record.
      id: z.string().optional(),
    }),
  ],
  `one of lively (perSecond), stop, ${STORY_NAMES.join(', ')} (kind, id)`,
);

/** Runs at most one lively loop, and plays the stories. */
export class Scenarios {
  readonly #upstream: Upstream;
  readonly #random: Random;
  /** Records (`kind/id`) that are not changed again, because a later change could repair what a story broke. */
  readonly #reserved = new Set<string>();
  #lively: { perSecond: number; controller: AbortController; done: Promise<void> } | null = null;

  constructor(upstream: Upstream, random: Random) {
    this.#upstream = upstream;
    this.#random = random;
  }

  get status(): { lively: { perSecond: number } | null } {
    return { lively: this.#lively && { perSecond: this.#lively.perSecond } };
  }

  async run(request: z.infer<typeof scenarioSchema>) {
    if (request.name === 'stop') {
      await this.stop();
      return { name: 'stop' };
    }
    if ('perSecond' in request) {
      await this.stop();
      this.#start(request.perSecond);
      return { name: 'lively' };
    }
    return { name: request.name, ...this.#play(STORIES[request.name](request.kind), request.id) };
  }

  /** Stops the loop. Resolves after its last change. */
  async stop(): Promise<void> {
    const lively = this.#lively;
    this.#lively = null;
    lively?.controller.abort();
    await lively?.done;
  }

  #start(perSecond: number): void {
    const controller = new AbortController();
    const random = this.#random.fork('lively');
    const done = runLively(this.#upstream, random, perSecond, this.#reserved, controller.signal);
    this.#lively = { perSecond, controller, done };
  }

  /** Returns the story's record, and its events in the order in which they were made. */
  #play({ kind, steps, isOvertaken = false }: Story, asked: string | undefined) {
    const upstream = this.#upstream;
    const isNew = steps[0]!.op === 'create';
    let id = isNew ? undefined : this.#choose(kind, steps[0]!.op, asked);
    const made = steps.map(({ op, fields, fate }) => {
      const record = id === undefined ? null : upstream.state.get(kind, id);
      const change = upstream.apply({ kind, op, id, fields: fields?.(record) });
      id = change.id;
      return { change, fate };
    });
    this.#reserved.add(`${kind}/${id}`);
    let before: EventAbout | null = null;
    const sent = (isOvertaken ? made.toReversed() : made).map(({ change, fate }) => {
      if (fate === null) return [];
      const late = isOvertaken && before !== null;
      const options = late ? { clockSkewMs: CLOCK_SKEW_MS, afterEventId: before!.event.id } : {};
      before = upstream.announce(change, { fate: fate[1], ...options });
      if (before === null) return [];
      const { type, created } = before.event;
      return [{ id: before.event.id, type, created, fate: fate[0] }];
    });
    return {
      records: [{ kind, id: String(shownId(kind, id!, upstream.shapes)) }],
      events: (isOvertaken ? sent.toReversed() : sent).flat(),
    };
  }

  /** The record asked for, or a random one that allows `op` and that no story has used. */
  #choose(kind: Kind, op: string, asked: string | undefined): string {
    const { state, deliveries } = this.#upstream;
    if (asked !== undefined) return this.#upstream.idShownAs(kind, asked);
    const operation = operationNamed(kind, op)!;
    const fitting = state
      .list(kind)
      .filter((record) => isAllowed(operation, record.status))
      .map((record) => recordId(kind, record))
      .filter((id) => !this.#reserved.has(`${kind}/${id}`));
    // A mirror can know an assessment only after an event, and a story about an unknown one would show nothing.
    const known = fitting.filter(
      (id) => kind !== 'risk_assessment' || deliveries.announced.has(`${kind}/${id}`),
    );
    const chosen = this.#random.pick(known.length > 0 ? known : fitting);
    if (chosen !== undefined) return chosen;
    throw new Problem(409, 'no_such_record', `No ${kind} is left for this story; create one first.`);
  }
}
