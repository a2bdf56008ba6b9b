import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describeError, StoreUnavailable } from '../../platform/errors.ts';
import { turns } from '../database.ts';
import type { ProblemChange, Store } from '../store.ts';
import { ALONE, type OpeningOptions } from './sqlite.ts';
import {
  type Answer,
  type Asked,
  errorFromMessage,
  type ThreadData,
  type ThreadVerb,
} from './thread-worker.ts';

/** The same extension as this file: JavaScript after a build, TypeScript in tests. */
const WORKER = new URL(`./thread-worker${extname(import.meta.url)}`, import.meta.url);

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
  const worker = new Worker(WORKER, {
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
