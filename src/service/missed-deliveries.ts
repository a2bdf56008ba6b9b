import type { Backfill } from '../backfill/backfill.ts';
import type { Kind } from '../compliance/kinds.ts';
import { senderOf } from '../platform/addresses.ts';
import { type Clock, momentOf } from '../platform/clock.ts';
import type { About, DeliveryOutcome } from '../receive/routes.ts';
import type { DirtyTiming, ProblemKey, Store } from '../store/store.ts';

/** After this long without a heartbeat the sender may have given up on deliveries. */
const DOWNTIME_AFTER_MS = 30_000;
/** Anyone can replay a captured delivery or invent a signature. Full syncs for such reasons are at least this far apart. */
const FORGEABLE_FULL_SYNC_DISTANCE_MS = 10 * 60_000;
/** If the database takes no deliveries for this long it is a failure, even if it takes heartbeats. */
const UNKEPT_AFTER_MS = 6_000;
/** The failure counts for this long after the last such delivery: the sender may have found another process. */
const UNKEPT_HOLDS_MS = 60_000;
/** Records of such deliveries that are read again one by one. If there are more, full syncs are cheaper. */
const UNKEPT_RECORDS_MAX = 100;
/** This many rejections in a row are a sign of a rotated secret or a wrong clock rather than of a stranger. */
const REJECTED_BURST = 5;
/** Networks that accepted deliveries came from, and those of a burst of rejections. Of more the latest count. */
const NETWORKS_KEPT = 1_000;

/** Events that are searched for the addresses of senders and the last delivery. */
const NEWEST_EVENTS = 200;

const DOWNTIME: ProblemKey = { reason: 'downtime', kind: null, recordId: null };
const REJECTED: ProblemKey = { reason: 'rejected_deliveries', kind: null, recordId: null };
const SILENCE: ProblemKey = { reason: 'silence', kind: null, recordId: null };

const WRONG_SIGNATURE = 'several deliveries in a row carry a signature of no secret we know';
const WRONG_TIME = 'several correctly signed deliveries in a row came at a wrong time: is a clock wrong?';
const NOT_YET_KNOWN = 'a delivery came before a signing secret was known that it could be signed with';
const NO_SECRET = 'no signing secret is known: set WEBHOOK_SECRETS, or register the webhook';

interface DowntimeOptions {
  store: Pick<Store, 'readFact' | 'openProblem'>;
  clock: Clock;
  eventsOnly: boolean;
}

/**
 * What every start does before any stage runs, because the last process may have ended anywhere: it puts the due times of unverified
 * records right, and opens a problem for the time without a service.
 */
export async function recover(
  options: DowntimeOptions & { store: Pick<Store, 'markUnverifiedDirty'>; timing: DirtyTiming },
): Promise<void> {
  await options.store.markUnverifiedDirty(momentOf(options.clock), options.timing);
  await noteDowntime(options, 'the service was not running');
}

/**
 * Opens a problem if the last heartbeat is too long ago, or too far in the future. Called before each heartbeat and not only at a start,
 * because a sleeping machine, a stopped process and a full disk come back without a start.
 */
export async function noteDowntime(options: DowntimeOptions, what: string): Promise<void> {
  // Without the API nothing could resolve the problem.
  if (options.eventsOnly) return;
  const last = await options.store.readFact('heartbeat');
  const ms = last === null ? 0 : options.clock.wall() - Date.parse(last);
  if (Math.abs(ms) < DOWNTIME_AFTER_MS) return;
  const seconds = Math.round(Math.abs(ms) / 1000);
  // After a clock was set back, `complete_through` would be in the future until the next full syncs.
  const why = ms > 0 ? `${what} for ${seconds} s` : `the clock was set back by ${seconds} s`;
  await options.store.openProblem(DOWNTIME, why, momentOf(options.clock));
}

/** The shortest time between full syncs that a stranger can cause. Milliseconds. */
function forgeableDistanceMs(fullSyncMs: number): number {
  return Math.max(FORGEABLE_FULL_SYNC_DISTANCE_MS, fullSyncMs);
}

export type DeliveryWatch = ReturnType<typeof createDeliveryWatch>;

