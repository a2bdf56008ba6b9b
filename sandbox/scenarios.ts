import { z } from 'zod';
import { KINDS, type Kind } from '../src/compliance/kinds.ts';
import { describeError } from '../src/platform/errors.ts';
import type { EventAbout } from './deliveries.ts';
import { UNDISTURBED } from './faults.ts';
import { type LivelySettings, runLively } from './lively.ts';
import { isAllowed, nextVersion, operationNamed } from './machines.ts';
import { Problem } from './problems.ts';
import type { Random } from './random.ts';
import { recordId } from './records.ts';
import { shownId } from './shaping.ts';
import type { Change, Mutation, Upstream } from './upstream.ts';

export const STORY_NAMES = [
  'lost-policy-delete',
  'lost-vendor-removal',
  'overtaken-update',
  'lost-identification',
  'unannounced-assessment',
  'duplicate-delivery',
] as const;

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

/** The lively loop, of which at most one runs, and the stories. */
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
      // Shown by /_sandbox/state, which those read who wait for changes.
      this.#failure = describeError(error);
      this.#lively = null;
    });
    this.#lively = { settings, controller, done };
  }
}

/** A story ignores the options that it does not use. */
interface StoryRequest {
  kind?: Kind | undefined;
  /** The record to use, as readers see its id, instead of one picked by chance. */
  id?: string | undefined;
  copies?: number | undefined;
  clockSkewMs?: number | undefined;
}

/** Which records a story hit, and the events it gave out in order of their making, unsent ones included. */
interface StoryOutcome {
  records: { kind: Kind; id: string }[];
  events: { id: string; type: string; created: string; fate: string }[];
}

interface StoryParts {
  upstream: Upstream;
  random: Random;
  /** Keys (`kind/id`) of records that are not changed again, since a later change could repair what a story broke. */
  reserved: Set<string>;
}

type Story = (parts: StoryParts, request: StoryRequest) => StoryOutcome;

const DROPPED = { ...UNDISTURBED, drop: true };
const DEFAULT_COPIES = 3;

/**
 * The older of two events bears the later `created`, as if another clock had stamped it: a mirror that
 * goes by that field ends with the older state.
 */
const DEFAULT_CLOCK_SKEW_MS = 1_500;

/** Each stages one way in which a mirror goes wrong, independent of the faults that are set. */
const STORIES: Readonly<Record<(typeof STORY_NAMES)[number], Story>> = {
  'lost-policy-delete': (parts, request) => lostDelete(parts, 'policy', request),
  'lost-vendor-removal': (parts, request) => lostDelete(parts, 'vendor', request),
  'overtaken-update': overtakenUpdate,
  'lost-identification': lostIdentification,
  'unannounced-assessment': unannouncedAssessment,
  'duplicate-delivery': duplicateDelivery,
};

function lostDelete(parts: StoryParts, kind: Kind, request: StoryRequest): StoryOutcome {
  const id = choose(parts, kind, ['delete'], request.id);
  const change = parts.upstream.apply({ kind, op: 'delete', id });
  return outcome(parts, change, [[parts.upstream.announce(change, { fate: DROPPED }), 'dropped']]);
}

function overtakenUpdate(parts: StoryParts, request: StoryRequest): StoryOutcome {
  const { upstream } = parts;
  const kind = request.kind ?? 'policy';
  const ops =
    kind === 'risk_assessment' ? (['assess', 'mitigate'] as const) : (['update', 'update'] as const);
  const id = choose(parts, kind, [ops[0]], request.id);
  const older = upstream.apply({ kind, op: ops[0], id, fields: updateFields(upstream, kind, id, 'first') });
  const newer = upstream.apply({ kind, op: ops[1], id, fields: updateFields(upstream, kind, id, 'second') });
  const overtaking = upstream.announce(newer, { fate: UNDISTURBED });
  const overtaken = upstream.announce(older, {
    fate: UNDISTURBED,
    clockSkewMs: request.clockSkewMs ?? DEFAULT_CLOCK_SKEW_MS,
    ...(overtaking === null ? {} : { afterEventId: overtaking.event.id }),
  });
  return outcome(parts, newer, [
    [overtaken, 'arrives last'],
    [overtaking, 'arrives first'],
  ]);
}

