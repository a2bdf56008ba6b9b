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

/** The store's verbs that this listener may call. */
export type OpsStore = ReportStore &
  Pick<
    Store,
    | 'failedWithoutRecord'
    | 'discardEvent'
    | 'settleGap'
    | 'approveDeletions'
    | 'pendingDeletions'
    | 'currentNumber'
    | 'epoch'
    | 'audit'
    | 'settleAudit'
    | 'checkWritable'
  > & {
    /** The store's verbs, called with the settings of the running service. */
    retryEvent(id: string, now: Now): Promise<RetryOutcome>;
    releaseQuarantined(id: number, now: Now): Promise<boolean>;
  };

/** What an operator can start besides the store's verbs. Each resolves when the work is queued; only `dryRun` waits for its end. */
export interface OpsActions {
  requestFullSync(kinds: Kind[], reason: string): Promise<void>;
  refetch(kind: Kind, ids: string[], actor: string): Promise<void>;
  /**
   * Compares a whole kind with the API and writes nothing. Rejects with a MirrorError when the API cannot be read, and with
   * the signal's reason when that aborts.
   */
  dryRun(kind: Kind, signal: AbortSignal): Promise<Comparison>;
  /** Stops processing and repairs; deliveries are still received and kept. Survives a restart. */
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/** One of the signing secrets that may verify a delivery; never its text. */
export interface SecretFacts {
  /** From 1; the configured secrets come first. */
  position: number;
  /** The registration that brought it; null: it is configured. */
  registration: string | null;
  /** Since this start; null: not yet. */
  lastUsedAt: number | null;
}

export interface CredentialFacts {
  auth: ComplianceSettings['auth'];
  /** When the present token expires; null: not known. */
  expiresAt: number | null;
  /** Why a person must act before they can be used; null: no reason is known. */
  refusal: string | null;
}

/** Why a delivery was rejected, as `doctor` says it. */
export interface RejectionDiagnosis {
  causes: { code: string; what: string; remedy: string }[];
  /** The settings that the signature fits; null: none of those tried. */
  fit: Record<string, string> | null;
}

/** What only the running process knows. Instants are wall-clock milliseconds since 1970. */
export interface LiveFacts {
  version: string;
  startedAt: number;
  /** Only a command that reads the database itself says `stopped` (no service runs) or `elsewhere` (others run). */
  state: Status['service']['state'];
  /** Null: it is not paused. */
  pausedSince: number | null;
  /** Since when no heartbeat could be written, or no delivery be stored; null: both can. */
  unwritableSince: number | null;
  /** Why the last heartbeat could not be written, and what to do; null: it was written. */
  databaseError: string | null;
  eventsOnly: boolean;
  /** Several deliveries in a row were rejected for their signature, and none has been accepted since. */
  rejectsSignatures: boolean;
  /** Since when every correctly signed delivery, several in a row, was rejected for its time; null: they are not. */
  untimelySince: number | null;
  /** The last request to the API was not sent, because there was no usable token or key. */
  lacksCredentials: boolean;
  /** The configured and the stored ones. None: every delivery is rejected. */
  secrets: SecretFacts[];
  settleMs: number;
  /** 0: no timer. */
  fullSyncMs: number;
  /** 0: silence opens no gap. */
  silenceMs: number;
  runningSyncRuns: RunningSyncRun[];
  upstream: Upstream;
  /** Since when the API has given no usable answer, once that has lasted; null: it answers. */
  unreachableSince: number | null;
  deliveries: Status['deliveries'];
  idPointers: IdPointers;
}

/** What the JSON API needs, in a service and in a command that reads the database itself. */
export interface ApiContext {
  store: OpsStore;
  actions: OpsActions;
  facts(): LiveFacts;
  /** Null: no API credentials. */
  credentials(): Promise<CredentialFacts | null>;
  /** Deliveries and lags from `since` (wall-clock milliseconds) until now. */
  traffic(since: number, step?: TrafficStep): Promise<TrafficReport[]>;
  answerTimes: Pick<AnswerTimes, 'of'>;
  clock: Clock;
  logger: Pick<Logger, 'error'>;
  /** Aborts when the service drains: open event streams end, so that the listener can close. */
  signal: AbortSignal;
}

/** What the operators' listener needs besides. */
export interface OpsContext extends ApiContext {
  addresses: Pick<Addresses, 'of'>;
  /** Notes that an operator sent this request. */
  prove: (request: AddressedRequest) => void;
  /** In memory, or in the database for several replicas. */
  sessionStore: SessionStore;
  /** Null: no such rejection is kept. `busy`: too many are being examined now. */
  diagnose(rejectionId: number): Promise<RejectionDiagnosis | 'busy' | null>;
  /** Read at every request, because their file may change. */
  tokens(): readonly OpsToken[];
  /** OPS_HOST: a name or an address. */
  host: string;
  /** The receiver's URL as this machine reaches it, and the name of the signature header. */
  receiver: { url: string; signatureHeader: string };
  /** OPS_PUBLIC_URL; null: not set. */
  publicUrl: URL | null;
  metrics: Metrics;
  logger: Logger;
  /** Limits log lines that somebody without a token can cause. */
  lines: LogLimit;
}
