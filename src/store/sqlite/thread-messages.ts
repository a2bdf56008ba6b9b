import { MirrorError, NotMigrated, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import type {
  AcceptOutcome,
  BackfillStore,
  ClaimedEvent,
  GapChange,
  InboxStore,
  IncomingEvent,
  ProvisionalOutcome,
  Store,
} from '../store.ts';

/** The messages between the event loop and the store's threads. */

/** The data that a store's thread is started with. */
export interface ThreadData {
  storeFile?: { path: string; isReader: boolean };
}

/** The verbs of the port that run in a thread. The others need no database, or take a function. */
export type ThreadVerb = Exclude<
  keyof Store,
  'engine' | 'watchGaps' | 'sharedTime' | 'notify' | 'listen' | 'close'
>;

/**
 * The classes in which verbs wait for a thread, which runs one verb at a time. The first class goes first, unless another has waited
 * too long. `reports` only read and may take long (a full sync asks some of them): they have their own thread and connection.
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
  /** `gaps`: opened while the store was opened. */
  | { what: 'opened'; verbs: ThreadVerb[]; gaps: GapChange[] }
  | { what: 'not opened'; error: ErrorMessage }
  | Done;

/** The result of a call, and the gaps that it opened or resolved. */
export type Done = { what: 'done'; id: number; gaps?: GapChange[] } & (
  | { value: unknown }
  | { error: ErrorMessage }
);

/** The part of a value that can be copied. A caller may pass an object that also has methods. */
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

/** An error in a message. A copied error would arrive without its class and our fields. */
export interface ErrorMessage {
  fields: { name: string; message: string };
  cause: ErrorMessage | null;
}

export function errorToMessage(error: unknown): ErrorMessage {
  const from = (error instanceof Error ? error : new Error(String(error))) as Error & Record<string, unknown>;
  const fields = FIELDS.filter((each) => from[each] !== undefined).map((each) => [each, from[each]]);
  return {
    fields: Object.fromEntries(fields) as ErrorMessage['fields'],
    cause: from.cause === undefined ? null : errorToMessage(from.cause),
  };
}

/** The error as it was thrown in the thread, with its class and fields. */
export function errorFromMessage({ fields, cause }: ErrorMessage): Error {
  const error = new Error(fields.message, cause === null ? undefined : { cause: errorFromMessage(cause) });
  Object.setPrototypeOf(error, (ERRORS[fields.name] ?? Error).prototype);
  return Object.assign(error, fields);
}

/**
 * Verbs that are called for every delivery or every page have cheaper messages. Events: the bodies, and all other fields as one JSON
 * text, which takes less than half the time of copying value by value. Records of a page: one text, which costs a twentieth of
 * copying objects. Only records that differ from their rows are parsed, and only those have a result.
 */
export type HotVerbs = Pick<InboxStore, 'accept' | 'claimEvents' | 'applyEvents' | 'releaseEvents'> &
  Pick<BackfillStore, 'applyReads'>;
type Args<Name extends keyof HotVerbs> = Parameters<HotVerbs[Name]>;

type Rest<List extends unknown[]> = List extends [unknown, ...infer Others] ? Others : never;

/** Without `data`, which costs more to copy than to parse again in the thread. */
// biome-ignore format: names side by side
export const EVENT_COLUMNS: readonly (keyof IncomingEvent)[] = [
  'id', 'type', 'created', 'createdMs', 'kind', 'recordId', 'known', 't', 'address',
];

/** Without type and body, which the thread keeps until the event comes back. */
// biome-ignore format: names side by side
export const CLAIM_COLUMNS: readonly (keyof ClaimedEvent)[] = [
  'seq', 'id', 'kind', 'recordId', 'receivedWall', 'attempts', 'owner',
];

/** JSON: one array of values for each column, in the order of the column names. */
export type Columns = string;

/** These identify claimed events; the thread keeps their other fields. */
export const CLAIM_KEYS: readonly (keyof ClaimedEvent)[] = ['seq', 'owner'];

/** An outcome with the record of its event, which may have been found after the claim. */
export type Outcome = Pick<ClaimedEvent, 'seq' | 'recordId'> & Omit<ProvisionalOutcome, 'event'>;
export const OUTCOME_COLUMNS: readonly (keyof Outcome)[] = ['seq', 'recordId', 'outcome', 'error'];

/** In place of the number of an accepted event. */
const DUPLICATE = -1;
const CONFLICTING = -2;

/** Texts with a line for each record, since one text is copied faster than many. Neither ids nor JSON.stringify contain a newline. */
export interface Page {
  ids: string;
  jsons: string;
}

/** JSON of the results that are not `UNCHANGED`, each with its index in the page: cheaper than copying value by value. */
type Others = string;

export interface CompactVerbs {
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