function lostIdentification(parts: StoryParts): StoryOutcome {
  const { upstream } = parts;
  const kind = 'risk_assessment';
  const created = upstream.apply(newAssessment('Assessment whose first event is lost'));
  const first = upstream.announce(created, { fate: DROPPED });
  const assessed = upstream.apply({
    kind,
    op: 'assess',
    id: created.id,
    fields: { likelihood: 3, impact: 3 },
  });
  const second = upstream.announce(assessed, { fate: UNDISTURBED });
  return outcome(parts, assessed, [
    [first, 'dropped'],
    [second, 'delivered'],
  ]);
}

function unannouncedAssessment(parts: StoryParts): StoryOutcome {
  return outcome(parts, parts.upstream.apply(newAssessment('Assessment that nobody is told of')), []);
}

function duplicateDelivery(parts: StoryParts, request: StoryRequest): StoryOutcome {
  const { upstream } = parts;
  const kind = request.kind ?? 'vendor';
  const copies = request.copies ?? DEFAULT_COPIES;
  const op = kind === 'risk_assessment' ? 'assess' : 'update';
  const id = choose(parts, kind, [op], request.id);
  const change = upstream.apply({ kind, op, id, fields: updateFields(upstream, kind, id, 'only') });
  const about = upstream.announce(change, { fate: { ...UNDISTURBED, copies } });
  return outcome(parts, change, [[about, `delivered ${copies} times`]]);
}

function newAssessment(name: string): Mutation {
  return { kind: 'risk_assessment', op: 'create', fields: { name, category: 'Operations' } };
}

/** Some of it is in events (a policy's name and version), some only in the API (its owner). */
function updateFields(upstream: Upstream, kind: Kind, id: string, which: string) {
  const record = upstream.state.get(kind, id);
  if (kind === 'risk_assessment') return { note: `${which} assessment` };
  if (kind === 'vendor') return { contact: `${which}-contact@vendor.example` };
  return {
    name: `${String(record?.name).replace(/ \((?:first|second|only) edit\)$/, '')} (${which} edit)`,
    version: nextVersion(String(record?.version)),
    owner: `${which} owner`,
  };
}

/** The record asked for, or one by chance among those that allow all of `ops` and that no story has used. */
function choose({ upstream, random, reserved }: StoryParts, kind: Kind, ops: string[], id?: string): string {
  if (id !== undefined) return upstream.idShownAs(kind, id);
  const operations = ops.map((op) => operationNamed(kind, op)!);
  const fitting = upstream.state
    .list(kind)
    .filter((record) => operations.every((operation) => isAllowed(operation, record.status)))
    .map((record) => recordId(kind, record))
    .filter((candidate) => !reserved.has(`${kind}/${candidate}`));
  const known = fitting.filter((candidate) => isKnowable(upstream, kind, candidate));
  const chosen = random.pick(known.length > 0 ? known : fitting);
  if (chosen === undefined) {
    throw new Problem(409, 'no_such_record', `No ${kind} is left for this story; create one first.`);
  }
  return chosen;
}

/** A story about a record that the mirror does not know would show nothing. */
function isKnowable(upstream: Upstream, kind: Kind, id: string): boolean {
  return kind !== 'risk_assessment' || upstream.deliveries.announced.has(`${kind}/${id}`);
}

function outcome(
  { reserved, upstream }: StoryParts,
  { kind, id }: Change,
  events: [EventAbout | null, string][],
): StoryOutcome {
  reserved.add(`${kind}/${id}`);
  return {
    records: [{ kind, id: String(shownId(kind, id, upstream.shapes)) }],
    events: events.flatMap(([about, fate]) =>
      about === null
        ? []
        : [{ id: about.event.id, type: about.event.type, created: about.event.created, fate }],
    ),
  };
}
