import { parseJson } from '../../compliance/json.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import { MirrorError, NotMigrated, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import type {
  AcceptOutcome,
  Applied,
  BackfillStore,
  ClaimedEvent,
  GapChange,
  InboxStore,
  IncomingEvent,
  ProvisionalOutcome,
  ReadObject,
} from '../store.ts';
import type { ThreadVerb } from './thread-turns.ts';

/** What passes between the event loop and the threads that hold the file. */

export type Asked =
  /** First of all, and once. */
  | { what: 'open'; path: string; isReader: boolean }
  | Call
  /** Once all that was called has been answered. */
  | { what: 'close' };

export interface Call {
  what: 'call';
  id: number;
  verb: ThreadVerb;
  args: readonly unknown[];
}

export type Answer =
  | { what: 'migrating' }
  | { what: 'backed up'; to: string }
  /** With the gaps that were opened as it was. */
  | { what: 'opened'; gaps: GapChange[] }
  | { what: 'not opened'; error: CrossingError }
  | Done;

/** What came of a call, and what it has done to gaps; absent: nothing. */
export type Done = { what: 'done'; id: number; gaps?: GapChange[] } & (
  | { value: unknown }
  | { error: CrossingError }
);

/**
 * What of a value can cross: callers may hand over more than a verb asks for, as an object with methods of its own. Data goes
 * as it is, and everything else is left out.
 */
export function dataOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(dataOf);
  if (typeof value !== 'object' || value === null) return typeof value === 'function' ? undefined : value;
  if (value instanceof Uint8Array || value instanceof Set || value instanceof Map) return value;
  const prototype = Object.getPrototypeOf(value) as unknown;
  if (prototype !== Object.prototype && prototype !== null) return undefined;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, dataOf(each)]));
}

/** An error as a message: a class would arrive as a plain Error, without what we added to it. */
export interface CrossingError {
  kind: 'StoreUnavailable' | 'NotMigrated' | 'UsageError' | 'MirrorError' | 'Error';
  name: string;
  message: string;
  stack: string | undefined;
  code: unknown;
  remedy: string | undefined;
  retryable: boolean;
  fatal: boolean;
  cause: CrossingError | null;
}

export function crossing(error: unknown): CrossingError {
  const { name, message, stack, cause } = error instanceof Error ? error : new Error(String(error));
  return {
    ...{ kind: kindOf(error), name, message, stack },
    code: (error as { code?: unknown } | null)?.code,
    remedy: error instanceof MirrorError ? error.remedy : undefined,
    retryable: error instanceof MirrorError && error.retryable,
    fatal: error instanceof StoreUnavailable && error.fatal,
    cause: cause === undefined ? null : crossing(cause),
  };
}

function kindOf(error: unknown): CrossingError['kind'] {
  if (error instanceof StoreUnavailable) return 'StoreUnavailable';
  if (error instanceof NotMigrated) return 'NotMigrated';
  if (error instanceof UsageError) return 'UsageError';
  return error instanceof MirrorError ? 'MirrorError' : 'Error';
}

/** The error as it was thrown on the other side: its class, its words, and what callers decide by. */
export function crossed(it: CrossingError): Error {
  const error = rebuilt(it);
  if (it.stack !== undefined) error.stack = it.stack;
  return error;
}

function rebuilt(it: CrossingError): Error {
  const { message, remedy, fatal, retryable } = it;
  const details = {
    ...(remedy === undefined ? {} : { remedy }),
    ...(it.cause === null ? {} : { cause: crossed(it.cause) }),
  };
  switch (it.kind) {
    case 'StoreUnavailable':
      return new StoreUnavailable(message, { ...details, fatal });
    case 'NotMigrated':
      return new NotMigrated(message, remedy);
    case 'UsageError':
      return new UsageError(message, remedy);
    case 'MirrorError':
      return new MirrorError(String(it.code), message, { ...details, retryable });
    case 'Error':
      return Object.assign(new Error(message, details), {
        name: it.name,
        ...(it.code === undefined ? {} : { code: it.code }),
      });
  }
}

/**
 * Verbs that cross for every delivery, and with every page, laid out so that it costs little. Events: bodies as they are and all
 * else as one JSON text, which takes less than half as long as copying value by value, and nothing twice. Records of a page: as
 * texts, which cross at a twentieth of what objects cost, and of which only those are taken apart that are not held just so.
 * Most come back as they were, so that of those nothing is told.
 */
