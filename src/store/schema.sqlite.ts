import { drizzleModule } from './drizzle.ts';

const { sql } = drizzleModule('drizzle-orm');
const { blob, index, integer, primaryKey, sqliteTable, text, uniqueIndex } =
  drizzleModule('drizzle-orm/sqlite-core');

/**
 * The tables in SQLite. Instants that people read are ISO 8601 UTC text of fixed width, so that their order as
 * text is their order in time; columns in `…_at` of `record_state` are milliseconds of the steady clock.
 * After a change here run `npm run migrations`; what is generated is append-only once released.
 */

const identityColumns = () => ({ id: text('id').primaryKey(), name: text('name') });
const contentColumns = () => ({
  status: text('status'),
  /** The whole record as last read, JSON. */
  data: text('data').notNull(),
  firstSeenAt: text('first_seen_at').notNull(),
  syncedAt: text('synced_at').notNull(),
  verifiedAt: text('verified_at'),
  unverifiedSince: text('unverified_since'),
  deletedAt: text('deleted_at'),
  lastEventId: text('last_event_id'),
  lastEventAt: text('last_event_at'),
  cause: text('cause').notNull(),
  /** The change that this row's content came with, as `changes.seq`. */
  changeSeq: integer('change_seq').notNull().default(0),
  /** `created` of the newest event whose payload was shown, milliseconds since 1970. Null: none was. */
  provisionalCreated: integer('provisional_created'),
  /** JSON: fields of `data` that events have shown and no read covers yet. Null: none. */
  shown: text('shown'),
});

export const policies = sqliteTable(
  'policies',
  { ...identityColumns(), version: text('version'), ...contentColumns() },
  (t) => [
    index('policies_unverified').on(t.unverifiedSince).where(sql`unverified_since IS NOT NULL`),
    index('policies_name').on(sql`name COLLATE NOCASE`, t.id),
    index('policies_status').on(t.status, t.id),
    index('policies_deleted').on(t.id).where(sql`deleted_at IS NOT NULL`),
    index('policies_outstanding').on(t.id).where(sql`unverified_since IS NOT NULL`),
  ],
);
export const riskAssessments = sqliteTable(
  'risk_assessments',
  { ...identityColumns(), ...contentColumns() },
  (t) => [
    index('risk_assessments_unverified').on(t.unverifiedSince).where(sql`unverified_since IS NOT NULL`),
    index('risk_assessments_name').on(sql`name COLLATE NOCASE`, t.id),
    index('risk_assessments_status').on(t.status, t.id),
    index('risk_assessments_deleted').on(t.id).where(sql`deleted_at IS NOT NULL`),
    index('risk_assessments_outstanding').on(t.id).where(sql`unverified_since IS NOT NULL`),
  ],
);
export const vendors = sqliteTable('vendors', { ...identityColumns(), ...contentColumns() }, (t) => [
  index('vendors_unverified').on(t.unverifiedSince).where(sql`unverified_since IS NOT NULL`),
  index('vendors_name').on(sql`name COLLATE NOCASE`, t.id),
  index('vendors_status').on(t.status, t.id),
  index('vendors_deleted').on(t.id).where(sql`deleted_at IS NOT NULL`),
  index('vendors_outstanding').on(t.id).where(sql`unverified_since IS NOT NULL`),
]);

/** What the mirror knows of each record besides its content. Becomes WITHOUT ROWID in its migration: one tree, not two. */
export const recordState = sqliteTable(
  'record_state',
  {
    kind: text('kind').notNull(),
    id: text('id').notNull(),
    dirty: integer('dirty').notNull().default(0),
    dirtyAt: integer('dirty_at'),
    firstDirtyAt: integer('first_dirty_at'),
    unverifiedSince: text('unverified_since'),
    /** As in the row, for a record that has none. */
    provisionalCreated: integer('provisional_created'),
    readNumber: integer('read_number').notNull().default(0),
    readEndedAt: integer('read_ended_at'),
    returned: integer('returned').notNull().default(0),
    missingSince: integer('missing_since'),
    missingNumber: integer('missing_number'),
    proven: integer('proven').notNull().default(0),
    deleteEvent: integer('delete_event'),
    searched: integer('searched').notNull().default(0),
    refusals: integer('refusals').notNull().default(0),
    attempts: integer('attempts').notNull().default(0),
    error: text('error'),
    dueAt: integer('due_at'),
    syncRunId: integer('sync_run_id'),
  },
  (t) => [
    primaryKey({ columns: [t.kind, t.id] }),
    index('record_state_due').on(t.kind, t.dueAt).where(sql`due_at IS NOT NULL`),
    index('record_state_missing').on(t.kind, t.missingSince).where(sql`missing_since IS NOT NULL`),
  ],
);

