import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { MirrorError, NotMigrated, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import type { ProblemChange, Store } from '../store.ts';
import { isReading } from '../units/reading.ts';
import { openSqlite } from './sqlite.ts';

/** The thread that writes to the file, or the one that reads for reports. `thread.ts` starts both. */

const { storeFile } = (workerData ?? {}) as ThreadData;
if (parentPort !== null && storeFile !== undefined) void serve(parentPort, storeFile);

/** A sender or a health probe waits for these, so they go before all others. The inbox has only one at a time: nobody starves. */
const DELIVERIES: ReadonlySet<ThreadVerb> = new Set(['accept', 'recordRejections', 'checkWritable']);

async function serve(
  port: MessagePort,
  { path, isReader }: NonNullable<ThreadData['storeFile']>,
): Promise<void> {
  const tell = (answer: Answer) => port.postMessage(answer);
  /** Problems that the running verb has opened or resolved. */
  const problems: ProblemChange[] = [];
  let store: Store;
  try {
    // The writing thread has opened the file before, so the reader finds the schema migrated.
    store = isReader
      ? await openSqlite(path, { readOnly: true, isOpen: true })
      : await openSqlite(path, {
          serves: true,
          onMigrating: () => tell({ what: 'migrating' }),
          onBackup: (to) => tell({ what: 'backed up', to }),
        });
  } catch (error) {
    tell({ what: 'not opened', error: errorToMessage(error) });
    return;
  }
  const verbs = store as unknown as Record<ThreadVerb, (...args: unknown[]) => Promise<unknown>>;
  const names = Object.keys(verbs) as ThreadVerb[];
  store.watchProblems((change) => problems.push(change));
  tell({
    what: 'opened',
    verbs: names.map((name) => [name, isReading(verbs[name])]),
    problems: problems.splice(0),
  });

  const deliveries: Call[] = [];
  const others: Call[] = [];
  let isWorking = false;
  let isClosing = false;
  port.on('message', (asked: Asked) => {
    take(asked);
    if (!isWorking) void work();
  });

  function take(asked: Asked): void {
    if (asked === 'close') isClosing = true;
    else (DELIVERIES.has(asked.verb) ? deliveries : others).push(asked);
  }

  /** Runs one verb at a time. Before it chooses the next, it takes in the messages that have arrived meanwhile. */
  async function work(): Promise<void> {
    isWorking = true;
    for (;;) {
      const call = deliveries.shift() ?? others.shift();
      if (call === undefined) break;
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
    const run = async () => await verbs[verb](...args);
    const result = await run().then(
      (value) => ({ value }),
      (error: unknown) => ({ error: errorToMessage(error) }),
    );
    tell({ what: 'done', id, problems: problems.splice(0), ...result });
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
  'engine' | 'watchProblems' | 'underLease' | 'sharedTime' | 'notify' | 'listen' | 'close'
>;

export interface Call {
  id: number;
  verb: ThreadVerb;
  args: readonly unknown[];
}

/** `close` is the last message: the thread ends once all calls are answered. */
export type Asked = Call | 'close';

export type Answer =
  | { what: 'migrating' }
  | { what: 'backed up'; to: string }
  /** `verbs`: each with whether it only reads. `problems`: opened while the store was opened. */
  | { what: 'opened'; verbs: [ThreadVerb, boolean][]; problems: ProblemChange[] }
  | { what: 'not opened'; error: ErrorMessage }
  /** The result of a call, and the problems that it opened or resolved. */
  | ({ what: 'done'; id: number; problems: ProblemChange[] } & (
      | { value: unknown }
      | { error: ErrorMessage }
    ));

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