type HotVerbs = Pick<InboxStore, 'accept' | 'claimEvents' | 'applyEvents' | 'releaseEvents'> &
  Pick<BackfillStore, 'applyReads'>;
type Args<Name extends keyof HotVerbs> = Parameters<HotVerbs[Name]>;

type Rest<List extends unknown[]> = List extends [unknown, ...infer Others] ? Others : never;

/** Without the payload, which the thread can read in the body: copied, it would cost more than to parse it again. */
const EVENT_COLUMNS: readonly (keyof IncomingEvent)[] = [
  ...(['id', 'type', 'created', 'createdMs', 'kind', 'recordId', 'known', 't', 'address'] as const),
];

/** Not what it says: whoever works on it gives it back, and the thread has it. */
const CLAIM_COLUMNS: readonly (keyof ClaimedEvent)[] = [
  ...(['seq', 'id', 'kind', 'recordId', 'receivedWall', 'attempts', 'owner'] as const),
];

/** Columns in their order, each of as many values as there are rows. */
type Columns = string;

/** Events that the other side has: it was given them with the claim. */
interface Claims {
  seqs: number[];
  owners: string[];
}

interface Outcomes {
  seqs: number[];
  outcomes: ProvisionalOutcome['outcome'][];
  errors: (string | null)[];
  /** What has been told anew, and so differs from what was claimed: by its place in the list. */
  named: { at: number; kind: ClaimedEvent['kind']; recordId: string | null }[];
}

/** In place of the number that an accepted event has. */
const DUPLICATE = -1;
const CONFLICTING = -2;

/** A line for each record: neither ids nor JSON as JSON.stringify writes it hold a line's end. One text crosses faster than many. */
interface Page {
  ids: string;
  jsons: string;
}

/** What came of records, by their places in the page; JSON, as it is cheaper than copying value by value. */
type Others = string;

/** What is told of a record that was alive and verified, and that the read has shown as it was. */
const AS_IT_WAS: Omit<Applied, 'id'> = {
  ...{ outcome: 'unchanged', differences: [], verified: true },
  ...{ lagMs: null, witness: true, announced: false, lacks: false },
};

export interface CrossingVerbs {
  accept(
    batch: { bodies: string[]; columns: Columns; unusable: Args<'accept'>[0]['unusable'] },
    ...rest: Rest<Args<'accept'>>
  ): Promise<number[]>;
  claimEvents(...args: Args<'claimEvents'>): Promise<Columns>;
  applyEvents(claims: Claims, ...rest: Rest<Args<'applyEvents'>>): Promise<Outcomes>;
  releaseEvents(claims: Claims): Promise<void>;
  applyReads(
    kind: Args<'applyReads'>[0],
    page: Page,
    ...rest: Rest<Rest<Args<'applyReads'>>>
  ): Promise<Others>;
}

/** On the event loop: the verbs as the port has them. */
export function hotVerbs(call: CrossingVerbs): HotVerbs {
  return {
    async accept({ events, unusable }, ...rest) {
      const bodies = events.map(({ body }) => body);
      const columns = toColumns(events, EVENT_COLUMNS);
      const outcomes = await call.accept({ bodies, columns, unusable }, ...rest);
      return outcomes.map(toOutcome);
    },
    async claimEvents(...args) {
      return fromColumns<ClaimedEvent>(await call.claimEvents(...args), CLAIM_COLUMNS);
    },
    async applyEvents(events, ...rest) {
      const { seqs, outcomes, errors, named } = await call.applyEvents(toClaims(events), ...rest);
      const bySeq = new Map(events.map((event) => [event.seq, event]));
      const results = seqs.map(
        (seq, at): ProvisionalOutcome => ({
          ...{ event: bySeq.get(seq)!, outcome: outcomes[at]!, error: errors[at]! },
        }),
      );
      for (const { at, kind, recordId } of named) {
        const result = results[at]!;
        result.event = { ...result.event, kind, recordId };
      }
      return results;
    },
    async releaseEvents(events) {
      await call.releaseEvents(toClaims(events));
    },
    async applyReads(kind, objects, read, context) {
      const page: Page = {
        ids: objects.map(({ id }) => id).join('\n'),
        jsons: objects.map((object) => object.json ?? JSON.stringify(object.data)).join('\n'),
      };
      const others = JSON.parse(await call.applyReads(kind, page, read, context)) as [number, Applied][];
      const applied: Applied[] = objects.map(({ id }) => ({ id, ...AS_IT_WAS }));
      for (const [at, one] of others) applied[at] = one;
      return applied;
    },
  };
}