export const changes = sqliteTable(
  'changes',
  {
    seq: integer('seq').primaryKey(),
    kind: text('kind').notNull(),
    recordId: text('record_id').notNull(),
    operation: text('operation').notNull(),
    before: text('before').notNull(),
    after: text('after').notNull(),
    cause: text('cause').notNull(),
    at: text('at').notNull(),
  },
  (t) => [
    // By blocks of numbers: see finders.ts in sqlite/.
    index('changes_record').on(sql`"seq" >> 12`, t.kind, t.recordId),
    // It grows at its end alone, which costs 1.2 to 1.9 % more pages to write; one by record alone would cost 5 to 8 %.
    index('changes_at').on(t.at),
  ],
);

export const events = sqliteTable(
  'events',
  {
    seq: integer('seq').primaryKey(),
    id: text('id').notNull(),
    type: text('type').notNull(),
    created: text('created').notNull(),
    createdMs: integer('created_ms').notNull(),
    kind: text('kind'),
    recordId: text('record_id'),
    receivedAt: text('received_at').notNull(),
    deliveries: integer('deliveries').notNull().default(1),
    lastDeliveredAt: text('last_delivered_at').notNull(),
    state: text('state').notNull(),
    attempts: integer('attempts').notNull().default(0),
    nextAttemptAt: text('next_attempt_at'),
    processedAt: text('processed_at'),
    error: text('error'),
    /** Of a body that has been trimmed; until then the body itself tells. */
    contentHash: text('content_hash'),
    /** Whom it came from first; goes with the body. */
    address: text('address'),
    body: text('body'),
  },
  (t) => [
    uniqueIndex('events_id').on(t.id),
    // The states that few events are in, and what is asked of one record. No other column has an index: each would be
    // paid for by every delivery, and lists walk back a bounded number of rows instead.
    index('events_pending').on(t.seq, t.nextAttemptAt).where(sql`state = 'pending'`),
    index('events_failed').on(t.seq).where(sql`state = 'failed'`),
    index('events_sought').on(t.nextAttemptAt).where(sql`state = 'failed' AND next_attempt_at IS NOT NULL`),
    index('events_record').on(sql`"seq" >> 12`, t.recordId),
  ],
);

/** What is left of an event once its row is trimmed, so that a late redelivery of it is still known. */
export const trimmedEvents = sqliteTable(
  'trimmed_events',
  {
    id: text('id').primaryKey(),
    contentHash: text('content_hash').notNull(),
    receivedAt: text('received_at').notNull(),
  },
  (t) => [index('trimmed_events_received').on(t.receivedAt)],
);

export const gaps = sqliteTable(
  'gaps',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    kind: text('kind'),
    recordId: text('record_id'),
    reason: text('reason').notNull(),
    openedAt: text('opened_at').notNull(),
    resolvedAt: text('resolved_at'),
    attempts: integer('attempts').notNull().default(1),
    error: text('error'),
    /** The counter as it was opened, or last occurred: only a full sync begun later resolves it. */
    number: integer('number').notNull(),
    /** And only one begun at this instant of the steady clock or later: before it, a list may be older. Null: any. */
    coverableAt: integer('coverable_at'),
  },
  (t) => [
    index('gaps_open').on(t.reason, t.kind, t.recordId).where(sql`resolved_at IS NULL`),
    index('gaps_record').on(t.kind, t.recordId),
    index('gaps_open_newest').on(t.id).where(sql`resolved_at IS NULL`),
    index('gaps_open_oldest').on(t.reason, t.kind, t.id).where(sql`resolved_at IS NULL`),
    index('gaps_resolved').on(t.resolvedAt).where(sql`resolved_at IS NOT NULL`),
  ],
);

export const syncRuns = sqliteTable(
  'sync_runs',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    kind: text('kind').notNull(),
    reason: text('reason').notNull(),
    startedAt: text('started_at').notNull(),
    finishedAt: text('finished_at'),
    pages: integer('pages').notNull().default(0),
    seen: integer('seen').notNull().default(0),
    inserted: integer('inserted').notNull().default(0),
    updated: integer('updated').notNull().default(0),
    deleted: integer('deleted').notNull().default(0),
    unchanged: integer('unchanged').notNull().default(0),
    outcome: text('outcome'),
    error: text('error'),
    /** What differed although nothing had announced it, JSON. */
    differences: text('differences'),
    /** The counter as it began. */
    number: integer('number').notNull(),
    /** When, by the steady clock. */
    beganAt: integer('began_at').notNull(),
  },
  (t) => [
    index('sync_runs_kind').on(t.kind, t.id),
    index('sync_runs_running').on(t.kind).where(sql`finished_at IS NULL`),
  ],
);

