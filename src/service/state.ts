import { NOTHING_KNOWN, type UpstreamHealth, unreachableSince } from '../backfill/health.ts';
import { KINDS } from '../compliance/kinds.ts';
import { type Clock, createNap, momentOf } from '../platform/clock.ts';
import { describeError, MirrorError } from '../platform/errors.ts';
import type { ProblemKey, ServiceFacts } from '../store/store.ts';
import { noteDowntime } from './missed-deliveries.ts';
import type { Base } from './opening.ts';
import type { Repairs } from './repairs.ts';
import type { WorkerLease } from './worker-lease.ts';

export const PAUSED: ProblemKey = { reason: 'paused', kind: null, recordId: null };

export type ServiceState = ReturnType<typeof createServiceState>;

/** The state of this process, and how it gets into the tables. */
export function createServiceState(
  options: Pick<Base, 'config' | 'store' | 'clock' | 'rules' | 'startedAt'> & {
    lease: Pick<WorkerLease, 'isWorker'>;
    repairs: Pick<Repairs, 'backfill' | 'known' | 'credentials' | 'access' | 'renewAccess'>;
    worker: { pause(): void; resume(): void };
  },
) {
  const { config, store, clock, lease, repairs, worker, startedAt } = options;
  const { eventsOnly, pointers } = options.rules;
  const { settleMs, fullSyncMs } = config.sync;
  const { backfill } = repairs;
  let phase: 'starting' | 'running' | 'draining' = 'starting';
  let pausedSince: number | null = null;
  let unwritableSince: number | null = null;
  let databaseError: string | null = null;
  let wasRefused = false;

  async function write(): Promise<void> {
    // A start has noted it already.
    if (phase !== 'starting')
      await noteDowntime({ store, clock, eventsOnly }, 'the service stood still, or could not write,');
    if (!lease.isWorker()) {
      await store.beat(momentOf(clock), null);
      return await repairs.renewAccess();
    }
    const isRefused = (await repairs.credentials?.needPerson?.()) ?? false;
    const { otherAccess } = await store.beat(momentOf(clock), {
      eventsOnly,
      settleMs,
      fullSyncMs,
      pointers,
      access: repairs.access(),
      unreachable: reachability(repairs.known()?.health ?? NOTHING_KNOWN, clock.steady()),
    });
    // What other credentials may read is not known until they have read it. After a new consent the old ones may read again.
    const isNews = otherAccess || (wasRefused && !isRefused);
    wasRefused = isRefused;
    if (isNews) await backfill?.requestFullSync(KINDS, 'credentials');
    await repairs.renewAccess();
  }

  return {
    /** For the operators' listener. */
    facts: () => ({ startedAt, phase, unwritableSince, databaseError }),
    at(to: 'running' | 'draining'): void {
      phase = to;
    },
    /** Pauses processing and repairs; null: resumes them. */
    setPause(to: number | null): void {
      const isSame = (pausedSince === null) === (to === null);
      pausedSince = to;
      if (isSame) return;
      for (const each of [worker, backfill]) {
        if (to === null) each?.resume();
        else each?.pause();
      }
    },
    /** Shows that the service is alive, and as the worker writes its state. Called every few seconds and after changes. */
    async beat(): Promise<void> {
      try {
        await write();
        unwritableSince = null;
        databaseError = null;
      } catch (error) {
        unwritableSince ??= clock.wall();
        const remedy = (error instanceof MirrorError && error.remedy) || null;
        databaseError = `${describeError(error)}${remedy === null ? '' : ` (${remedy})`}`;
        throw error;
      }
    },
  };
}

/** Until this process asks the API, what the last one noted stands. Pure. */
function reachability(health: UpstreamHealth, steady: number): ServiceFacts['unreachable'] {
  if (health === NOTHING_KNOWN) return null;
  return unreachableSince(health, steady) !== null && { error: health.lastError };
}

/** How often the service shows that it is alive. Downtime is measured with this precision. */
const HEARTBEAT_MS = 5_000;
/** After a repair the next beat comes sooner, but at least this long after the last: a beat is a commit, and repairs come in bursts. */
const SOONEST_MS = 500;
/** It also waits for this many times the duration of the last beat: with 100,000 records outstanding the verdict takes 60 ms. */
const REST_IN_BEATS = 20;

export function createHeartbeat({
  clock,
  onError,
}: {
  clock: Pick<Clock, 'sleep' | 'steady'>;
  onError: (error: unknown) => void;
}) {
  let isHurried = false;
  let soonestMs = SOONEST_MS;
  const nap = createNap(clock);
  return {
    /** Makes the next beat come sooner, because the verdict may have changed. */
    hurry(): void {
      isHurried = true;
      nap.wake();
    },
    /** Beats until `signal` aborts, also after a `beat` that rejects. */
    async run(beat: () => Promise<void>, signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        await clock.sleep(soonestMs, signal);
        if (!isHurried) await nap.sleep(HEARTBEAT_MS - soonestMs, signal);
        isHurried = false;
        if (signal.aborted) return;
        const began = clock.steady();
        await beat().catch(onError);
        const tookMs = clock.steady() - began;
        soonestMs = Math.min(HEARTBEAT_MS, Math.max(SOONEST_MS, tookMs * REST_IN_BEATS));
      }
    },
  };
}