/** In the thread: the same over the store. */
export function crossingVerbs(store: HotVerbs): CrossingVerbs {
  const claimed = new Map<number, ClaimedEvent>();
  // One that is not here was worked on, or is claimed anew by another: the store leaves such out, too.
  const held = ({ seqs, owners }: Claims) =>
    seqs.flatMap((seq, at) => {
      const event = claimed.get(seq);
      return event?.owner === owners[at] ? [event!] : [];
    });
  const forget = (events: readonly ClaimedEvent[]) => {
    for (const { seq } of events) claimed.delete(seq);
  };
  return {
    async accept({ bodies, columns, unusable }, ...rest) {
      const events = fromColumns<IncomingEvent>(columns, EVENT_COLUMNS);
      for (const [at, event] of events.entries()) event.body = bodies[at]!;
      return (await store.accept({ events, unusable }, ...rest)).map(toNumber);
    },
    async claimEvents(...args) {
      const events = await store.claimEvents(...args);
      for (const event of events) claimed.set(event.seq, event);
      return toColumns(events, CLAIM_COLUMNS);
    },
    async applyEvents(claims, ...rest) {
      const results = await store.applyEvents(held(claims), ...rest);
      const events = results.map(({ event }) => event);
      const named = events.flatMap(({ seq, kind, recordId }, at) =>
        claimed.get(seq)?.recordId === recordId ? [] : [{ at, kind, recordId }],
      );
      forget(events);
      return {
        seqs: events.map(({ seq }) => seq),
        outcomes: results.map(({ outcome }) => outcome),
        errors: results.map(({ error }) => error),
        named,
      };
    },
    async releaseEvents(claims) {
      const events = held(claims);
      forget(events);
      await store.releaseEvents(events);
    },
    async applyReads(kind, { ids, jsons }, read, context) {
      // Of no records there is no line, and not an empty one.
      const lines = jsons === '' ? [] : jsons.split('\n');
      const named = ids.split('\n');
      const objects = lines.map((json, at) => new CrossedObject(named[at]!, json));
      const applied = await store.applyReads(kind, objects, read, context);
      return JSON.stringify([...applied.entries()].filter(([, one]) => !isAsItWas(one)));
    },
  };
}

function toClaims(events: readonly ClaimedEvent[]): Claims {
  return { seqs: events.map(({ seq }) => seq), owners: events.map(({ owner }) => owner) };
}

function toNumber(outcome: AcceptOutcome): number {
  if (outcome.status === 'accepted') return outcome.seq;
  return outcome.conflicting ? CONFLICTING : DUPLICATE;
}

function toOutcome(number: number): AcceptOutcome {
  if (number > 0) return { status: 'accepted', seq: number };
  return { status: 'duplicate', conflicting: number === CONFLICTING };
}

function toColumns<Row>(rows: readonly Row[], keys: readonly (keyof Row)[]): Columns {
  return JSON.stringify(keys.map((key) => rows.map((row) => row[key])));
}

function fromColumns<Row>(text: Columns, keys: readonly (keyof Row)[]): Row[] {
  const columns = JSON.parse(text) as unknown[][];
  return (columns[0] ?? []).map((_, at) => {
    const row: Partial<Record<keyof Row, unknown>> = {};
    for (let column = 0; column < keys.length; column += 1) row[keys[column]!] = columns[column]![at];
    return row as Row;
  });
}

class CrossedObject implements ReadObject {
  readonly id: string;
  readonly json: string;
  #data: JsonObject | undefined;

  constructor(id: string, json: string) {
    this.id = id;
    this.json = json;
  }

  get data(): JsonObject {
    this.#data ??= parseJson(this.json) as JsonObject;
    return this.#data;
  }
}

const isAsItWas = ({ outcome, verified, lagMs, witness, announced, lacks }: Applied): boolean =>
  outcome === 'unchanged' && verified && lagMs === null && witness && !announced && !lacks;
