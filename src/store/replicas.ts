import type { Kind } from '../compliance/kinds.ts';

/**
 * What several processes over one database share: who lives, who does what one of them does at a time, what was asked
 * of whichever of them, and the request budget. Instants are the steady clock's, which on PostgreSQL is the database's
 * time. A SQLite file has one process: there every answer is the obvious one.
 */

/** Both clocks, read together. Units: milliseconds since 1970. */
export interface Now {
  wall: number;
  steady: number;
}

/** Leave to do work that one process does at a time. Over when another has taken it: then its fence is higher. */
export interface Lease {
  name: string;
  owner: string;
  fence: number;
}

export interface TakenLease extends Lease {
  /** Another owner's time ran out: it may have been killed in the middle. False: nobody had it, or it was let go. */
  isTakeover: boolean;
}

export interface SyncRequest {
  kind: Kind;
  reason: string;
}

/** One process's part of the requests that a minute allows. */
export interface PlacesAsked {
  replica: string;
  /** Of all processes together. */
  limit: number;
  /** How many it takes now, as far as there are, in place of those it has; and how many it would like. */
  takes: number;
  wants: number;
  /** How long nobody else may have what it is given. Milliseconds. */
  leaseMs: number;
  /** Who has not asked for this long is gone. Milliseconds. */
  goodForMs: number;
}

export interface PlacesGiven {
  places: number;
  /** Processes besides this one that would like more than they have. */
  othersWanting: number;
  /** Places that nobody has. */
  free: number;
  /** The upstream asked all of us to wait until then (steady); null: it did not. */
  pausedUntil: number | null;
  /** What those that are gone may have used, the longest first; `until` by the steady clock. */
  lost: { replica: string; places: number; until: number }[];
}

export interface StoredSession {
  hash: string;
  sealed: string;
  openedAt: number;
  usedAt: number;
}

/** What another process may want to know at once. Lost ones are made good by looking now and then. */
export type Notice = 'events' | 'work';

export interface ReplicaStore {
  /**
   * The database's clocks, or null where the process's own are all there is. `atLeast` is what this process takes
   * its steady clock for: a database that is behind, as another server may be after a failover, is set right for all.
   */
  sharedTime(atLeast: number | null): Promise<Now | null>;

  /** Says that this process lives. `others`: those that did so within `lifeMs`; the dead are forgotten. */
  beatReplica(id: string, lifeMs: number, now: Now): Promise<{ others: number }>;
  leaveReplicas(id: string): Promise<void>;
  /** How many said so within `lifeMs`. */
  countReplicas(lifeMs: number, now: Now): Promise<number>;

  /** Takes it, or prolongs what this owner has. Null: another has it. */
  takeLease(name: string, owner: string, leaseMs: number, now: Now): Promise<TakenLease | null>;
  /** Lets go of exactly this one. */
  releaseLease(lease: Lease): Promise<void>;

  requestSyncRuns(kinds: readonly Kind[], reason: string, now: Now): Promise<void>;
  /** Every request, and takes it away. */
  takeSyncRequests(): Promise<SyncRequest[]>;

  sharePlaces(asked: PlacesAsked, now: Now): Promise<PlacesGiven>;
  /** Nothing is sent by any process before `until` (steady). The later one wins. */
  pausePlaces(until: number): Promise<void>;

  /** Opens one, and forgets all that were opened before `openedSince` or used before `usedSince`, and the oldest beyond `atMost`. */
  openSession(
    session: StoredSession,
    keep: { openedSince: number; usedSince: number; atMost: number },
  ): Promise<void>;
  findSession(hash: string): Promise<StoredSession | null>;
  touchSession(hash: string, usedAt: number): Promise<void>;
  closeSession(hash: string): Promise<void>;

  /** Tells the other processes. Resolves also when nobody hears. */
  notify(notice: Notice): Promise<void>;
  /** Hears what other processes tell, until `stop`; after a break it hears every notice once, since some may be lost. */
  listen(onNotice: (notice: Notice) => void): Promise<{ stop: () => Promise<void> }>;
}