/** Opens and resolves problems by what the outcomes of deliveries show. */
export function createDeliveryWatch(options: {
  store: Pick<Store, 'lastDelivery' | 'markDirty' | 'openProblem' | 'endProblem'>;
  /** Null: events only, so nothing can be read again. */
  backfill: Pick<Backfill, 'wake'> | null;
  clock: Clock;
  timing: DirtyTiming;
  /** Wall-clock milliseconds. */
  startedAt: number;
  silenceMs: number;
  fullSyncMs: number;
  /** Whether a signing secret is known. */
  hasSecret: () => boolean;
  onError: (error: unknown) => void;
}) {
  const { store, backfill, clock, onError } = options;
  const distanceMs = forgeableDistanceMs(options.fullSyncMs);
  const rejected = createRejected(options, distanceMs);
  const late = createUnread();
  let lastLate = Number.NEGATIVE_INFINITY;
  let silentSince: string | null = null;
  /** Deliveries that could not be stored, since the last one that was. Only `wall` is by the wall clock. */
  let unkept: { wall: number; since: number; last: number; isTold: boolean } | null = null;
  const unread = createUnread();
  /** The text of a problem about such deliveries that the database did not take either. */
  let unopened: string | null = null;
  const now = () => momentOf(clock);

  function onUnkept(): void {
    const { wall, steady } = now();
    unkept ??= { wall, since: steady, last: steady, isTold: false };
    unkept.last = steady;
  }

  /** What deliveries were about that are lost to us is read again, as after an event: the sender may give them up. */
  async function markUnread(lost: Unread): Promise<void> {
    const records = lost.take();
    try {
      if (records.length > 0) await store.markDirty(records, now(), options.timing);
    } catch (error) {
      for (const { kind, id } of records) lost.note({ kind, recordId: id });
      throw error;
    }
    if (records.length > 0) backfill?.wake();
  }

  /** Opens a problem for deliveries that could not be stored, if they are many or for long; and again when that is over. */
  async function openUnkept(isOver: boolean): Promise<void> {
    if (unread.hasRecords()) await markUnread(unread);
    if (unkept !== null) {
      const ms = unkept.last - unkept.since;
      const isNews = (unread.isAll() || ms >= DOWNTIME_AFTER_MS) && (isOver || !unkept.isTold);
      unkept.isTold ||= isNews;
      // Without the API nothing could resolve the problem.
      if (isNews && backfill !== null)
        unopened = `deliveries could not be kept for ${Math.ceil(ms / 1000)} s`;
      if (isOver) {
        unkept = null;
        unread.forgetAll();
      }
    }
    if (unopened === null) return;
    const text = unopened;
    unopened = null;
    try {
      await store.openProblem(DOWNTIME, text, now());
    } catch (error) {
      unopened ??= text;
      throw error;
    }
    backfill?.wake();
  }

  /** Reads what correctly signed deliveries at a wrong time were about. Anyone can replay them, so not often. */
  async function readLate(): Promise<void> {
    if (backfill === null || late.isEmpty() || clock.steady() - lastLate < distanceMs) return;
    await markUnread(late);
    if (late.isAll()) {
      await store.openProblem(DOWNTIME, 'a correctly signed delivery came at a wrong time', now());
      backfill.wake();
    }
    late.forgetAll();
    lastLate = clock.steady();
  }

  async function checkSilence(): Promise<void> {
    const delivery = await store.lastDelivery(NEWEST_EVENTS);
    rejected.know(delivery);
    if (options.silenceMs === 0) return;
    const last = delivery.wall ?? options.startedAt;
    const isSilent = clock.wall() - last >= options.silenceMs;
    const since = new Date(last).toISOString();
    if (!isSilent) await store.endProblem(SILENCE, now());
    else if (silentSince !== since)
      await store.openProblem(
        SILENCE,
        `no delivery since ${since}`,
        now(),
        delivery.wall === null ? 'ever' : since,
      );
    silentSince = isSilent ? since : null;
  }

  return {
    onDelivery(outcome: DeliveryOutcome, reason: string, address: string | null): void {
      if (outcome === 'rejected') rejected.onRejected(reason, senderOf(address));
      else if (outcome === 'failed' || reason === 'store_unavailable') onUnkept();
      else if (outcome === 'accepted' || outcome === 'duplicate' || outcome === 'quarantined') {
        rejected.onAccepted(senderOf(address));
        openUnkept(true).catch(onError);
      }
    },

    /** A correctly signed delivery could not be stored. */
    onUnkept(about: About): void {
      // Without the API nothing can be read.
      if (backfill !== null) unread.note(about);
    },

    /** Since when no delivery could be stored, in wall-clock milliseconds; null: the last one was stored, or none comes. */
    unkeptSince(): number | null {
      if (unkept === null || clock.steady() - unkept.last >= UNKEPT_HOLDS_MS) return null;
      return unkept.last - unkept.since < UNKEPT_AFTER_MS ? null : unkept.wall;
    },

    /** A correctly signed delivery about this came at a wrong time, so its event is lost: its record is read, now or later. */
    onRejectedTimestamp(about: About): void {
      late.note(about);
      readLate().catch(onError);
    },

    /** Checks whether deliveries have stopped or are rejected, and opens problems that were put off. Called by the heartbeat. */
    async check(): Promise<void> {
      await readLate();
      await openUnkept(false);
      await checkSilence();
      await rejected.check();
    },
  };
}