export const pendingDeletions = sqliteTable(
  'pending_deletions',
  {
    kind: text('kind').notNull(),
    id: text('id').notNull(),
    syncRunId: integer('sync_run_id').notNull(),
    pendingSince: text('pending_since').notNull(),
    approvedUntil: text('approved_until'),
  },
  (t) => [primaryKey({ columns: [t.kind, t.id] }), index('pending_deletions_sync_run').on(t.syncRunId, t.id)],
);

/** Deliveries of what was accepted before: the newest `DUPLICATES_KEPT` of them. The event's own row counts them all. */
export const duplicates = sqliteTable('duplicates', {
  id: integer('id').primaryKey({ autoIncrement: true }),
  receivedAt: text('received_at').notNull(),
  eventId: text('event_id').notNull(),
  type: text('type').notNull(),
  kind: text('kind'),
  recordId: text('record_id'),
  address: text('address'),
});

export const quarantine = sqliteTable(
  'quarantine',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    receivedAt: text('received_at').notNull(),
    reason: text('reason').notNull(),
    t: text('t').notNull(),
    kind: text('kind'),
    recordId: text('record_id'),
    /** As its body names them, whatever else is wrong with it. */
    eventId: text('event_id'),
    type: text('type'),
    /** Goes with the body. */
    address: text('address'),
    body: blob('body', { mode: 'buffer' }),
    bodySha256: text('body_sha256').notNull(),
    releasedAt: text('released_at'),
  },
  (t) => [
    index('quarantine_waiting').on(t.id).where(sql`released_at IS NULL`),
    index('quarantine_with_body').on(t.id).where(sql`body IS NOT NULL`),
  ],
);

export const rejections = sqliteTable(
  'rejections',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    at: text('at').notNull(),
    reason: text('reason').notNull(),
    t: text('t'),
    bytes: integer('bytes').notNull(),
    bodySha256: text('body_sha256'),
    header: text('header'),
    body: blob('body', { mode: 'buffer' }),
    /** As its body names them, whoever wrote it. */
    eventId: text('event_id'),
    type: text('type'),
    address: text('address'),
    /** What the address stands for where places are shared out: `networkOf`. */
    network: text('network').notNull(),
    /** How many of its minute it stands for. */
    times: integer('times').notNull(),
  },
  (t) => [index('rejections_by_sender').on(t.reason, t.network)],
);

export const audit = sqliteTable('audit', {
  id: integer('id').primaryKey({ autoIncrement: true }),
  at: text('at').notNull(),
  actor: text('actor').notNull(),
  action: text('action').notNull(),
  outcome: text('outcome').notNull(),
  target: text('target'),
});

export const registrations = sqliteTable('registrations', {
  upstreamId: text('upstream_id').primaryKey(),
  url: text('url').notNull(),
  events: text('events').notNull(),
  description: text('description').notNull(),
  /** What the service answered that it would deliver, of what was asked for (`events`). */
  delivers: text('delivers').notNull(),
  sealedSecret: text('sealed_secret'),
  /** The whole answer, which shows the secret only once. */
  sealedAnswer: text('sealed_answer'),
  createdAt: text('created_at').notNull(),
  /** From then on its secret verifies nothing, and the row goes. */
  expiresAt: text('expires_at'),
});

/** OAuth tokens, sealed; the lease says who renews them now. Its end is in milliseconds of the wall clock. */
export const tokens = sqliteTable('tokens', {
  name: text('name').primaryKey(),
  sealed: text('sealed').notNull(),
  version: integer('version').notNull(),
  refusal: text('refusal'),
  leaseOwner: text('lease_owner'),
  leaseUntil: integer('lease_until'),
  savedAt: text('saved_at').notNull(),
});

/** One row: the counter that every number comes from. */
export const counter = sqliteTable('counter', {
  one: integer('one').primaryKey(),
  value: integer('value').notNull(),
});

/** How many events stand in each state, kept in the transactions that move them: counting rows costs with their number. */
export const eventCounts = sqliteTable('event_counts', {
  state: text('state').primaryKey(),
  count: integer('count').notNull(),
});

/**
 * The same for records, kept by triggers: rows of each kind alive and deleted, ids known, those of them that are to be read, and of
 * the rows alive those that are unverified.
 */
export const recordCounts = sqliteTable('record_counts', {
  kind: text('kind').primaryKey(),
  live: integer('live').notNull(),
  deleted: integer('deleted').notNull(),
  known: integer('known').notNull(),
  outstanding: integer('outstanding').notNull(),
  unverified: integer('unverified').notNull(),
});

