import type { Kind } from '../compliance/kinds.ts';
import type { Addresses } from '../platform/addresses.ts';
import type { Clock } from '../platform/clock.ts';
import type { OpsToken } from '../platform/config.ts';
import type { LogLimit } from '../platform/log-limit.ts';
import type { Logger } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { ShownDelivery } from '../store/reports.ts';
import type { Now, ProvenPointer, RetryOutcome, Store, Unknown } from '../store/store.ts';
import type { Configuration, Diagnosis, RunningSyncRun, Status, Upstream } from './api/schemas.ts';
import type { SessionStore } from './sessions.ts';

/** The store's verbs that this listener may call. */
export type OpsStore = Pick<
  Store,
  | 'list'
  | 'show'
  | 'summary'
  | 'statusThen'
  | 'feed'
  | 'resolveProblem'
  | 'decideDeletions'
  | 'pendingOf'
  | 'audit'
  | 'settleAudit'
  | 'checkWritable'
> & {
  /** The store's verbs, called with the settings of the running service. */
  retryDelivery(id: string, now: Now): Promise<RetriedDelivery>;
  dismissDelivery(id: string, now: Now): Promise<boolean>;
};

/** `accepted`: it was quarantined, and is an event now. */
export type RetriedDelivery =
  | RetryOutcome
  | { outcome: 'accepted'; kind: Kind | null; recordId: string | null };

/** What an operator can start besides the store's verbs. Each resolves when the work is queued. */
export interface OpsActions {
  requestFullSync(kinds: Kind[], reason: string): Promise<void>;
  refetch(kind: Kind, ids: string[], actor: string): Promise<void>;
  /** Asks the API for what looks like an id in the events of an open problem, and keeps the place that it proves. */
  find(about: Unknown): Promise<{ pointer: ProvenPointer | null; retried: number; says: string }>;
  /** Stops processing and repairs; deliveries are still received and kept. Survives a restart. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Sends a test to NOTIFY_URL. Null: it was taken; otherwise why not. */
  testNotification(): Promise<string | null>;
}

/** What only the running process knows, as the API shows it. */
export interface LiveFacts {
  service: Status['service'];
  upstream: Upstream;
  running: RunningSyncRun[];
  /** Since when no heartbeat could be written, or no delivery be stored, in milliseconds since 1970; null: both can. */
  unwritableSince: number | null;
  /** Why the last heartbeat could not be written, and what to do; null: it was written. */
  databaseError: string | null;
}

/** What the operators' listener needs. */
export interface OpsContext {
  store: OpsStore;
  actions: OpsActions;
  facts(): LiveFacts;
  /** Why a delivery was rejected. */
  diagnose(rejected: ShownDelivery): Promise<Diagnosis>;
  /** What the service runs with. `withSecrets`: with their fingerprints. */
  configuration(withSecrets: boolean): Promise<Configuration>;
  clock: Clock;
  /** Aborts when the service drains: requests that wait are answered, so that the listener can close. */
  signal: AbortSignal;
  addresses: Pick<Addresses, 'of'>;
  /** In memory, or in the database for several replicas. */
  sessionStore: SessionStore;
  /** Read at every request, because their file may change. */
  tokens(): readonly OpsToken[];
  /** OPS_HOST: a name or an address. */
  host: string;
  /** OPS_PUBLIC_URL; null: not set. */
  publicUrl: URL | null;
  metrics: Metrics;
  logger: Logger;
  /** Limits log lines that somebody without a token can cause. */
  lines: LogLimit;
}
