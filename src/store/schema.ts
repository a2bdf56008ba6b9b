import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Kind } from '../compliance/kinds.ts';
import type { ProblemReason } from '../mirror/problems.ts';

// Only types, so that drizzle is not loaded for them.
export type Column = import('drizzle-orm').Column;
export type Table = import('drizzle-orm').Table;
type SqliteColumn = import('drizzle-orm/sqlite-core').AnySQLiteColumn;

interface Modules {
  'drizzle-orm': typeof import('drizzle-orm');
  'drizzle-orm/pg-core': typeof import('drizzle-orm/pg-core');
  'drizzle-orm/sqlite-core': typeof import('drizzle-orm/sqlite-core');
}

// The migration tool bundles the schema into CommonJS, where a module has no address; it runs in the project's folder.
const load = createRequire(import.meta.url ?? join(process.cwd(), 'package.json'));

/**
 * Loads drizzle's modules as CommonJS, in less than 0.1 s of processor time. As ES modules they take 0.5 s at every start and command:
 * for each of a hundred files Node reads drizzle's package.json again, which has 179 kB.
 */
export function drizzleModule<Name extends keyof Modules>(name: Name): Modules[Name] {
  return load(name) as Modules[Name];
}

const { getTableName, sql } = drizzleModule('drizzle-orm');
const { blob, customType, index, integer, primaryKey, sqliteTable, text, uniqueIndex } =
  drizzleModule('drizzle-orm/sqlite-core');

/**
 * The type of a column in the views `…_flat`. `date` and `instant` are texts of that form, `timestamp` a day and a time without a zone; `json`
 * is an object or array.
 */
export type FieldType = 'number' | 'boolean' | 'date' | 'timestamp' | 'instant' | 'text' | 'json';

/** Column types and indexes in SQLite's form. The TypeScript types serve both engines. */
export const sqlite = {
  table: sqliteTable,
  index,
  uniqueIndex,
  primaryKey,
  text,
  integer,
  /** Compared and ordered byte by byte. */
  key: text,
  /** ISO 8601 UTC of fixed width, so that its order as text is its order in time. */
  instant: customType<{ data: string }>({ dataType: () => 'text' }),
  json: (name: string) => text(name, { mode: 'json' }),
  bytes: (name: string) => blob(name, { mode: 'buffer' }),
  /** A counter, or milliseconds: more than 32 bits. */
  number: integer,
  serial: (name: string) => integer(name).primaryKey({ autoIncrement: true }),
  flag: (name: string) => integer(name, { mode: 'boolean' }),
  no: false,
};
export type Vocabulary = typeof sqlite;

/**
 * The tables in one engine's types. In `record_state`, columns `…_at` are milliseconds of the steady clock. After a change run
 * `npm run migrations`. Released migrations never change.
 */
