import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describeError, StoreUnavailable } from '../../platform/errors.ts';
import type { GapChange, Store } from '../store.ts';
import { ALONE, type OpeningOptions } from './sqlite.ts';
import {
  type Answer,
  type Asked,
  type Call,
  type CompactVerbs,
  type Done,
  errorFromMessage,
  portVerbs,
  type ThreadData,
  type ThreadVerb,
  type VerbClass,
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
  let watcher: ((change: GapChange) => void) | null = null;
  const onGap = (change: GapChange) => watcher?.(change);
  const writer = startThread('database', path, { ...options, onGap });
  let opened: Opened;
  try {
    opened = await writer.opened;
  } catch (error) {
    await writer.close();
    throw error;
  }
  // Not awaited: calls that come meanwhile are answered when it is open.
  const reader = startThread('reports', path, { ...options, onGap });
  reader.opened.catch(reader.lose);
  const verbs = Object.fromEntries(
    opened.verbs.map((verb) => [verb, (classOf(verb) === 'reports' ? reader : writer).caller(verb)]),
  );
  return {
    ...(verbs as unknown as Pick<Store, ThreadVerb>),
    ...portVerbs(verbs as unknown as CompactVerbs),
    ...ALONE,
    engine: 'sqlite',
    watchGaps(next) {
      watcher = next;
      opened.gaps.splice(0).forEach(next);
    },
    async close() {
      // The last connection to close moves the log into the file, which a reader cannot do.
      await reader.close();
      await writer.close();
    },
  };
}

/** The class in which a verb waits. Verbs that are not listed are of the class `syncs`. `reports` have their own thread. */
// biome-ignore format: names side by side
const VERBS_OF: Readonly<Record<Exclude<VerbClass, 'syncs'>, readonly ThreadVerb[]>> = {
  deliveries: ['accept', 'recordRejections', 'checkWritable'],
  processing: [
    'claimEvents', 'releaseEvents', 'recoverClaims', 'nextAttemptWall', 'applyEvents', 'deferEvent',
  ],
  operators: [
    'retryEvent', 'discardEvent', 'releaseQuarantined', 'approveDeletions', 'audit', 'settleAudit', 'saveRegistration',
    'forgetRegistration', 'reseal', 'readTokens', 'leaseTokens', 'releaseTokens', 'saveTokens', 'refuseTokens', 'readFact',
    'writeFact', 'claimFact', 'openSession', 'findSession', 'touchSession', 'closeSession',
    // In one class, so that they keep their order.
    'openGap', 'resolveGap', 'settleGap',
    // The view `sync_status` and the length of our own downtime depend on `beat`.
    'beat', 'epoch', 'addTraffic',
  ],
  reports: [
    'seeFields', 'failedWithoutRecord', 'countDue', 'compareReads', 'knownIds', 'unseenBy', 'touchedSince', 'hasAnnouncedDeletion',
    'countProofs', 'someLiveRecord', 'untriedRecords', 'countKnown', 'unreadableRecords', 'kindsWantingFullSync', 'pendingDeletions',
    'unreadEvents', 'neverShown', 'eventsNaming', 'shownIds', 'learnedPointers', 'lastDelivery', 'listRegistrations', 'listSealed',
    'summary', 'listEvents', 'listDeliveries', 'showEvent', 'listRecords', 'listStatuses', 'showRecord', 'recordHistory',
    'listChanges', 'changesBefore', 'trimmedChanges', 'snapshotRecords', 'list', 'show', 'countGapsOpened', 'listPendingDeletions',
    'listTraffic',
  ],
};

const CLASS_OF = new Map(
  Object.entries(VERBS_OF).flatMap(([of, verbs]) => verbs.map((verb) => [verb, of as VerbClass])),
);
const classOf = (verb: ThreadVerb): VerbClass => CLASS_OF.get(verb) ?? 'syncs';

/**
 * How many calls a thread has at the same time; the others wait here. All answers that have arrived are read in one turn of the event
 * loop, which took seconds for hundreds of reports.
 */
const CALLS_AT_ONCE = { database: Number.POSITIVE_INFINITY, reports: 4 };

/** The space for new objects. With Node's default it grew to 64 MB in each thread, and nothing was faster. */
const YOUNG_GENERATION_MB = { database: 16, reports: 3 };

type Opened = Extract<Answer, { what: 'opened' }>;

function startThread(
  name: keyof typeof YOUNG_GENERATION_MB,
  path: string,
  options: ThreadOptions & { onGap: (change: GapChange) => void },
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
  /** Calls that the thread does not have yet. */
  const queued: Call[] = [];
  let calls = 0;
  let endReason: Error | null = null;
  let isRefused = false;

  function send(asked: Asked): void {
    try {
      worker.postMessage(asked);
    } catch {
      // An argument has functions, which cannot be copied.
      worker.postMessage(dataOf(asked));
    }
  }

  function sendInTurn(asked: Call): void {
    if (waiting.size - queued.length < CALLS_AT_ONCE[name]) send(asked);
    else queued.push(asked);
  }

  function answered(answer: Answer): void {
    if (answer.what === 'done') done(answer);
    else if (answer.what === 'opened') opening.resolve(answer);
    else if (answer.what === 'not opened') {
      // The thread ends now, for a reason that the caller of `opened` gets.
      isRefused = true;
      opening.reject(errorFromMessage(answer.error));
    } else if (answer.what === 'migrating') options.onMigrating?.();
    else options.onBackup?.(answer.to);
  }

  function done(answer: Done): void {
    const call = waiting.get(answer.id);
    waiting.delete(answer.id);
    const next = queued.shift();
    if (next !== undefined) send(next);
    try {
      // First the gaps, before the caller goes on.
      answer.gaps?.forEach(options.onGap);
      if ('error' in answer) call?.reject(errorFromMessage(answer.error));
      else call?.resolve(answer.value);
    } catch (error) {
      call?.reject(error);
    }
  }

  /** Rejects all calls from now on. */
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
    if (!isRefused) lose(`exit code ${code}`);
    ended.resolve();
  });

  return {
    opened: opening.promise,
    caller(verb: ThreadVerb) {
      const of = classOf(verb);
      return (...args: readonly unknown[]): Promise<unknown> =>
        new Promise((resolve, reject) => {
          if (endReason !== null) return reject(endReason);
          calls += 1;
          sendInTurn({ what: 'call', id: calls, verb, of, args });
          waiting.set(calls, { resolve, reject });
        });
    },
    lose,
    async close(): Promise<void> {
      endReason ??= new Error('the store is closed');
      for (const each of queued.splice(0)) send(each);
      send({ what: 'close' });
      await ended.promise;
    },
  };
}

/** The part of a value that can be copied. A caller may pass an object that also has methods. */
function dataOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(dataOf);
  if (typeof value !== 'object' || value === null) return typeof value === 'function' ? undefined : value;
  if (value instanceof Uint8Array || value instanceof Set || value instanceof Map) return value;
  const prototype = Object.getPrototypeOf(value) as unknown;
  if (prototype !== Object.prototype && prototype !== null) return undefined;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, dataOf(each)]));
}
