import type { Kind } from '../compliance/kinds.ts';

/**
 * What several processes over one database share: replicas, leases, requested sync runs and the request budget. Instants are
 * the steady clock's, which on PostgreSQL is the database's time. A SQLite file has one process, which gets everything.
 */

/** Both clocks, read together. Units: milliseconds since 1970. */
export interface Now {
  wall: number;
  steady: number;
}

/** The right to do work that one process does at a time. Lost when another process takes it, with a higher fence. */
export interface Lease {
  name: string;
  owner: string;
  fence: number;
}

export interface TakenLease extends Lease {
  /** Another owner's lease expired: it may have been killed during its work. False: the lease was free. */
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
  /** How many it takes now, as far as available, instead of those it has. */
  takes: number;
  /** How many it could use. */
  wants: number;
  /** How long the places are reserved for it. Milliseconds. */
  leaseMs: number;
  /** A replica that has not asked for this long is gone. Milliseconds. */
  goodForMs: number;
}

export interface PlacesGiven {
  places: number;
  /** Other processes that want more than they have. */
  othersWanting: number;
  free: number;
  /** The upstream asked us to send nothing until then (steady); null: it did not. */
  pausedUntil: number | null;
  /** Places that lost replicas may still use, the longest first; `until` by the steady clock. */
  lost: { replica: string; places: number; until: number }[];
}

export interface StoredSession {
  hash: string;
  sealed: string;
  openedAt: number;
  usedAt: number;
}

/** For other processes. A lost one only delays them until their next poll. */
export type Notice = 'events' | 'work';

export interface ReplicaStore {
  /** Null: the process's own clocks are used. A database behind `atLeast` (steady), as after a failover, is corrected for all. */
  sharedTime(atLeast: number | null): Promise<Now | null>;

  /** Deletes replicas without a beat within `lifeMs`, and counts the others. */
  beatReplica(id: string, lifeMs: number, now: Now): Promise<{ others: number }>;
  leaveReplicas(id: string): Promise<void>;
  /** Replicas with a beat within `lifeMs`. */
  countReplicas(lifeMs: number, now: Now): Promise<number>;

  /** Takes it, or extends this owner's. Null: another owner has it. */
  takeLease(name: string, owner: string, leaseMs: number, now: Now): Promise<TakenLease | null>;
  /** Lets go of exactly this one. */
  releaseLease(lease: Lease): Promise<void>;

  requestSyncRuns(kinds: readonly Kind[], reason: string, now: Now): Promise<void>;
  /** Returns all requests and deletes them. */
  takeSyncRequests(): Promise<SyncRequest[]>;

  sharePlaces(asked: PlacesAsked, now: Now): Promise<PlacesGiven>;
  /** No process sends before `until` (steady). The latest `until` wins. */
  pausePlaces(until: number): Promise<void>;

  /** Also deletes those opened before `openedSince` or used before `usedSince`, and the oldest beyond `atMost`. */
  openSession(
    session: StoredSession,
    keep: { openedSince: number; usedSince: number; atMost: number },
  ): Promise<void>;
  findSession(hash: string): Promise<StoredSession | null>;
  touchSession(hash: string, usedAt: number): Promise<void>;
  closeSession(hash: string): Promise<void>;

  /** Resolves also if no other process listens. */
  notify(notice: Notice): Promise<void>;
  /** Notices of other processes, until `stop`. After a reconnect every notice comes once, since some may be lost. */
  listen(onNotice: (notice: Notice) => void): Promise<{ stop: () => Promise<void> }>;
}
