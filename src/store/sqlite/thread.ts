import { type MessagePort, parentPort, receiveMessageOnPort, Worker, workerData } from 'node:worker_threads';
import {
  describeError,
  MirrorError,
  NotMigrated,
  StoreUnavailable,
  UsageError,
} from '../../platform/errors.ts';
import { turns } from '../database.ts';
import type { ProblemChange, Store } from '../store.ts';
import { isReading } from '../units/reading.ts';
import { ALONE, type OpeningOptions, openSqlite } from './sqlite.ts';

export interface ThreadOptions extends OpeningOptions {
  /** A thread ended unexpectedly: from then on every verb rejects. */
  onLost?: (error: StoreUnavailable) => void;
}

/**
 * Opens and migrates the store in the file at `path`, in threads, so that neither a flush nor a page of a full sync blocks the event
 * loop. One thread writes. The other one only reads, so that no delivery waits for a report.
 */
export async function openInThread(path: string, options: ThreadOptions = {}): Promise<Store> {
  let watcher: ((change: ProblemChange) => void) | null = null;
  const onProblem = (change: ProblemChange) => watcher?.(change);
  const writer = startThread('database', path, { ...options, onProblem });
  const opened = await writer.opened.catch(async (error: unknown) => {
    await writer.close();
    throw error;
  });
  // Not awaited: calls that come meanwhile are answered when it is open.
  const reader = startThread('reports', path, { ...options, onProblem });
  // One report at a time: the answers to hundreds, of megabytes each, would be in memory together, and be read in one turn of the event
  // loop, which took seconds.
  const inTurn = turns();
  let isClosed = false;
  const callerOf =
    (verb: ThreadVerb, isReading: boolean) =>
    async (...args: readonly unknown[]) => {
      if (isClosed) throw new Error('the store is closed');
      return await (isReading ? inTurn(() => reader.call(verb, args)) : writer.call(verb, args));
    };
  const verbs = Object.fromEntries(
    opened.verbs.map(([verb, isReading]) => [verb, callerOf(verb, isReading)]),
  ) as unknown as Pick<Store, ThreadVerb>;
  return {
    ...verbs,
    ...ALONE,
    engine: 'sqlite',
    underLease: () => verbs,
    watchProblems(next) {
      watcher = next;
      opened.problems.splice(0).forEach(next);
    },
    async close() {
      isClosed = true;
      // The last connection to close moves the log into the file, which a reader cannot do.
      await inTurn(reader.close);
      await writer.close();
    },
  };
}

/** The space for new objects. With Node's default it grew to 64 MB in each thread, and nothing was faster. */
const YOUNG_GENERATION_MB = { database: 16, reports: 3 };

type Opened = Extract<Answer, { what: 'opened' }>;

function startThread(
  name: keyof typeof YOUNG_GENERATION_MB,
  path: string,
  options: ThreadOptions & { onProblem: (change: ProblemChange) => void },
) {
  const worker = new Worker(new URL(import.meta.url), {
    name,
    workerData: { storeFile: { path, isReader: name === 'reports' } } satisfies ThreadData,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB[name] },
  });
  const opening = Promise.withResolvers<Opened>();
  opening.promise.catch(() => undefined);
  const ended = Promise.withResolvers<void>();
  const waiting = new Map<number, Pick<PromiseWithResolvers<unknown>, 'resolve' | 'reject'>>();
  let calls = 0;
  /** Why every call is rejected from now on. */
  let endReason: Error | null = null;

  const send = (asked: Asked) => worker.postMessage(asked);

  function answered(answer: Answer): void {
    if (answer.what === 'done') done(answer);
    else if (answer.what === 'opened') opening.resolve(answer);
    else if (answer.what === 'migrating') options.onMigrating?.();
    else if (answer.what === 'backed up') options.onBackup?.(answer.to);
    else if (name === 'reports') lose(errorFromMessage(answer.error));
    else {
      // The thread ends now, for a reason that the caller of `opened` gets.
      endReason = errorFromMessage(answer.error);
      opening.reject(endReason);
    }
  }

  function done(answer: Extract<Answer, { what: 'done' }>): void {
    const call = waiting.get(answer.id);
    waiting.delete(answer.id);
    try {
      // First the problems, before the caller goes on.
      answer.problems.forEach(options.onProblem);
      if (!('error' in answer)) {
        call?.resolve(answer.value);
        return;
      }
      const error = errorFromMessage(answer.error);
      call?.reject(error);
      // Whoever asked, the database cannot be trusted any more.
      if (error instanceof StoreUnavailable && error.fatal) options.onLost?.(error);
    } catch (error) {
      call?.reject(error);
    }
  }

  function lose(reason: unknown): void {
    if (endReason !== null) return;
    const error = new StoreUnavailable(`the thread "${name}" has ended: ${describeError(reason)}`, {
      fatal: true,
      remedy: 'start the service again; what was acknowledged is in the database',
    });
    endReason = error;
    opening.reject(error);
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
    options.onLost?.(error);
  }

  worker.on('message', answered);
  worker.on('messageerror', lose);
  worker.on('error', lose);
  worker.on('exit', (code) => {
    lose(`exit code ${code}`);
    ended.resolve();
  });

  return {
    opened: opening.promise,
    call: (verb: ThreadVerb, args: readonly unknown[]): Promise<unknown> =>
      new Promise((resolve, reject) => {
        if (endReason !== null) return reject(endReason);
        calls += 1;
        send({ id: calls, verb, args });
        waiting.set(calls, { resolve, reject });
      }),
    async close(): Promise<void> {
      endReason ??= new Error('the store is closed');
      send('close');
      await ended.promise;
    },
  };
}

// ─── in the thread ───────────────────────────────────────────────────────────────────────────────────────────

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

const { storeFile } = (workerData ?? {}) as Partial<ThreadData>;
if (parentPort !== null && storeFile !== undefined) void serve(parentPort, storeFile);
