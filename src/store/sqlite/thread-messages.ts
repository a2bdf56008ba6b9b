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

/** The messages between the event loop and the threads that have the file open. */

export type Asked =
  /** The first message. */
  | { what: 'open'; path: string; isReader: boolean }
  | Call
  /** The last message: the thread ends once all calls are answered. */
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
  /** `gaps`: those that opening the store has opened. */
  | { what: 'opened'; verbs: ThreadVerb[]; gaps: GapChange[] }
  | { what: 'not opened'; error: CrossingError }
  | Done;

/** The result of a call, and the gaps that it has opened or resolved, if any. */
export type Done = { what: 'done'; id: number; gaps?: GapChange[] } & (
  | { value: unknown }
  | { error: CrossingError }
);

/** The part of a value that can cross: data. A caller may pass an object that has methods besides what the verb asks for. */
export function dataOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(dataOf);
  if (typeof value !== 'object' || value === null) return typeof value === 'function' ? undefined : value;
  if (value instanceof Uint8Array || value instanceof Set || value instanceof Map) return value;
  const prototype = Object.getPrototypeOf(value) as unknown;
  if (prototype !== Object.prototype && prototype !== null) return undefined;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, dataOf(each)]));
}

const ERRORS: Readonly<Record<string, { prototype: Error }>> = {
  MirrorError,
  NotMigrated,
  StoreUnavailable,
  UsageError,
};
const FIELDS = ['name', 'message', 'stack', 'code', 'remedy', 'retryable', 'fatal'] as const;

/** An error as a message: copied as it is, it would arrive as a plain Error, without its class and our fields. */
export interface CrossingError {
  fields: { name: string; message: string };
  cause: CrossingError | null;
}

export function crossing(error: unknown): CrossingError {
  const from = (error instanceof Error ? error : new Error(String(error))) as Error & Record<string, unknown>;
  const fields = FIELDS.filter((each) => from[each] !== undefined).map((each) => [each, from[each]]);
  return {
    fields: Object.fromEntries(fields) as CrossingError['fields'],
    cause: from.cause === undefined ? null : crossing(from.cause),
  };
}

/** The error as it was thrown on the other side: its class, its message, and what callers decide by. */
export function crossed({ fields, cause }: CrossingError): Error {
  const error = new Error(fields.message, cause === null ? undefined : { cause: crossed(cause) });
  Object.setPrototypeOf(error, (ERRORS[fields.name] ?? Error).prototype);
  return Object.assign(error, fields);
}

/**
 * Verbs that are called for every delivery and every page cross in a cheaper form. Events: bodies as they are and all else as
 * one JSON text, which takes less than half as long as copying value by value. Records of a page: as one text, which costs a
 * twentieth of what objects do; only those that differ from their rows are parsed. Most are unchanged: those have no result.
 */
type HotVerbs = Pick<InboxStore, 'accept' | 'claimEvents' | 'applyEvents' | 'releaseEvents'> &
  Pick<BackfillStore, 'applyReads'>;
type Args<Name extends keyof HotVerbs> = Parameters<HotVerbs[Name]>;

type Rest<List extends unknown[]> = List extends [unknown, ...infer Others] ? Others : never;

/** Without the payload: to copy it costs more than to parse the body again in the thread. */
const EVENT_COLUMNS: readonly (keyof IncomingEvent)[] = [
  ...(['id', 'type', 'created', 'createdMs', 'kind', 'recordId', 'known', 't', 'address'] as const),
];

/** Without type and body: the thread keeps those until the event comes back. */
const CLAIM_COLUMNS: readonly (keyof ClaimedEvent)[] = [
  ...(['seq', 'id', 'kind', 'recordId', 'receivedWall', 'attempts', 'owner'] as const),
];

/** JSON: one array of values for each column, in the order of the column names. */
type Columns = string;

/** Claimed events, which the thread keeps. */
interface Claims {
  seqs: number[];
  owners: string[];
}

interface Outcomes {
  seqs: number[];
  outcomes: ProvisionalOutcome['outcome'][];
  errors: (string | null)[];
  /** Events whose record was recognised anew, so that it differs from the claim's: by index in the list. */
  named: { at: number; kind: ClaimedEvent['kind']; recordId: string | null }[];
}

/** Instead of the number of an accepted event. */
const DUPLICATE = -1;
const CONFLICTING = -2;

/** One line for each record: neither ids nor the JSON of JSON.stringify contain a newline. One text crosses faster than many. */
interface Page {
  ids: string;
  jsons: string;
}

/** JSON of the results that are not `AS_IT_WAS`, each with its index in the page; cheaper than copying value by value. */
type Others = string;

/** The result for a record that was alive and verified, and that the read has shown unchanged. */
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

/** On the event loop: the port's verbs over the thread's. */
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

/** In the thread: the verbs that cross over the store's. */
export function crossingVerbs(store: HotVerbs): CrossingVerbs {
  const claimed = new Map<number, ClaimedEvent>();
  // An event that is not here is finished, or claimed by another meanwhile: the store leaves such out, too.
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
      // No records are no lines, not one empty line.
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
