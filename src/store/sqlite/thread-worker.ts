import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
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
  Store,
} from '../store.ts';
import { UNCHANGED } from '../units/backfill.ts';
import { openSqlite } from './sqlite.ts';

/** The thread that writes to the file, or the one for reports. `thread.ts` starts both. */

const { storeFile } = (workerData ?? {}) as ThreadData;
if (parentPort !== null && storeFile !== undefined) void serve(parentPort, storeFile);

type Verbs = Record<string, (...args: unknown[]) => Promise<unknown>>;

async function serve(
  port: MessagePort,
  { path, isReader }: NonNullable<ThreadData['storeFile']>,
): Promise<void> {
  const tell = (answer: Answer) => port.postMessage(answer);
  /** Gaps that the running verb has opened or resolved. */
  const gaps: GapChange[] = [];
  let store: Store;
  try {
    // The writing thread has opened the file before, so the reader finds the schema migrated.
    store = isReader
      ? await openSqlite(path, { readOnly: true, isOpen: true })
      : await openSqlite(path, {
          onMigrating: () => tell({ what: 'migrating' }),
          onBackup: (to) => tell({ what: 'backed up', to }),
        });
  } catch (error) {
    tell({ what: 'not opened', error: errorToMessage(error) });
    return;
  }
  const verbs = { ...store, ...compactVerbs(store) } as unknown as Verbs;
  store.watchGaps((change) => gaps.push(change));
  tell({ what: 'opened', verbs: Object.keys(verbs) as ThreadVerb[], gaps: gaps.splice(0) });

  const line = createLine<Call>();
  let isWorking = false;
  let isClosing = false;
  port.on('message', (asked: Asked) => {
    take(asked);
    if (!isWorking) void work();
  });

  function take(asked: Asked): void {
    if (asked.what === 'close') isClosing = true;
    else line.add(asked.of, asked);
  }

  /** Runs one verb at a time. Before it chooses the next, it takes in the messages that have arrived meanwhile. */
  async function work(): Promise<void> {
    isWorking = true;
    for (let call = line.next(); call !== undefined; call = line.next()) {
      await answer(call);
      for (let more = receiveMessageOnPort(port); more !== undefined; more = receiveMessageOnPort(port)) {
        take(more.message as Asked);
      }
    }
    isWorking = false;
    if (!isClosing) return;
    await store.close();
    // This ends the thread.
    port.close();
  }

  async function answer({ id, verb, args }: Call): Promise<void> {
    // Async, so that any error of a call becomes its answer, and does not end the thread.
    const run = async () => await verbs[verb]!(...args);
    const result = await run().then(
      (value) => ({ value }),
      (error: unknown) => ({ error: errorToMessage(error) }),
    );
    const done: Done = { what: 'done', id, ...result };
    const changes = gaps.splice(0);
    tell(changes.length === 0 ? done : { ...done, gaps: changes });
  }
}

// ─── messages ───────────────────────────────────────────────────────────────────────────────────────────

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

const FIELDS = ['name', 'message', 'stack', 'code', 'remedy', 'retryable', 'fatal'] as const;

