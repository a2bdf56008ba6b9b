import type { GapKeeper } from '../backfill/gaps.ts';
import { unreachableSince } from '../backfill/upstream.ts';
import { KINDS } from '../compliance/kinds.ts';
import type { LiveFacts } from '../ops/context.ts';
import { noteDowntime } from './downtime.ts';
import type { Base } from './opening.ts';
import type { Pause } from './pause.ts';
import type { Repairs } from './repairs.ts';
import type { Replicas } from './replicas.ts';

/** How this process stands, and how its tables learn of it. */
export interface ServiceState {
  /** For the operators' listener. */
  facts(): Pick<LiveFacts, 'startedAt' | 'state' | 'paused' | 'pausedSince' | 'unwritableSince'>;
  at(phase: 'running' | 'draining'): void;
  /** Stops processing and repairs; null: goes on with them. */
  setPause(to: Pause | null): void;
  /** Writes into the tables how it stands now. */
  write(): Promise<void>;
  /** The same of a service that has been running, which may have stood still since the last time. */
  beat(): Promise<void>;
  /** The same every few seconds: others hear that this replica lives, and it is remembered whether anything could be written. */
  heartbeat(): Promise<void>;
}

interface Stage {
  pause(): void;
  resume(): void;
}

export function createServiceState(
  options: Pick<Base, 'config' | 'store' | 'clock' | 'rules' | 'startedAt'> & {
    gaps: GapKeeper;
    replicas: Pick<Replicas, 'beat'>;
    repairs: Pick<Repairs, 'backfill' | 'access' | 'renewAccess'>;
    worker: Stage;
  },
): ServiceState {
  const { config, store, clock, gaps, replicas, repairs, worker } = options;
  const { startedAt } = options;
  const { eventsOnly } = options.rules;
  const { settleMs, fullSyncMs } = config.sync;
  const { backfill } = repairs;
  let phase: LiveFacts['state'] = 'starting';
  let pause: Pause | null = null;
  let unwritableSince: number | null = null;
  let writtenWith: string | null = null;

  async function write(): Promise<void> {
    const access = repairs.access();
    await store.beat(
      { wall: clock.wall(), steady: clock.steady() },
      {
        ...{ eventsOnly, settleMs, fullSyncMs, access },
        blocked: pause !== null,
        unreachable: unreachableSince(backfill?.health(), clock.wall()) !== null,
      },
    );
    await repairs.renewAccess();
    // Nothing is known of what the new ones may read until they have read it.
    if (writtenWith !== null && writtenWith !== access) backfill?.requestFullSync(KINDS, 'credentials');
    writtenWith = access;
  }

  async function beat(): Promise<void> {
    await noteDowntime({ store, gaps, clock, eventsOnly }, 'the service stood still, or could not write,');
    await write();
  }

  return {
    ...{ write, beat },
    facts: () => ({
      ...{ startedAt, state: phase, unwritableSince },
      ...{ paused: pause !== null, pausedSince: pause?.since ?? null },
    }),
    at(to) {
      phase = to;
    },
    setPause(to) {
      const wasPaused = pause !== null;
      pause = to;
      if (wasPaused === (to !== null)) return;
      for (const each of [worker, backfill]) to === null ? each?.resume() : each?.pause();
    },
    async heartbeat() {
      try {
        await replicas.beat();
        await beat();
        unwritableSince = null;
      } catch (error) {
        unwritableSince ??= clock.wall();
        throw error;
      }
    },
  };
}
