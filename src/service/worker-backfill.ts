import type { Backfill } from '../backfill/backfill.ts';
import type { RunningSyncRun } from '../backfill/full-sync.ts';
import { NOTHING_KNOWN, type UpstreamHealth } from '../backfill/health.ts';
import type { Found } from '../backfill/unknown-records.ts';
import type { BudgetState } from '../compliance/budget.ts';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { type Clock, momentOf } from '../platform/clock.ts';
import { MirrorError } from '../platform/errors.ts';
import type { Lease, Store, Unknown, Verbs } from '../store/store.ts';
import type { Held, WorkerLease } from './worker-lease.ts';

/** What the worker reports, for the pages of the other processes. */
const LIVE_FACT = 'backfill_live';
/** The report is written this often even without changes, and is believed for this long. */
const WRITE_AGAIN_MS = 5_000;
const BELIEVED_MS = 15_000;

/** What another process has the worker ask the API for, and its answer. */
const SEARCH_FACT = 'id_search';
/** Until then the worker has answered, or there is none. */
const SEARCH_MS = 60_000;
const SEARCH_LOOK_MS = 250;
interface Search extends Unknown {
  number: string;
  found?: Found;
}

/** What is known of the API. */
export interface ApiState {
  health: UpstreamHealth;
  running: readonly RunningSyncRun[];
  budget: BudgetState;
  /** How far the API's clock was ahead of ours by its last answer with a date, in milliseconds; null: no answer had one. */
  skewMs: number | null;
}

interface Working {
  backfill: Backfill;
  known(): ApiState;
}

export type WorkerBackfill = ReturnType<typeof createWorkerBackfill>;

/**
 * Repairs and full syncs, which the worker does for all processes: the request budget limits them, so more processes could not read
 * more, and what is known of the API stays in one place. The others leave requests in the database, and show what the worker reports.
 */
export function createWorkerBackfill(options: {
  store: Store;
  lease: Pick<WorkerLease, 'notify' | 'isAlone'>;
  clock: Clock;
  requestsPerMinute: number;
  onError: (error: unknown) => void;
  /** Makes what asks the API. `wasUnreachable`: when the last worker ended. */
  create(store: Verbs, wasUnreachable: boolean): Promise<Working>;
}) {
  const { store, lease, clock, requestsPerMinute: limit } = options;
  const now = () => momentOf(clock);
  const nothingKnown: ApiState = {
    health: NOTHING_KNOWN,
    running: [],
    budget: { limit, left: limit, pausedForMs: 0 },
    skewMs: null,
  };
  let working: (Working & { lease: Lease | null }) | null = null;
  let paused = false;
  let live: (ApiState & { at: number }) | null = null;
  let written = { at: Number.NEGATIVE_INFINITY, text: '' };
  let searching: string | null = null;

  /** Reads the API for all processes while this one is the worker. */
  async function work({ lease, signal }: Held): Promise<void> {
    const own = lease === null ? store : underLease(store, lease, clock);
    await own.interruptSyncRuns(now());
    const unreachable = { reason: 'unreachable', kind: null, recordId: null } as const;
    const wasUnreachable = (await store.standing(unreachable)).openSince !== null;
    const made = await options.create(own, wasUnreachable);
    const { backfill } = made;
    if (paused) backfill.pause();
    backfill.requestFullSync(KINDS, 'start');
    working = { ...made, lease };
    try {
      await backfill.run(signal);
    } finally {
      // Believed until the next worker reports: while this process stops, the API is still what it was.
      live = { at: clock.steady(), ...made.known(), running: [] };
      working = null;
    }
  }

  /** Asks the API for what another process wants to know. */
  async function search({ backfill }: Working): Promise<void> {
    const asked = await readSearch();
    if (asked === null || asked.found !== undefined || asked.number === searching) return;
    searching = asked.number;
    const found = await backfill.find(asked);
    await store.writeFact(SEARCH_FACT, JSON.stringify({ ...asked, found }));
  }

  const readSearch = async () => JSON.parse((await store.readFact(SEARCH_FACT)) ?? 'null') as Search | null;

  async function report({ known }: Working): Promise<void> {
    const { health, running, ...rest } = known();
    const text = JSON.stringify({ health, running });
    const at = clock.steady();
    if (text === written.text && at - written.at < WRITE_AGAIN_MS) return;
    await store.writeFact(LIVE_FACT, JSON.stringify({ at, health, running, ...rest }));
    written = { at, text };
  }

  function known(): ApiState {
    if (working !== null) return working.known();
    return live !== null && clock.steady() - live.at < BELIEVED_MS ? live : nothingKnown;
  }

  return {
    work,
    known,

    /** Takes the requests of others as the worker, and writes or reads the report. `isNotified`: another process has announced work. */
    async look(isNotified: boolean): Promise<void> {
      const own = working;
      if (own === null) {
        const text = await store.readFact(LIVE_FACT);
        live = text === null ? null : JSON.parse(text);
        return;
      }
      if (own.lease !== null)
        for (const { kind, reason } of await store.takeSyncRequests(own.lease))
          own.backfill.requestFullSync([kind], reason);
      if (isNotified) own.backfill.wake();
      if (own.lease !== null) search(own).catch(options.onError);
      await report(own);
    },

    /** A worker knows of it, now or later, when this resolves. */
    async requestFullSync(kinds: readonly Kind[], reason: string): Promise<void> {
      if (working !== null) return working.backfill.requestFullSync(kinds, reason);
      // Alone, this process begins with full syncs.
      if (lease.isAlone) return;
      await store.requestSyncRuns(kinds, reason, now());
      lease.notify('work');
    },
    /** Asks the API for what looks like an id in the events of an open problem. Rejects with MirrorError `no_worker`. */
    async find(about: Unknown): Promise<Found> {
      if (working !== null) return await working.backfill.find(about);
      const number = crypto.randomUUID();
      await store.writeFact(SEARCH_FACT, JSON.stringify({ ...about, number } satisfies Search));
      lease.notify('work');
      for (const until = clock.steady() + SEARCH_MS; clock.steady() < until; ) {
        await clock.sleep(SEARCH_LOOK_MS);
        const search = await readSearch();
        if (search?.number !== number) break;
        if (search.found !== undefined) return search.found;
      }
      throw new MirrorError('no_worker', 'no process has asked the API', {
        remedy: 'try again in a minute: one of the processes becomes the worker',
      });
    },
    async refetch(kind: Kind, ids: readonly string[]): Promise<void> {
      if (working !== null) return await working.backfill.refetch(kind, ids);
      await store.makeDue(kind, ids, now());
      lease.notify('work');
    },
    wake(): void {
      if (working !== null) working.backfill.wake();
      else lease.notify('work');
    },
    pause(): void {
      paused = true;
      working?.backfill.pause();
    },
    resume(): void {
      paused = false;
      working?.backfill.resume();
    },
  };
}

/** The store for the worker. */
function underLease(store: Store, lease: Lease, clock: Clock): Verbs {
  // Another process's clock may be this much behind. A read that is later by it covers what that process has accepted.
  const marginMs = () => 2 * (clock.marginMs?.() ?? 0);
  const fenced = store.underLease(lease);
  return {
    ...fenced,
    async nextWork(now, hand) {
      const todo = await fenced.nextWork({ ...now, steady: now.steady - marginMs() }, hand);
      return todo.map((work) =>
        work.what === 'rest' && work.until !== null ? { ...work, until: work.until + marginMs() } : work,
      );
    },
  };
}