/** An error in a message. A copied error would arrive without its class and our fields. */
interface ErrorMessage {
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

const ERRORS: Readonly<Record<string, { prototype: Error }>> = {
  MirrorError,
  NotMigrated,
  StoreUnavailable,
  UsageError,
};

/** The error as it was thrown in the thread, with its class and fields. */
export function errorFromMessage({ fields, cause }: ErrorMessage): Error {
  const error = new Error(fields.message, cause === null ? undefined : { cause: errorFromMessage(cause) });
  Object.setPrototypeOf(error, (ERRORS[fields.name] ?? Error).prototype);
  return Object.assign(error, fields);
}

// ─── turns ──────────────────────────────────────────────────────────────────────────────────────────────

/** How many turns the other classes may have while a verb of this class waits. After that it goes before the classes above it. */
const PATIENCE: Readonly<Record<VerbClass, number>> = {
  // A sender or a health probe waits for the answer.
  deliveries: 1,
  // At least a quarter of the turns, with any number of deliveries: a batch has more events than most groups of deliveries.
  processing: 3,
  // Rare and short, and often a person waits for the answer.
  operators: 4,
  // Pages of a full sync, and periodic work.
  syncs: 7,
  reports: 7,
};

/** A queue for each class, in order of arrival. `next` removes and returns the item whose turn it is. */
export function createLine<Item>() {
  /** `passed`: how many turns others have had while the class waits. */
  const lines = CLASSES.map((name) => ({ name, items: [] as Item[], passed: 0 }));
  /** How long beyond its patience; all that have patience are equal. */
  const beyond = ({ name, passed }: (typeof lines)[number]) => Math.max(-1, passed - PATIENCE[name]);
  return {
    add(of: VerbClass, item: Item): void {
      lines.find(({ name }) => name === of)!.items.push(item);
    },
    /** The class that has waited the longest beyond its patience; if none has, the first that waits. */
    next(): Item | undefined {
      const waiting = lines.filter(({ items }) => items.length > 0);
      const [turn] = waiting.toSorted((one, other) => beyond(other) - beyond(one));
      if (turn === undefined) return undefined;
      for (const each of waiting) each.passed += 1;
      turn.passed = 0;
      return turn.items.shift();
    },
  };
}

// ─── verbs with cheaper messages ────────────────────────────────────────────────────────────────────────

/**
 * Verbs that are called for every delivery or every page have cheaper messages. Events: the bodies, and all other fields as one JSON
 * text, which takes less than half the time of copying value by value. Records of a page: one text, which costs a twentieth of
 * copying objects. Only records that differ from their rows are parsed, and only those have a result.
 */
type HotVerbs = Pick<InboxStore, 'accept' | 'claimEvents' | 'applyEvents'> &
  Pick<BackfillStore, 'applyReads'>;
type Args<Name extends keyof HotVerbs> = Parameters<HotVerbs[Name]>;

type Rest<List extends unknown[]> = List extends [unknown, ...infer Others] ? Others : never;

/** Without `data`, which costs more to copy than to parse again in the thread. */
// biome-ignore format: names side by side
const EVENT_COLUMNS: readonly (keyof IncomingEvent)[] = [
  'id', 'type', 'created', 'createdMs', 'kind', 'recordId', 'known', 't', 'address',
];

/** Without type and body, which the claim in the thread has. */
// biome-ignore format: names side by side
const CLAIM_COLUMNS: readonly (keyof ClaimedEvent)[] = [
  'seq', 'id', 'kind', 'recordId', 'receivedWall', 'attempts', 'owner',
];

/** JSON: one array of values for each column, in the order of the column names. */
type Columns = string;

/** These identify claimed events. */
const CLAIM_KEYS: readonly (keyof ClaimedEvent)[] = ['seq', 'owner'];

/** An outcome with the record of its event, which may have been found after the claim. */
type Outcome = Pick<ClaimedEvent, 'seq' | 'recordId'> & Omit<ProvisionalOutcome, 'event'>;
const OUTCOME_COLUMNS: readonly (keyof Outcome)[] = ['seq', 'recordId', 'outcome', 'error'];

/** In place of the number of an accepted event. */
const DUPLICATE = -1;
const CONFLICTING = -2;

/** Texts with a line for each record, since one text is copied faster than many. Neither ids nor JSON.stringify contain a newline. */
interface Page {
  ids: string;
  jsons: string;
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

export type CompactVerbs = ReturnType<typeof compactVerbs>;

/** In the thread: the verbs with cheaper messages, made of the store's. */
export function compactVerbs(store: HotVerbs) {
  type Batch = { bodies: string[]; columns: Columns; unusable: Args<'accept'>[0]['unusable'] };
  return {
    async accept({ bodies, columns, unusable }: Batch, ...rest: Rest<Args<'accept'>>) {
      const events = fromColumns<IncomingEvent>(columns, EVENT_COLUMNS);
      for (const [at, event] of events.entries()) event.body = bodies[at]!;
      return (await store.accept({ events, unusable }, ...rest)).map(toNumber);
    },
    async claimEvents(...args: Args<'claimEvents'>) {
      return toColumns(await store.claimEvents(...args), CLAIM_COLUMNS);
    },
    async applyEvents(claims: Columns, ...rest: Rest<Args<'applyEvents'>>) {
      const results = await store.applyEvents(fromColumns(claims, CLAIM_KEYS), ...rest);
      const outcomes = results.map(({ event: { seq, recordId }, ...rest }) => ({ seq, recordId, ...rest }));
      return toColumns<Outcome>(outcomes, OUTCOME_COLUMNS);
    },
    async applyReads(kind: Kind, { ids, jsons }: Page, ...rest: Rest<Rest<Args<'applyReads'>>>) {
      // An empty text has no line, but `split` would return one.
      const lines = jsons === '' ? [] : jsons.split('\n');
      const named = ids.split('\n');
      const objects = lines.map((json, at) => new LazyObject(named[at]!, json));
      const applied = await store.applyReads(kind, objects, ...rest);
      // Those that are not `UNCHANGED`, each with its index in the page.
      return JSON.stringify([...applied.entries()].filter(([, one]) => !isUnchanged(one)));
    },
  };
}

/** On the event loop: the port's verbs, made of the thread's. */
export function portVerbs(call: CompactVerbs): HotVerbs {
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
      const outcomes = await call.applyEvents(toColumns(events, CLAIM_KEYS), ...rest);
      const bySeq = new Map(events.map((event) => [event.seq, event]));
      return fromColumns<Outcome>(outcomes, OUTCOME_COLUMNS).map(({ seq, recordId, ...outcome }) => {
        const event = bySeq.get(seq)!;
        return { event: event.recordId === recordId ? event : { ...event, recordId }, ...outcome };
      });
    },
    async applyReads(kind, objects, read, context) {
      const page: Page = {
        ids: objects.map(({ id }) => id).join('\n'),
        jsons: objects.map((object) => object.json ?? JSON.stringify(object.data)).join('\n'),
      };
      const others = JSON.parse(await call.applyReads(kind, page, read, context)) as [number, Applied][];
      const applied: Applied[] = objects.map(({ id }) => ({ id, ...UNCHANGED }));
      for (const [at, one] of others) applied[at] = one;
      return applied;
    },
  };
}

/** Parses its JSON only when `data` is asked for. */
class LazyObject implements ReadObject {
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

const isUnchanged = ({ outcome, verified, lagMs, witness, announced, lacks }: Applied): boolean =>
  outcome === 'unchanged' && verified && lagMs === null && witness && !announced && !lacks;