export function tablesOf(engine: Vocabulary) {
  const { table, index, uniqueIndex, primaryKey } = engine;
  const { text, key, instant, json, bytes, integer, number, serial, flag, no } = engine;

  const identityColumns = () => ({ id: key('id').primaryKey(), name: text('name') });
  const contentColumns = () => ({
    status: text('status'),
    data: json('data').notNull(),
    firstSeenAt: instant('first_seen_at').notNull(),
    syncedAt: instant('synced_at').notNull(),
    verifiedAt: instant('verified_at'),
    unverifiedSince: instant('unverified_since'),
    deletedAt: instant('deleted_at'),
    deletionPendingSince: instant('deletion_pending_since'),
    lastEventId: text('last_event_id'),
    lastEventAt: instant('last_event_at'),
    cause: text('cause').notNull(),
    causeId: text('cause_id'),
    /** `changes.seq` of the change that wrote this content. */
    changeSeq: number('change_seq').notNull().default(0),
    /** `created` of the newest event whose payload was written, milliseconds since 1970. */
    provisionalCreated: number('provisional_created'),
    /** Fields of `data` that an event has shown, and no read covers yet. */
    shown: json('shown'),
  });

  const recordIndexes = (name: string, t: Record<'id' | 'unverifiedSince' | 'deletedAt', SqliteColumn>) => [
    index(`${name}_deletion_pending`).on(t.id).where(sql`deletion_pending_since IS NOT NULL`),
    index(`${name}_unverified`).on(t.unverifiedSince, t.deletedAt).where(sql`unverified_since IS NOT NULL`),
    index(`${name}_deleted`).on(t.id).where(sql`deleted_at IS NOT NULL`),
    index(`${name}_deleted_at`).on(t.deletedAt).where(sql`deleted_at IS NOT NULL`),
  ];

  return {
    policies: table(
      'policies',
      { ...identityColumns(), version: text('version'), ...contentColumns() },
      (t) => recordIndexes('policies', t),
    ),
    riskAssessments: table('risk_assessments', { ...identityColumns(), ...contentColumns() }, (t) =>
      recordIndexes('risk_assessments', t),
    ),
    vendors: table('vendors', { ...identityColumns(), ...contentColumns() }, (t) =>
      recordIndexes('vendors', t),
    ),

    /** What the mirror knows of each record besides its content. WITHOUT ROWID in SQLite's migration: one tree in place of two. */
    recordState: table(
      'record_state',
      {
        kind: key('kind').notNull(),
        id: key('id').notNull(),
        dirty: number('dirty').notNull().default(0),
        dirtyAt: number('dirty_at'),
        firstDirtyAt: number('first_dirty_at'),
        unverifiedSince: instant('unverified_since'),
        /** As in the row, for a record without one. */
        provisionalCreated: number('provisional_created'),
        readNumber: number('read_number').notNull().default(0),
        readEndedAt: number('read_ended_at'),
        addressReadAt: number('address_read_at'),
        returned: flag('returned').notNull().default(no),
        missingSince: number('missing_since'),
        missingNumber: number('missing_number'),
        proven: flag('proven').notNull().default(no),
        deleteEvent: number('delete_event'),
        confirmed: number('confirmed').notNull().default(0),
        movedAt: number('moved_at'),
        earlyAt: number('early_at'),
        refusals: integer('refusals').notNull().default(0),
        attempts: integer('attempts').notNull().default(0),
        error: text('error'),
        dueAt: number('due_at'),
        /** The last full sync that has seen it. A replica that was replaced may still save a page of an earlier one. */
        syncRunId: number('sync_run_id'),
      },
      (t) => [
        primaryKey({ columns: [t.kind, t.id] }),
        index('record_state_due').on(t.kind, t.dueAt, t.unverifiedSince, t.id).where(sql`due_at IS NOT NULL`),
        index('record_state_missing').on(t.kind, t.missingSince).where(sql`missing_since IS NOT NULL`),
      ],
    ),

    changes: table(
      'changes',
      {
        seq: number('seq').primaryKey(),
        kind: key('kind').notNull(),
        recordId: key('record_id').notNull(),
        operation: text('operation').notNull(),
        before: json('before').notNull(),
        after: json('after').notNull(),
        /** The whole record after it. */
        name: text('name'),
        version: text('version'),
        status: text('status'),
        data: json('data').notNull(),
        cause: text('cause').notNull(),
        causeId: text('cause_id'),
        at: instant('at').notNull(),
        /** When the record's next change ended this version; null: it holds. All other columns stay as they were written. */
        validTo: instant('valid_to'),
      },
      (t) => [
        // And `changes_record`, which each engine makes with columns of its own (drizzle/*.sql).
        // Costs 1.2 to 1.9 % more written pages, since it grows only at its end. An index by record alone would cost 5 to 8 %.
        index('changes_at').on(t.at),
      ],
    ),

    events: table(
      'events',
      {
        seq: number('seq').primaryKey(),
        id: key('id').notNull(),
        type: text('type').notNull(),
        created: instant('created').notNull(),
        createdMs: number('created_ms').notNull(),
        kind: key('kind').$type<Kind>(),
        recordId: key('record_id'),
        receivedAt: instant('received_at').notNull(),
        deliveries: integer('deliveries').notNull().default(1),
        lastDeliveredAt: instant('last_delivered_at').notNull(),
        state: text('state').notNull(),
        attempts: integer('attempts').notNull().default(0),
        nextAttemptAt: instant('next_attempt_at'),
        processedAt: instant('processed_at'),
        error: text('error'),
        /** Set when the body is trimmed. */
        contentHash: text('content_hash'),
        /** The first sender's; trimmed with the body. */
        address: text('address'),
        body: text('body'),
      },
      (t) => [
        uniqueIndex('events_id').on(t.id),
        // Indexes only for states with few events, and for queries about one record, since every delivery pays for an index.
        // Lists look at a bounded number of rows instead.
        index('events_pending').on(t.seq, t.nextAttemptAt).where(sql`state = 'pending'`),
        index('events_failed').on(t.seq).where(sql`state = 'failed'`),
        index('events_record').on(t.recordId, t.seq),
      ],
    ),

    /** Kept when an event's row is trimmed, to recognise a late redelivery. */
    trimmedEvents: table(
      'trimmed_events',
      {
        id: key('id').primaryKey(),
        contentHash: text('content_hash').notNull(),
        receivedAt: instant('received_at').notNull(),
      },
      (t) => [index('trimmed_events_received').on(t.receivedAt)],
    ),

    /** Whatever keeps a kind from being in sync, work under way aside: `mirror/problems.ts`. */
    problems: table(
      'problems',
      {
        id: serial('id'),
        kind: key('kind').$type<Kind>(),
        recordId: key('record_id'),
        reason: key('reason').$type<ProblemReason>().notNull(),
        verdict: key('verdict').notNull(),
        needs: key('needs').notNull(),
        openedAt: instant('opened_at').notNull(),
        resolvedAt: instant('resolved_at'),
        times: integer('times').notNull().default(1),
        error: text('error'),
        /** Of what it shows, which is what a person accepts. */
        digest: text('digest').notNull(),
        /** What it shows stays until something changes: accepted once, it does not open again before that. */
        acceptable: flag('acceptable').notNull(),
        /** A person has accepted what it shows, and that has not changed since. */
        acceptedAt: instant('accepted_at'),
        /** The counter when it last occurred: only a full sync begun later resolves it. */
        number: number('number').notNull(),
        /** Steady clock: only a full sync begun then or later resolves it, since an earlier list may still be stale. */
        coverableAt: number('coverable_at'),
      },
      (t) => [
        index('problems_open').on(t.reason, t.kind, t.recordId).where(sql`resolved_at IS NULL`),
        index('problems_record').on(t.kind, t.recordId),
        index('problems_open_newest').on(t.id).where(sql`resolved_at IS NULL`),
        index('problems_open_worst').on(t.kind, t.verdict).where(sql`resolved_at IS NULL`),
        index('problems_accepted').on(t.kind, t.reason, t.recordId).where(sql`accepted_at IS NOT NULL`),
        index('problems_resolved').on(t.resolvedAt).where(sql`resolved_at IS NOT NULL`),
      ],
    ),

    syncRuns: table(
      'sync_runs',
      {
        id: serial('id'),
        kind: key('kind').notNull(),
        reason: key('reason').notNull(),
        startedAt: instant('started_at').notNull(),
        finishedAt: instant('finished_at'),
        pages: integer('pages').notNull().default(0),
        seen: integer('seen').notNull().default(0),
        inserted: integer('inserted').notNull().default(0),
        updated: integer('updated').notNull().default(0),
        deleted: integer('deleted').notNull().default(0),
        unchanged: integer('unchanged').notNull().default(0),
        outcome: text('outcome'),
        error: text('error'),
        /** What differed and no event had announced. */
        differences: json('differences'),
        /** Of a complete one: it has read a list that shows all records of the kind. */
        listed: flag('listed').notNull().default(no),
        /** The counter when it began. */
        number: number('number').notNull(),
        /** Steady clock. */
        beganAt: number('began_at').notNull(),
      },
      (t) => [
        index('sync_runs_kind').on(t.kind, t.id),
        index('sync_runs_running').on(t.kind).where(sql`finished_at IS NULL`),
        index('sync_runs_whole').on(t.kind, t.number, t.id).where(sql`outcome IN ('complete', 'accepted')`),
        index('sync_runs_completed').on(t.kind, t.finishedAt).where(sql`outcome = 'complete'`),
      ],
    ),

    /** Deletions that wait for a person, whose rows say since when, and those that a person has decided about. */
    pendingDeletions: table(
      'pending_deletions',
      {
        kind: key('kind').notNull(),
        id: key('id').notNull(),
        pendingSince: instant('pending_since').notNull(),
        approvedUntil: instant('approved_until'),
        /** The counter when a person refused it. */
        keptNumber: number('kept_number'),
      },
      (t) => [primaryKey({ columns: [t.kind, t.id] })],
    ),

    /**
     * Deliveries that were turned away. Quarantined: signed, but no usable event; they stay until a person retries or dismisses them.
     * Rejected: the newest of each reason, sender and minute.
     */
    rejections: table(
      'rejections',
      {
        id: serial('id'),
        receivedAt: instant('received_at').notNull(),
        outcome: key('outcome').notNull(),
        reason: key('reason').notNull(),
        /** As in the body, which of a rejected one is not authenticated. */
        eventId: text('event_id'),
        type: text('type'),
        /** As sent, where it could be read. */
        t: text('t'),
        /** How many rejections of its minute this row counts. */
        times: integer('times').notNull().default(1),
        /** The sender's, as far as it can be trusted; null: unknown. */
        address: text('address'),
        /** The signature header as sent, cut to a bounded length. A MAC is not a secret. */
        header: text('header'),
        /** At most `REJECTION_BODY_BYTES`. */
        body: bytes('body').$type<Uint8Array>(),
        dismissedAt: instant('dismissed_at'),
        kind: key('kind'),
        recordId: key('record_id'),
        bytes: number('bytes').notNull(),
        bodySha256: text('body_sha256'),
        /** Whom rejected ones are counted for: `senderOf` the address. */
        network: key('network').notNull().default(''),
      },
      (t) => [
        index('rejections_by_sender').on(t.reason, t.network).where(sql`outcome = 'rejected'`),
        index('rejections_outcome').on(t.outcome, t.id),
        index('rejections_record').on(t.recordId, t.id).where(sql`record_id IS NOT NULL`),
        index('rejections_waiting').on(t.id).where(sql`outcome = 'quarantined' AND dismissed_at IS NULL`),
        index('rejections_with_body').on(t.id).where(sql`outcome = 'quarantined' AND body IS NOT NULL`),
      ],
    ),

    audit: table('audit', {
      id: serial('id'),
      at: instant('at').notNull(),
      actor: text('actor').notNull(),
      action: text('action').notNull(),
      outcome: text('outcome').notNull(),
      target: text('target'),
    }),

    registrations: table('registrations', {
      upstreamId: key('upstream_id').primaryKey(),
      url: text('url').notNull(),
      /** Those that were requested. */
      events: json('events').$type<string[]>().notNull(),
      description: text('description').notNull(),
      /** Those that the service says it delivers. */
      delivers: json('delivers').$type<string[]>().notNull(),
      /** Null: the answer had none. */
      sealedSecret: text('sealed_secret'),
      /** The whole answer, which shows the secret only once. */
      sealedAnswer: text('sealed_answer'),
      createdAt: instant('created_at').notNull(),
    }),

    /** OAuth tokens, sealed. Who holds the lease of their name renews them. */
    tokens: table('tokens', {
      name: text('name').primaryKey(),
      sealed: text('sealed').notNull(),
      /** Rises with every save. */
      version: integer('version').notNull(),
      /** Why the upstream refused to renew them; null: it did not. */
      refusal: text('refusal'),
      savedAt: instant('saved_at').notNull(),
    }),

    /**
     * One row: the source of all numbers. The value is the key, so that on PostgreSQL the newest version is the last of the index: while
     * somebody's query has its snapshot open, every older version stays, and by any other key a look-up would read all of them.
     */
    counter: table('counter', { value: number('value').primaryKey() }),

    /** Places of ids in payloads, besides the settings'. Each is proven by a record that the API showed. */
    learnedPointers: table(
      'learned_pointers',
      {
        kind: key('kind').notNull(),
        path: key('path').notNull(),
        eventId: key('event_id').notNull(),
        recordId: key('record_id').notNull(),
        learnedAt: instant('learned_at').notNull(),
        /** It goes before the default pointers. */
        leads: flag('leads').notNull(),
      },
      (t) => [primaryKey({ columns: [t.kind, t.path] })],
    ),

    /** The typed columns of the views `…_flat`, chosen by `mirror/flat-columns.ts`. */
    fields: table(
      'fields',
      {
        kind: key('kind').notNull(),
        /** Its place in the view, from 1, after the columns that every record has. */
        position: integer('position').notNull(),
        /** Null: the first field beyond the limit. */
        column: text('column'),
        /** `keys` for people. */
        path: text('path').notNull(),
        keys: json('keys').$type<readonly string[]>().notNull(),
        type: text('type').$type<FieldType>().notNull(),
        firstSeenAt: instant('first_seen_at').notNull(),
      },
      (t) => [primaryKey({ columns: [t.kind, t.position] })],
    ),

    /** What `sync_status` said of each kind, from then to then. The newest row of a kind is open: it has no `until`. */
    syncHistory: table(
      'sync_history',
      {
        id: serial('id'),
        kind: key('kind').notNull(),
        verdict: key('verdict').notNull(),
        complete: flag('complete').notNull(),
        since: instant('since').notNull(),
        until: instant('until'),
      },
      (t) => [
        uniqueIndex('sync_history_open').on(t.kind).where(sql`until IS NULL`),
        index('sync_history_kind').on(t.kind, t.since),
      ],
    ),

    /** Small durable values, such as the heartbeat, whether work is paused, and settings that the views need. */
    facts: table('facts', {
      name: text('name').primaryKey(),
      value: text('value').notNull(),
    }),

    /** What the last heartbeat saw in `sync_status`, since when, and fingerprints of the credentials that could read the kind. */
    kindState: table('kind_state', {
      kind: key('kind').primaryKey(),
      verdict: key('verdict'),
      complete: flag('complete'),
      since: instant('since'),
      /** With these credentials a list or record was read. */
      readWith: text('read_with'),
      /** With these an invented id was answered as unknown. */
      probedWith: text('probed_with'),
      readAt: instant('read_at'),
    }),

    // ─── shared by several processes; instants are milliseconds of the steady clock, which is shared too ───────

    /** Work that only one process does at a time, by a clock that all share. The fence rises when another process takes it over. */
    leases: table('leases', {
      name: text('name').primaryKey(),
      owner: text('owner').notNull(),
      fence: number('fence').notNull(),
      leaseUntil: number('lease_until').notNull(),
    }),

    /** Requested sync runs that have not begun. */
    syncRequests: table(
      'sync_requests',
      {
        kind: key('kind').$type<Kind>().notNull(),
        reason: key('reason').notNull(),
        requestedAt: instant('requested_at').notNull(),
      },
      (t) => [primaryKey({ columns: [t.kind, t.reason] })],
    ),

    /** Operators' sessions, by the hash of the cookie. `sealed`: a digest of the cookie and of the token that opened the session. */
    operatorSessions: table('operator_sessions', {
      hash: text('hash').primaryKey(),
      /** The token's. */
      name: text('name').notNull(),
      sealed: text('sealed').notNull(),
      openedAt: number('opened_at').notNull(),
      usedAt: number('used_at').notNull(),
    }),
  };
}

/** A table of PostgreSQL alone: empty after a crash of the server, and on a standby that takes over. It is not logged, which drizzle cannot declare. */
export const COUNTER_INTACT = 'counter_intact';

/** A row of a table, by the names that the code has for its columns. */
export type Row<Name extends keyof typeof tables> = (typeof tables)[Name]['$inferSelect'];

const tables = tablesOf(sqlite);
export const TABLE_NAMES: readonly string[] = Object.values(tables).map((each) => getTableName(each));

/** The tables in SQLite's types, all exported for the migration tool. Both engines have the same names of tables and columns. */
export const { audit, changes, counter, events, facts, fields, kindState } = tables;
export const { learnedPointers, leases, operatorSessions, pendingDeletions, policies, problems } = tables;
export const { recordState, registrations, rejections, riskAssessments } = tables;
export const { syncHistory, syncRequests, syncRuns, tokens, trimmedEvents, vendors } = tables;
