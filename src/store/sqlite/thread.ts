import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describeError, StoreUnavailable } from '../../platform/errors.ts';
import type { GapChange, Store } from '../store.ts';
import { ALONE, type OpeningOptions } from './sqlite.ts';
import {
  type Answer,
  type Asked,
  type CrossingVerbs,
  crossed,
  type Done,
  dataOf,
  hotVerbs,
} from './thread-messages.ts';
import { classOf, type ThreadVerb } from './thread-turns.ts';

/** JavaScript once it is built, TypeScript before. */
const WORKER = new URL(`./thread-worker${extname(import.meta.url)}`, import.meta.url);

export interface ThreadOptions extends OpeningOptions {
  /** A thread ended by itself: every verb rejects from then on. */
  onLost?: (error: StoreUnavailable) => void;
}

/**
 * Opens and migrates the store in the file at `path`, so that nothing blocks the event loop: not a flush, and not a page of a full
 * sync. One thread writes. Another one only reads, so that no delivery waits for a report.
 */
export async function openInThread(path: string, options: ThreadOptions = {}): Promise<Store> {
  let watcher: ((change: GapChange) => void) | null = null;
  const onGap = (change: GapChange) => watcher?.(change);
  const writer = startThread('database', { ...options, onGap });
  let opened: Opened;
  try {
    opened = await writer.open(path, false);
  } catch (error) {
    await writer.end();
    throw error;
  }
  // Not awaited: it answers the calls that come meanwhile once it is open.
  const reader = startThread('reports', { ...options, onGap });
  void reader.open(path, true).catch(reader.lose);
  const verbs = Object.fromEntries(
    opened.verbs.map((verb) => [verb, (classOf(verb) === 'reports' ? reader : writer).caller(verb)]),
  );
  return {
    ...(verbs as unknown as Pick<Store, ThreadVerb>),
    ...hotVerbs(verbs as unknown as CrossingVerbs),
    ...ALONE,
    engine: 'sqlite',
    watchGaps(next) {
      watcher = next;
      opened.gaps.splice(0).forEach(next);
    },
    async close() {
      // The last to close moves the log back into the file, which a reader cannot.
      await reader.close();
      await writer.close();
    },
  };
}

/** Room for new objects. By default it grew to 64 MB in each thread, and nothing was faster. */
const YOUNG_GENERATION_MB = { database: 16, reports: 3 };

interface Waiting {
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

type Opened = Extract<Answer, { what: 'opened' }>;

interface Thread {
  open(path: string, isReader: boolean): Promise<Opened>;
  caller(verb: ThreadVerb): (...args: readonly unknown[]) => Promise<unknown>;
  /** Rejects all calls from now on. */
  lose(error: unknown): void;
  close(): Promise<void>;
  /** At once, without an answer to its calls. */
  end(): Promise<unknown>;
}

function startThread(
  name: keyof typeof YOUNG_GENERATION_MB,
  options: ThreadOptions & { onGap: (change: GapChange) => void },
): Thread {
  const worker = new Worker(WORKER, {
    name,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB[name] },
  });
  const opening = Promise.withResolvers<Opened>();
  opening.promise.catch(() => undefined);
  const ended = Promise.withResolvers<void>();
  const waiting = new Map<number, Waiting>();
  let calls = 0;
  let isOver: Error | null = null;

  function ask(asked: Asked): void {
    try {
      worker.postMessage(asked);
    } catch (error) {
      if (!(error instanceof DOMException && error.name === 'DataCloneError')) throw error;
      worker.postMessage(dataOf(asked));
    }
  }

  function answered(answer: Answer): void {
    if (answer.what === 'done') done(answer);
    else if (answer.what === 'opened') opening.resolve(answer);
    else if (answer.what === 'not opened') opening.reject(crossed(answer.error));
    else if (answer.what === 'migrating') options.onMigrating?.();
    else options.onBackup?.(answer.to);
  }

  function done(answer: Done): void {
    const call = waiting.get(answer.id);
    waiting.delete(answer.id);
    try {
      // Before the caller goes on.
      answer.gaps?.forEach(options.onGap);
      if ('error' in answer) call?.reject(crossed(answer.error));
      else call?.resolve(answer.value);
    } catch (error) {
      call?.reject(error);
    }
  }

  function lose(reason: unknown): void {
    if (isOver !== null) return;
    const error = new StoreUnavailable(`the thread "${name}" has ended: ${describeError(reason)}`, {
      fatal: true,
      remedy: 'start the service again; what was acknowledged is in the database',
    });
    isOver = error;
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
    async open(path, isReader) {
      ask({ what: 'open', path, isReader });
      return await opening.promise;
    },
    caller:
      (verb) =>
      (...args) =>
        new Promise((resolve, reject) => {
          if (isOver !== null) return reject(isOver);
          calls += 1;
          ask({ what: 'call', id: calls, verb, args });
          waiting.set(calls, { resolve, reject });
        }),
    lose,
    async close() {
      isOver ??= new Error('the store is closed');
      ask({ what: 'close' });
      await ended.promise;
    },
    end() {
      isOver ??= new Error('the store is closed');
      return worker.terminate();
    },
  };
}
