import type { Kind } from '../compliance/kinds.ts';
import type { IdPointers } from '../compliance/pointers.ts';
import type { AddressedRequest, Addresses } from '../platform/addresses.ts';
import type { Clock } from '../platform/clock.ts';
import type { ComplianceSettings, OpsToken } from '../platform/config.ts';
import type { LogLimit } from '../platform/log-limit.ts';
import type { Logger } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { TrafficReport, TrafficStep } from '../store/reports.ts';
import type { Now, ReportStore, RetryOutcome, Store } from '../store/store.ts';
import type { Comparison, RunningSyncRun, Status, Upstream } from './api/schemas.ts';
import type { AnswerTimes } from './delivery-answers.ts';
import type { SessionStore } from './sessions.ts';

/** The store's verbs that operators reach; the other stages' verbs stay out of this listener's hands. */
export type OpsStore = ReportStore &
  Pick<
    Store,
    | 'failedWithoutRecord'
    | 'discardEvent'
    | 'releaseQuarantined'
    | 'resolveGap'
    | 'approveDeletions'
    | 'pendingDeletions'
    | 'currentNumber'
    | 'epoch'
    | 'audit'
    | 'settleAudit'
    | 'checkWritable'
  > & {
    /** By the settings of the running service. */
    retryEvent(id: string, now: Now): Promise<RetryOutcome>;
  };

/** What an operator can start that is no store verb. Each resolves when it is queued, not when it is done. */
export interface OpsActions {
  requestFullSync(kinds: Kind[], reason: string): Promise<void>;
  refetch(kind: Kind, ids: string[]): Promise<{ queued: number }>;
  /**
   * Compares a whole kind with the API and writes nothing. The only one that resolves when it is done, which may take
   * long. Rejects with a MirrorError when the API cannot be read, and with the signal's reason when that aborts.
   */
  dryRun(kind: Kind, signal: AbortSignal): Promise<Comparison>;
  /** Stops processing and repairs; deliveries are still received and kept. Survives a restart. */
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/** A signing secret by its place among those that may verify a delivery; never its text. */
export interface SecretFacts {
  /** From 1, as everywhere that people read it, the configured ones first. */
  position: number;
  /** The registration that brought it; null: it is configured. */
  registration: string | null;
  /** Since this start; null: not yet. */
  lastUsedAt: number | null;
}

export interface CredentialFacts {
  auth: ComplianceSettings['auth'];
  /** When what is sent now runs out; null: nobody said. */
  expiresAt: number | null;
  /** Why they cannot be used until a person acts; null: nothing is known against them. */
  refusal: string | null;
}

/** Why a delivery was rejected, as `doctor` says it. */
export interface RejectionDiagnosis {
  causes: { code: string; what: string; remedy: string }[];
  /** What the signature fits; null: nothing that was tried. */
  fit: Record<string, string> | null;
}

/** What only the running process knows. Instants are wall-clock milliseconds since 1970. */
export interface LiveFacts {
  version: string;
  startedAt: number;
  /** The last two of a command that looks into the database itself: no service runs on it, or others do. */
  state: Status['service']['state'];
  /** Wall-clock milliseconds; null: it is not paused. */
  pausedSince: number | null;
  /** Wall-clock milliseconds since which no heartbeat could be written, or no delivery be kept; null: the last one was. */
  unwritableSince: number | null;
  /** What the database said when the last heartbeat could not be written, and what to do; null: nothing. */
  databaseError: string | null;
  eventsOnly: boolean;
  /** The last deliveries were rejected for their signature, several in a row. */
  rejectsSignatures: boolean;
  /** Wall-clock milliseconds since which all that is signed correctly was rejected for its time, several in a row; null: it is not. */
  untimelySince: number | null;
  /** The API was not asked last time, because there is no token or key that can be used. */
  lacksCredentials: boolean;
  /** Signing secrets that may verify a delivery now, configured and stored. None: every delivery is rejected. */
  secrets: SecretFacts[];
  settleMs: number;
  /** 0: no timer. */
  fullSyncMs: number;
  /** 0: silence is never remarked on. */
  silenceMs: number;
  runningSyncRuns: RunningSyncRun[];
  upstream: Upstream;
  /** Since when the API has given no usable answer, for longer than one failed one; null: it answers. */
  unreachableSince: number | null;
  deliveries: Status['deliveries'];
  /** Where the settings look for ids. */
  idPointers: IdPointers;
}

/** What the API is made of: in a service, and in a command that looks into the database itself. */
export interface ApiContext {
  store: OpsStore;
  actions: OpsActions;
  facts(): LiveFacts;
  /** Null: no API credentials. */
  credentials(): Promise<CredentialFacts | null>;
  /** Deliveries and lags since then (wall-clock milliseconds), up to this moment. */
  traffic(since: number, step?: TrafficStep): Promise<TrafficReport[]>;
  answerTimes: Pick<AnswerTimes, 'of'>;
  clock: Clock;
  logger: Pick<Logger, 'error'>;
  /** Aborts when the service drains: open event streams end, so that the listener can close. */
  signal: AbortSignal;
}

/** What the operators' listener needs as well. */
export interface OpsContext extends ApiContext {
  /** Whom a request came from, as far as that can be believed. */
  addresses: Pick<Addresses, 'of'>;
  /** Notes that an operator sent this request. */
  prove: (request: AddressedRequest) => void;
  /** Memory, or what several replicas share their sessions in. */
  sessionStore: SessionStore;
  /** Null: no such rejection is kept. `busy`: too many are being examined now. */
  diagnose(rejectionId: number): Promise<RejectionDiagnosis | 'busy' | null>;
  /** Asked at every request, because their file may change: a token that is gone opens nothing any more. */
  tokens(): readonly OpsToken[];
  /** Where this listens, as configured: a name, or an address. */
  host: string;
  /** Where deliveries come in, as this machine reaches it, and the header with their signature. */
  receiver: { url: string; signatureHeader: string };
  /** How operators reach this listener from outside; null: as they address it. */
  publicUrl: URL | null;
  metrics: Metrics;
  logger: Logger;
  /** For lines that somebody without a token can cause. */
  lines: LogLimit;
}