/**
 * How many gaps are open, and how many were ever opened, which trimming does not take back: kept by triggers. `kind` is
 * empty where a gap is of the whole mirror, because a null would equal no other.
 */
export const gapCounts = sqliteTable(
  'gap_counts',
  {
    reason: text('reason').notNull(),
    kind: text('kind').notNull(),
    open: integer('open').notNull(),
    opened: integer('opened').notNull(),
  },
  (t) => [primaryKey({ columns: [t.reason, t.kind] })],
);

/** One row, kept by triggers: how many deliveries in quarantine wait to be seen to. */
export const quarantineCount = sqliteTable('quarantine_count', {
  one: integer('one').primaryKey(),
  waiting: integer('waiting').notNull(),
});

/** Deliveries and lags by the minute, for charts: a few rows a minute, and none older than what they show. */
export const traffic = sqliteTable(
  'traffic',
  {
    minute: text('minute').notNull(),
    /** `accepted`, `duplicate`, `rejected:REASON`, `lag:provisional` or `lag:verification`. */
    what: text('what').notNull(),
    times: integer('times').notNull(),
    /** Of lags only, milliseconds. */
    totalMs: integer('total_ms').notNull(),
    maxMs: integer('max_ms').notNull(),
  },
  (t) => [primaryKey({ columns: [t.minute, t.what] })],
);

/** Where ids were found to stand that no setting points at, each proven by a record that the API showed. */
export const learnedPointers = sqliteTable(
  'learned_pointers',
  {
    kind: text('kind').notNull(),
    /** Dotted, as in a setting. */
    path: text('path').notNull(),
    /** The event that it was found in, and the record. */
    eventId: text('event_id').notNull(),
    recordId: text('record_id').notNull(),
    learnedAt: text('learned_at').notNull(),
    /** 1: events are read by it. 0: it only tells people what to set. */
    used: integer('used').notNull(),
  },
  (t) => [primaryKey({ columns: [t.kind, t.path] })],
);

/** The columns of the views `…_flat`, besides those that every record has: `mirror/fields.ts`. */
export const fields = sqliteTable(
  'fields',
  {
    kind: text('kind').notNull(),
    /** In the view, from 1 on. */
    position: integer('position').notNull(),
    /** Null: the first field for which there was no room. */
    column: text('column'),
    path: text('path').notNull(),
    /** JSON: `path`, name by name. */
    keys: text('keys').notNull(),
    type: text('type').notNull(),
    firstSeenAt: text('first_seen_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.kind, t.position] })],
);

/** Small durable facts by name: the heartbeat, whether work is paused, what the views need to know of the settings. */
export const facts = sqliteTable('facts', {
  name: text('name').primaryKey(),
  value: text('value').notNull(),
});

/**
 * When each kind came into sync, kept by the heartbeat, null while it is not; and with which credentials it has been seen to
 * be readable, as a print that tells nothing of them.
 */
export const kindState = sqliteTable('kind_state', {
  kind: text('kind').primaryKey(),
  inSyncSince: text('in_sync_since'),
  /** A list or a record of it was read with these. */
  readWith: text('read_with'),
  /** With these an id that nobody has made was answered as unknown. */
  probedWith: text('probed_with'),
  readAt: text('read_at'),
});

// ─── what several processes share; instants are milliseconds of the steady clock, which they share too ───────

/** Work that one process does at a time. The fence rises whenever another takes it over. */
export const leases = sqliteTable('leases', {
  name: text('name').primaryKey(),
  owner: text('owner').notNull(),
  fence: integer('fence').notNull(),
  leaseUntil: integer('lease_until').notNull(),
});

/** Processes that live, or lived a moment ago. */
export const replicas = sqliteTable('replicas', {
  id: text('id').primaryKey(),
  startedAt: text('started_at').notNull(),
  seenAt: integer('seen_at').notNull(),
});

/** Sync runs that were asked for and have not begun. */
export const syncRequests = sqliteTable(
  'sync_requests',
  {
    kind: text('kind').notNull(),
    reason: text('reason').notNull(),
    requestedAt: text('requested_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.kind, t.reason] })],
);

/** Operators' sessions, by the hash of the cookie; `sealed` is one of the cookie and the token that opened it. */
export const operatorSessions = sqliteTable('operator_sessions', {
  hash: text('hash').primaryKey(),
  sealed: text('sealed').notNull(),
  openedAt: integer('opened_at').notNull(),
  usedAt: integer('used_at').notNull(),
});

/** Each process's part of the request budget, and how much it would like. */
export const requestPlaces = sqliteTable('request_places', {
  replica: text('replica').primaryKey(),
  places: integer('places').notNull(),
  wanted: integer('wanted').notNull(),
  placesUntil: integer('places_until').notNull(),
});