/** Whether the sender's deliveries are rejected. Strangers' are not our problem. */
function createRejected(
  {
    store,
    clock,
    onError,
    backfill,
    hasSecret,
  }: Pick<
    Parameters<typeof createDeliveryWatch>[0],
    'store' | 'clock' | 'onError' | 'backfill' | 'hasSecret'
  >,
  distanceMs: number,
) {
  let inARow = 0;
  /** Where deliveries were accepted from, and where those of this burst were rejected from. */
  const senders = new Set<string>();
  const rejectedFrom = new Set<string>();
  /** Null: not known yet. */
  let wasEverAccepted: boolean | null = null;
  /** Why deliveries are rejected; null: they are not. */
  let why: string | null = null;
  /** The problem about it is open. At a start an earlier process may have left it so. */
  let isOpen: boolean | null = null;
  /** A delivery was accepted since, or a secret is known at last. */
  let isOver = false;
  let lastFullSync = Number.NEGATIVE_INFINITY;
  const now = () => momentOf(clock);

  const maySend = () =>
    wasEverAccepted === false || [...rejectedFrom].some((network) => senders.has(network));

  async function open(text: string): Promise<void> {
    if (isOpen === true) return;
    isOpen = true;
    isOver = false;
    await store.openProblem(REJECTED, text, now()).catch((error) => {
      isOpen = null;
      throw error;
    });
  }

  /** What was rejected is read by a full sync of each kind: one that strangers can cause, so not often. Until then it is open. */
  async function settle(): Promise<void> {
    if (!isOver || isOpen === false) return;
    if (isOpen === true && backfill !== null) {
      if (clock.steady() - lastFullSync < distanceMs) return;
      lastFullSync = clock.steady();
      await store.openProblem(DOWNTIME, 'deliveries were rejected until now', now());
      backfill.wake();
    }
    await store.endProblem(REJECTED, now());
    isOpen = false;
    isOver = false;
  }

  async function judge(): Promise<void> {
    if (why !== null && maySend()) await open(why);
  }

  return {
    onRejected(reason: string, network: string): void {
      const isLate = reason.startsWith('timestamp_');
      if (reason === 'no_signing_secret') {
        keepLatest(rejectedFrom, network);
        why ??= NOT_YET_KNOWN;
      } else if (reason === 'bad_signature' || isLate) {
        keepLatest(rejectedFrom, network);
        inARow += 1;
        if (inARow >= REJECTED_BURST) why ??= isLate ? WRONG_TIME : WRONG_SIGNATURE;
      }
      judge().catch(onError);
    },

    onAccepted(network: string): void {
      keepLatest(senders, network);
      wasEverAccepted = true;
      inARow = 0;
      rejectedFrom.clear();
      why = null;
      if (isOpen === false) return;
      isOver = true;
      settle().catch(onError);
    },

    know({ wall, addresses }: Awaited<ReturnType<Store['lastDelivery']>>): void {
      if (wasEverAccepted !== null) return;
      wasEverAccepted = wall !== null;
      for (const address of addresses) keepLatest(senders, senderOf(address));
    },

    async check(): Promise<void> {
      if (!hasSecret()) await open(NO_SECRET);
      // Nothing was rejected meanwhile.
      else if (why === null) await store.endProblem(REJECTED, now(), NO_SECRET);
      await judge();
      await settle();
    },
  };
}

type Unread = ReturnType<typeof createUnread>;

/** What deliveries were about that are lost to us, as far as they say. */
function createUnread() {
  const records = new Map<string, { kind: Kind; id: string }>();
  /** There were more, or one that does not say. */
  let isAll = false;
  return {
    note({ kind, recordId: id }: About): void {
      const key = `${kind} ${id}`;
      if (kind === null || id === null || (records.size >= UNKEPT_RECORDS_MAX && !records.has(key)))
        isAll = true;
      else records.set(key, { kind, id });
    },
    take(): { kind: Kind; id: string }[] {
      const taken = [...records.values()];
      records.clear();
      return taken;
    },
    hasRecords: () => records.size > 0,
    isAll: () => isAll,
    isEmpty: () => records.size === 0 && !isAll,
    forgetAll(): void {
      isAll = false;
    },
  };
}

function keepLatest(networks: Set<string>, network: string): void {
  networks.delete(network);
  networks.add(network);
  if (networks.size > NETWORKS_KEPT) networks.delete(networks.keys().next().value!);
}
