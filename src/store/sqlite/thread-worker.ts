import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { parseJson } from '../../compliance/json.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import type { Applied, ClaimedEvent, GapChange, IncomingEvent, ReadObject, Store } from '../store.ts';
import { openSqlite } from './sqlite.ts';
import {
  type Answer,
  type Asked,
  type Call,
  CLAIM_COLUMNS,
  CLAIM_KEYS,
  CLASSES,
  type Columns,
  type CompactVerbs,
  type Done,
  EVENT_COLUMNS,
  errorToMessage,
  fromColumns,
  type HotVerbs,
  OUTCOME_COLUMNS,
  type Outcome,
  type ThreadData,
  type ThreadVerb,
  toColumns,
  toNumber,
  type VerbClass,
} from './thread-messages.ts';

/** The thread that writes to the file, or the one for reports. `thread.ts` starts both. */

const { storeFile } = (workerData ?? {}) as ThreadData;
if (parentPort !== null && storeFile !== undefined) void serve(parentPort, storeFile);

type Verbs = Record<string, (...args: unknown[]) => Promise<unknown>>;

async function serve(
  port: MessagePort,
  { path, isReader }: NonNullable<ThreadData['storeFile']>,
): Promise<void> {
  const tell = (answer: Answer) => port.postMessage(answer);
  const line = createLine<Call>();
  /** Gaps that the running verb has opened or resolved. */
  let gaps: GapChange[] = [];
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
  tell({ what: 'opened', verbs: Object.keys(verbs) as ThreadVerb[], gaps: noted() });

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
    const changes = noted();
    tell(changes.length === 0 ? done : { ...done, gaps: changes });
  }

  function noted(): GapChange[] {
    const changes = gaps;
    if (changes.length > 0) gaps = [];
    return changes;
  }
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

/** How many turns others have had while each waiting class waits. */
export type Waiting = Readonly<Partial<Record<VerbClass, number>>>;

/**
 * The class that has waited the longest beyond its patience; if none has, the first that waits; null if none waits.
 */
export function nextTurn(waiting: Waiting): VerbClass | null {
  let chosen: VerbClass | null = null;
  let longest = -1;
  for (const each of CLASSES) {
    const passed = waiting[each];
    if (passed === undefined) continue;
    const beyond = Math.max(-1, passed - PATIENCE[each]);
    if (chosen !== null && beyond <= longest) continue;
    chosen = each;
    longest = beyond;
  }
  return chosen;
}

/** A queue for each class, in order of arrival. `next` removes and returns the item whose turn it is. */
export function createLine<Item>() {
  const items = new Map<VerbClass, Item[]>();
  const passed: Partial<Record<VerbClass, number>> = {};
  return {
    add(ofClass: VerbClass, item: Item): void {
      const waiting = items.get(ofClass);
      if (waiting === undefined) items.set(ofClass, [item]);
      else waiting.push(item);
      passed[ofClass] ??= 0;
    },
    next(): Item | undefined {
      const turn = nextTurn(passed);
      if (turn === null) return undefined;
      for (const each of CLASSES) if (passed[each] !== undefined) passed[each] += 1;
      const waiting = items.get(turn)!;
      const item = waiting.shift();
      if (waiting.length > 0) passed[turn] = 0;
      else delete passed[turn];
      return item;
    },
  };
}

// ─── verbs with cheaper messages ────────────────────────────────────────────────────────────────────────

/** In the thread: the verbs with cheaper messages, made of the store's. */
export function compactVerbs(store: HotVerbs): CompactVerbs {
  const claimed = new Map<number, ClaimedEvent>();
  // Events that are finished, or that another owner has claimed, are left out, as the store does too.
  const stillClaimed = (claims: Columns) =>
    fromColumns<ClaimedEvent>(claims, CLAIM_KEYS).flatMap(({ seq, owner }) => {
      const event = claimed.get(seq);
      return event?.owner === owner ? [event] : [];
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
      const results = await store.applyEvents(stillClaimed(claims), ...rest);
      forget(results.map(({ event }) => event));
      const outcomes = results.map(({ event: { seq, recordId }, ...rest }) => ({ seq, recordId, ...rest }));
      return toColumns<Outcome>(outcomes, OUTCOME_COLUMNS);
    },
    async releaseEvents(claims) {
      const events = stillClaimed(claims);
      forget(events);
      await store.releaseEvents(events);
    },
    async applyReads(kind, { ids, jsons }, read, context) {
      // An empty text has no line, but `split` would return one.
      const lines = jsons === '' ? [] : jsons.split('\n');
      const named = ids.split('\n');
      const objects = lines.map((json, at) => new LazyObject(named[at]!, json));
      const applied = await store.applyReads(kind, objects, read, context);
      return JSON.stringify([...applied.entries()].filter(([, one]) => !isUnchanged(one)));
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
