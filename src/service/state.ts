import { unreachableSince } from '../backfill/upstream.ts';
import { KINDS } from '../compliance/kinds.ts';
import type { LiveFacts } from '../ops/context.ts';
import { type Clock, createNap, momentOf } from '../platform/clock.ts';
import { describeError, MirrorError } from '../platform/errors.ts';
import { type Logger, stage } from '../platform/logger.ts';
import type { ReadingFact, Store } from '../store/store.ts';
import { READER_LEASE } from './leader-backfill.ts';
import { noteDowntime } from './missed-deliveries.ts';
import type { Base } from './opening.ts';
import type { Repairs } from './repairs.ts';
import type { Replicas } from './replicas.ts';

/** When the pause began; empty: there is none. In the database it survives a restart and counts for every replica, and the view `sync_status` reads it. */
const PAUSED_SINCE = 'paused_since';

/** Since when processing and repairs are paused, in wall-clock milliseconds; null: they are not. */
export async function readPause(facts: Pick<Store, 'readFact'>): Promise<number | null> {
  const since = Date.parse((await facts.readFact(PAUSED_SINCE)) ?? '');
  return Number.isNaN(since) ? null : since;
}

/** Begins a pause at `wall`, unless there is one. Resolves with the beginning of the pause. */
export async function beginPause(
  facts: Pick<Store, 'readFact' | 'writeFact'>,
  wall: number,
): Promise<number> {
  const before = await readPause(facts);
  if (before === null) await facts.writeFact(PAUSED_SINCE, new Date(wall).toISOString());
  return before ?? wall;
}

export async function endPause(facts: Pick<Store, 'writeFact'>): Promise<void> {
  await facts.writeFact(PAUSED_SINCE, '');
}

export type ServiceState = ReturnType<typeof createServiceState>;

/** The state of this process, and how it gets into the tables. */
export function createServiceState(
  options: Pick<Base, 'config' | 'store' | 'clock' | 'rules' | 'startedAt' | 'logger'> & {
    replicas: Pick<Replicas, 'beat' | 'id' | 'isAlone'>;
    repairs: Pick<Repairs, 'backfill' | 'health' | 'credentials' | 'access' | 'renewAccess' | 'budget'>;
    worker: { pause(): void; resume(): void };
  },
) {
  const { config, store, clock, replicas, repairs, worker, startedAt } = options;
  const { eventsOnly, pointers } = options.rules;
  const { settleMs, fullSyncMs } = config.sync;
  const { backfill } = repairs;
  let phase: 'starting' | 'running' | 'draining' = 'starting';
  let pausedSince: number | null = null;
  let unwritableSince: number | null = null;
  let databaseError: string | null = null;
  let wasRefused = false;
  const noteOthersSettings = createSettingsWatch(stage(options.logger, 'service'));

  async function write(): Promise<void> {
    // A start has noted it already.
    if (phase !== 'starting')
      await noteDowntime({ store, clock, eventsOnly }, 'the service stood still, or could not write,');
    const access = repairs.access();
    const isRefused = ((await repairs.credentials?.standing?.())?.refusal ?? null) !== null;
    const { differing, otherAccess } = await store.beat(momentOf(clock), {
      eventsOnly,
      settleMs,
      fullSyncMs,
      access,
      pointers,
      reader: replicas.isAlone ? undefined : { lease: READER_LEASE, replica: replicas.id },
      unreachable: unreachableSince(repairs.health(), clock.steady()) !== null,
      others: repairs.budget.facts(),
    });
    noteOthersSettings(differing);
    // What other credentials may read is not known until they have read it. After a new consent the old ones may read again.
    if (otherAccess || (wasRefused && !isRefused)) backfill?.requestFullSync(KINDS, 'credentials');
    wasRefused = isRefused;
    await repairs.renewAccess();
  }

  return {
    /** For the operators' listener. */
    facts: () => ({
      startedAt,
      state: phase as LiveFacts['state'],
      pausedSince,
      unwritableSince,
      databaseError,
    }),
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
    /** Writes the current state, and shows other replicas that this one is alive. Called every few seconds and after changes. */
    async beat(): Promise<void> {
      try {
        await replicas.beat();
        await write();
        unwritableSince = null;
        databaseError = null;
      } catch (error) {
        unwritableSince ??= clock.wall();
        const remedy = (error instanceof MirrorError && error.remedy) || null;
        databaseError = `Its error: ${describeError(error)}${remedy === null ? '' : ` (${remedy})`}.`;
        throw error;
      }
    },
  };
}

const SETTINGS: Readonly<Record<ReadingFact, string>> = {
  access: 'COMPLIANCE_BASE_URL or the credentials for it',
  events_only: 'COMPLIANCE_BASE_URL',
  full_sync_ms: 'SYNC_FULL_MINUTES',
  id_pointers: 'ID_POINTERS_*',
  settle_ms: 'SYNC_SETTLE_SECONDS',
};

/** Logs once which settings differ from those of the replica that reads the API. */
function createSettingsWatch(log: Logger): (differing: readonly ReadingFact[]) => void {
  let last = '';
  let said = '';
  return (differing) => {
    // Without an address there are no credentials either.
    const facts = differing.includes('events_only')
      ? differing.filter((fact) => fact !== 'access')
      : differing;
    const setting = facts.map((fact) => SETTINGS[fact]).join(', ');
    // Only the second time: not all replicas read a setting's file at the same moment.
    if (setting === last && setting !== said) {
      said = setting;
      if (setting !== '')
        log.warn(
          { outcome: 'different', setting },
          'the replica that reads the API has other settings: give all the same, or this one reads by its own once it takes over',
        );
    }
    last = setting;
  };
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
