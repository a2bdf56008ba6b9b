import { createHash } from 'node:crypto';
import type { z } from 'zod';
import type { Kind } from '../compliance/kinds.ts';
import type * as rows from './report-rows.ts';

/** Queries for people, in the shapes of the JSON API and the CLI. Instants are ISO 8601 UTC text. */

export type EventState = z.output<typeof rows.eventState>;
export type ListedOutcome = z.output<typeof rows.listedOutcome>;
export type RecordReport = z.output<typeof rows.record>;
export type ShownRecord = z.output<typeof rows.shownRecord>;
export type ChangeReport = z.output<typeof rows.change>;
export type ProblemReport = z.output<typeof rows.problem>;
export type OpenProblems = z.output<typeof rows.openProblems>;
export type SyncRunReport = z.output<typeof rows.syncRun>;
export type AuditReport = z.output<typeof rows.auditEntry>;
export type KindStatus = z.output<typeof rows.kindStatus>;
export type KindThen = z.output<typeof rows.kindThen>;
export type SyncRunThen = NonNullable<KindThen['last_full_sync']>;
export type DeliveryReport = z.output<typeof rows.delivery>;
export type ShownDelivery = z.output<typeof rows.shownDelivery>;
export type TrimmedChanges = z.output<typeof rows.trimmedChanges>;
export type LearnedPointerReport = z.output<typeof rows.learnedPointer>;

/** The columns of a record that people see, in the order of the tables. The tables also have internal columns. */
// biome-ignore format: names side by side
export const recordColumns = (kind: Kind): readonly (keyof RecordReport)[] => [
  'id', 'name', ...(kind === 'policy' ? (['version'] as const) : []), 'status', 'data', 'first_seen_at', 'synced_at', 'verified_at',
  'unverified_since', 'deleted_at', 'deletion_pending_since', 'last_event_id', 'last_event_at', 'cause', 'cause_id',
];

/** Open problems in a summary. */
export const PROBLEMS_SHOWN = 100;

export interface FeedState {
  /** It changes when a backup is put back: after that the same numbers stand for other changes than before. */
  epoch: string;
  /** The counter. Every change up to it is shown. */
  newest: number;
  /** Null: no change was trimmed. */
  trimmed: TrimmedChanges | null;
  /** When the oldest version is from that is kept of every record, ISO 8601; null: there is none yet. */
  begins: string | null;
  /** Where `listChanges` begins at the instant that was asked for, or with the oldest change. */
  after: number;
}

/** What was known of the service at an earlier time. */
export interface StatusThen {
  kinds: KindThen[];
  /** Those open then, at most `PROBLEMS_SHOWN`. */
  problems: ProblemReport[];
  open_problems: number;
}

export interface StoreSummary {
  kinds: KindStatus[];
  /** How many events wait to be processed, and how many failed and wait for a person. */
  events: { pending: number; failed: number };
  oldest_pending_at: string | null;
  /** When the last delivery came in, new or not. */
  last_delivery_at: string | null;
  /** Not yet dismissed. */
  quarantined: number;
  /** The open ones, the worst first, at most `PROBLEMS_SHOWN`. */
  problems: ProblemReport[];
  /** How many are open in all. */
  open_problems: number;
  open_problems_by: OpenProblems[];
  learned_pointers: LearnedPointerReport[];
  database_bytes: number;
  wal_bytes: number;
}

/** Names exactly these pending deletions, in the order of their ids. */
export function digestOf(kind: Kind, ids: readonly string[]): string {
  const hash = createHash('sha256');
  for (const id of ids) hash.update(JSON.stringify([kind, id]));
  return hash.digest('base64url');
}

/** Why it is quarantined: the delivery has a known event's id and other content. It was answered as a duplicate. */
export const CONFLICTING = 'conflicting_content';

/** What a list shows: one filter each, which is absent or undefined where it does not matter. */
export interface Filters {
  deliveries: Period & {
    outcome?: ListedOutcome | undefined;
    type?: string | undefined;
    kind?: Kind | undefined;
    /** Of accepted ones; `dismissed` also of quarantined ones. */
    state?: EventState | undefined;
    record_id?: string | undefined;
    /** The id of events or of their record; if there are none, a part of the body, letter for letter. */
    search?: string | undefined;
    /** Instead of `EVENTS_LOOKED_AT`. */
    lookAt?: number | undefined;
  };
  records: {
    kind: Kind;
    /** Ids that begin with this text, and names that contain it. The case of A to Z in names is ignored. */
    search?: string | undefined;
    status?: string | undefined;
    /** A field of `data`, by its path of names, and its value: a text, or JSON for any other type. */
    field?: { path: readonly string[]; value: string } | undefined;
    unverified?: boolean | undefined;
    deleted?: boolean | undefined;
    deletion_pending?: boolean | undefined;
    /** As they were at this instant (ISO 8601 UTC); without those that were deleted then, unless `deleted` says otherwise. */
    at?: string | undefined;
    /** With the columns of the view `…_flat` that only this kind has; with `at`, of `…_history`. */
    typed?: boolean | undefined;
  };
  /** The statuses that records have, deleted ones included; none that is longer than a filter may be. */
  statuses: { kind: Kind };
  changes: { kind?: Kind; record_id?: string; oldestFirst?: boolean };
  problems: Period & {
    open?: boolean | undefined;
    /** Only with one of these. */
    reasons?: readonly string[] | undefined;
  };
  sync_runs: Period;
  audit: Period;
  fields: object;
  sync_status: object;
  sync_history: object;
}

/** What can be listed. */
export type Thing = keyof Filters;

interface Rows extends Record<Thing, object> {
  deliveries: DeliveryReport;
  records: RecordReport;
  statuses: { status: string };
  changes: ChangeReport;
  problems: ProblemReport;
  sync_runs: SyncRunReport;
  audit: AuditReport;
}

export type Query<Name extends Thing> = Filters[Name] & Paging;

/** Small tables and views that are read as they are. */
export const VIEW_NAMES = ['fields', 'sync_status', 'sync_history'] as const;
export type ViewName = (typeof VIEW_NAMES)[number];

export interface Page<Row> {
  items: Row[];
  /** The next `after`; null: no row is left. */
  next: string | null;
}

/** Of deliveries a page may have fewer rows than its limit, or none, and still not be the last. */
interface Looked {
  /** If the page ended because it had looked at enough rows: when the oldest of them was received. */
  looked_back_to: string | null;
}

export type PageOf<Name extends Thing> = Page<Rows[Name]> &
  (Name extends 'deliveries' ? Looked : Name extends 'records' ? { columns: readonly string[] } : unknown);

/** What can be shown alone, and by what. */
export interface Shown {
  deliveries: [id: string, ShownDelivery];
  records: [{ kind: Kind; id: string }, ShownRecord];
  problems: [id: number, ProblemReport];
  sync_runs: [id: number, SyncRunReport];
}

/** From `since` on, and before `until`: instants, ISO 8601 UTC. Absent: from the beginning, or to the end. */
export interface Period {
  since?: string | undefined;
  until?: string | undefined;
}

/** `after` is the `next` of the page before. Limits are clamped to `PAGE_LIMIT_MAX`. */
export interface Paging {
  limit: number;
  after?: string | number | undefined;
}

export const PAGE_LIMIT_MAX = 500;

/** How many events one page looks at: a few milliseconds. Filters have no indexes, because every delivery would pay for them. */
export const EVENTS_LOOKED_AT = 10_000;

/** The outcome of an audit entry until its action is done. It stays if the process dies before: then nobody knows whether it was done. */
export const AUDIT_ASKED = 'asked';
