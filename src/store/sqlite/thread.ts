import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describeError, StoreUnavailable } from '../../platform/errors.ts';
import type { Applied, ClaimedEvent, GapChange, Store } from '../store.ts';
import { ALONE, type OpeningOptions } from './sqlite.ts';
import {
  type Answer,
  AS_IT_WAS,
  type Asked,
  type Call,
  CLAIM_COLUMNS,
  CLAIM_KEYS,
  type CrossingVerbs,
  crossed,
  type Done,
  dataOf,
  EVENT_COLUMNS,
  fromColumns,
  type HotVerbs,
  OUTCOME_COLUMNS,
  type Outcome,
  type Page,
  type ThreadData,
  type ThreadVerb,
  toColumns,
  toOutcome,
  type VerbClass,
} from './thread-messages.ts';

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
  const writer = startThread('database', path, { ...options, onGap });
  let opened: Opened;
  try {
    opened = await writer.opened;
  } catch (error) {
    await writer.end();
    throw error;
  }
  // Not awaited: it answers the calls that come meanwhile once it is open.
  const reader = startThread('reports', path, { ...options, onGap });
  reader.opened.catch(reader.lose);
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

/** The class in which a verb waits. One that is not listed waits among the pages of a full sync. `reports` have their own thread. */
const VERBS_OF: Readonly<Record<Exclude<VerbClass, 'syncs'>, readonly ThreadVerb[]>> = {
  deliveries: [...(['accept', 'recordRejections', 'checkWritable'] as const)],
  processing: [
    ...(['claimEvents', 'releaseEvents', 'recoverClaims', 'nextAttemptWall', 'applyEvents'] as const),
    ...(['deferEvent'] as const),
  ],
  operators: [
    ...(['retryEvent', 'discardEvent', 'releaseQuarantined', 'approveDeletions', 'audit'] as const),
    ...(['settleAudit', 'saveRegistration', 'forgetRegistration', 'reseal', 'readTokens'] as const),
    ...(['leaseTokens', 'releaseTokens', 'saveTokens', 'refuseTokens', 'readFact', 'writeFact'] as const),
    ...(['claimFact', 'openSession', 'findSession', 'touchSession', 'closeSession'] as const),
    // One class for both, so that they keep their order.
    ...(['openGap', 'resolveGap'] as const),
    // The view `sync_status` and the length of our own downtime depend on it.
    ...(['beat', 'epoch', 'addTraffic'] as const),
  ],
  reports: [
    ...(['seeFields', 'failedWithoutRecord', 'countDue', 'compareReads', 'knownIds', 'unseenBy'] as const),
    ...(['touchedSince', 'hasAnnouncedDeletion', 'countProofs', 'someLiveRecord', 'cycleRecords'] as const),
    ...(['countKnown', 'unreadableRecords', 'kindsWantingFullSync', 'pendingDeletions'] as const),
    ...(['unreadEvents', 'neverShown', 'eventsNaming', 'shownIds', 'learnedPointers'] as const),
    ...(['lastDelivery', 'listRegistrations', 'listSealed', 'summary', 'listEvents'] as const),
    ...(['listDeliveries', 'showEvent', 'listRecords', 'listStatuses', 'showRecord'] as const),
    ...(['recordHistory', 'listChanges', 'changesBefore', 'trimmedChanges', 'snapshotRecords'] as const),
    ...(['list', 'show', 'countGapsOpened', 'listPendingDeletions', 'listTraffic'] as const),
  ],
};

const CLASS_OF = new Map(
  Object.entries(VERBS_OF).flatMap(([of, verbs]) => verbs.map((verb) => [verb, of as VerbClass])),
);
const classOf = (verb: ThreadVerb): VerbClass => CLASS_OF.get(verb) ?? 'syncs';

/**
 * Calls that a thread has at the same time; the others wait here. Answers that have come are all read in one turn of the event loop:
 * of hundreds of reports that took seconds.
 */
const CALLS_AT_ONCE = { database: Number.POSITIVE_INFINITY, reports: 4 };

/** Room for new objects. By default it grew to 64 MB in each thread, and nothing was faster. */
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
  let isOver: Error | null = null;
  let isRefused = false;

  function ask(asked: Asked): void {
    try {
      worker.postMessage(asked);
    } catch {
      // It has functions, which cannot be copied.
      worker.postMessage(dataOf(asked));
    }
  }

  function askInTurn(asked: Call): void {
    if (waiting.size - queued.length < CALLS_AT_ONCE[name]) ask(asked);
    else queued.push(asked);
  }

  function answered(answer: Answer): void {
    if (answer.what === 'done') done(answer);
    else if (answer.what === 'opened') opening.resolve(answer);
    else if (answer.what === 'not opened') refused(crossed(answer.error));
    else if (answer.what === 'migrating') options.onMigrating?.();
    else options.onBackup?.(answer.to);
  }

  /** The thread ends now, which may be noticed before anybody has heard of the reason. */
  function refused(error: Error): void {
    isRefused = true;
    opening.reject(error);
  }

  function done(answer: Done): void {
    const call = waiting.get(answer.id);
    waiting.delete(answer.id);
    const next = queued.shift();
    if (next !== undefined) ask(next);
    try {
      // Before the caller goes on.
      answer.gaps?.forEach(options.onGap);
      if ('error' in answer) call?.reject(crossed(answer.error));
      else call?.resolve(answer.value);
    } catch (error) {
      call?.reject(error);
    }
  }

  /** Rejects all calls from now on. */
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
    if (!isRefused) lose(`exit code ${code}`);
    ended.resolve();
  });

  return {
    opened: opening.promise,
    caller(verb: ThreadVerb) {
      const of = classOf(verb);
      return (...args: readonly unknown[]): Promise<unknown> =>
        new Promise((resolve, reject) => {
          if (isOver !== null) return reject(isOver);
          calls += 1;
          askInTurn({ what: 'call', id: calls, verb, of, args });
          waiting.set(calls, { resolve, reject });
        });
    },
    lose,
    async close(): Promise<void> {
      isOver ??= new Error('the store is closed');
      for (const each of queued.splice(0)) ask(each);
      ask({ what: 'close' });
      await ended.promise;
    },
    /** At once, without an answer to its calls. */
    end(): Promise<unknown> {
      isOver ??= new Error('the store is closed');
      return worker.terminate();
    },
  };
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
      const outcomes = await call.applyEvents(toColumns(events, CLAIM_KEYS), ...rest);
      const bySeq = new Map(events.map((event) => [event.seq, event]));
      return fromColumns<Outcome>(outcomes, OUTCOME_COLUMNS).map(({ seq, recordId, ...outcome }) => {
        const event = bySeq.get(seq)!;
        return { event: event.recordId === recordId ? event : { ...event, recordId }, ...outcome };
      });
    },
    async releaseEvents(events) {
      await call.releaseEvents(toColumns(events, CLAIM_KEYS));
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
