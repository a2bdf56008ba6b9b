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
  Store,
} from '../store.ts';

/** The messages between the event loop and the threads that have the file open. */

/** What a thread is started with. Absent: it is some other thread. */
export interface ThreadData {
  storeFile?: { path: string; isReader: boolean };
}

/** The verbs of the port that are called on a thread; the others need no database, or take a function. */
export type ThreadVerb = Exclude<
  keyof Store,
  'engine' | 'watchGaps' | 'sharedTime' | 'notify' | 'listen' | 'close'
>;

/**
 * The classes in which verbs wait for a thread, which runs one at a time, first to last while none has waited too long.
 * `reports` only read and may take long (some are asked by a full sync): they have a thread and a connection of their own.
 */
export const CLASSES = ['deliveries', 'processing', 'operators', 'syncs', 'reports'] as const;
export type VerbClass = (typeof CLASSES)[number];

export type Asked =
  | Call
  /** The last message: the thread ends once all calls are answered. */
  | { what: 'close' };

export interface Call {
  what: 'call';
  id: number;
  verb: ThreadVerb;
  of: VerbClass;
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
export type HotVerbs = Pick<InboxStore, 'accept' | 'claimEvents' | 'applyEvents' | 'releaseEvents'> &
  Pick<BackfillStore, 'applyReads'>;
type Args<Name extends keyof HotVerbs> = Parameters<HotVerbs[Name]>;

type Rest<List extends unknown[]> = List extends [unknown, ...infer Others] ? Others : never;

/** Without the payload: to copy it costs more than to parse the body again in the thread. */
export const EVENT_COLUMNS: readonly (keyof IncomingEvent)[] = [
  ...(['id', 'type', 'created', 'createdMs', 'kind', 'recordId', 'known', 't', 'address'] as const),
];

/** Without type and body: the thread keeps those until the event comes back. */
export const CLAIM_COLUMNS: readonly (keyof ClaimedEvent)[] = [
  ...(['seq', 'id', 'kind', 'recordId', 'receivedWall', 'attempts', 'owner'] as const),
];

/** JSON: one array of values for each column, in the order of the column names. */
export type Columns = string;

/** Which claimed events: the thread keeps the rest of them. */
export const CLAIM_KEYS: readonly (keyof ClaimedEvent)[] = ['seq', 'owner'];

/** An outcome, and the record of its event, which may have been recognised since it was claimed. */
export type Outcome = Pick<ClaimedEvent, 'seq' | 'recordId'> & Omit<ProvisionalOutcome, 'event'>;
export const OUTCOME_COLUMNS: readonly (keyof Outcome)[] = ['seq', 'recordId', 'outcome', 'error'];

/** Instead of the number of an accepted event. */
const DUPLICATE = -1;
const CONFLICTING = -2;

/** One line for each record: neither ids nor the JSON of JSON.stringify contain a newline. One text crosses faster than many. */
export interface Page {
  ids: string;
  jsons: string;
}

/** JSON of the results that are not `AS_IT_WAS`, each with its index in the page; cheaper than copying value by value. */
type Others = string;

/** The result for a record that was alive and verified, and that the read has shown unchanged. */
export const AS_IT_WAS: Omit<Applied, 'id'> = {
  outcome: 'unchanged',
  differences: [],
  verified: true,
  lagMs: null,
  witness: true,
  announced: false,
  lacks: false,
};

export interface CrossingVerbs {
  accept(
    batch: { bodies: string[]; columns: Columns; unusable: Args<'accept'>[0]['unusable'] },
    ...rest: Rest<Args<'accept'>>
  ): Promise<number[]>;
  claimEvents(...args: Args<'claimEvents'>): Promise<Columns>;
  applyEvents(claims: Columns, ...rest: Rest<Args<'applyEvents'>>): Promise<Columns>;
  releaseEvents(claims: Columns): Promise<void>;
  applyReads(
    kind: Args<'applyReads'>[0],
    page: Page,
    ...rest: Rest<Rest<Args<'applyReads'>>>
  ): Promise<Others>;
}

export function toNumber(outcome: AcceptOutcome): number {
  if (outcome.status === 'accepted') return outcome.seq;
  return outcome.conflicting ? CONFLICTING : DUPLICATE;
}

export function toOutcome(number: number): AcceptOutcome {
  if (number > 0) return { status: 'accepted', seq: number };
  return { status: 'duplicate', conflicting: number === CONFLICTING };
}

export function toColumns<Row>(rows: readonly Row[], keys: readonly (keyof Row)[]): Columns {
  return JSON.stringify(keys.map((key) => rows.map((row) => row[key])));
}

export function fromColumns<Row>(text: Columns, keys: readonly (keyof Row)[]): Row[] {
  const columns = JSON.parse(text) as unknown[][];
  return (columns[0] ?? []).map((_, at) => {
    const row: Partial<Record<keyof Row, unknown>> = {};
    for (let column = 0; column < keys.length; column += 1) row[keys[column]!] = columns[column]![at];
    return row as Row;
  });
}
