import { z } from '@hono/zod-openapi';
import { KINDS } from '../../compliance/kinds.ts';
import { SIGNATURES } from '../delivery-answers.ts';

/**
 * What the JSON API answers: its document, the types that its handlers must return, and those that commands get. Nothing is
 * checked against these on its way out. More fields may come.
 */

const kind = z.enum(KINDS);
const instant = z.iso.datetime().describe('An instant, ISO 8601 in UTC.');
const text = z.string();
const whole = z.int();
const json = z.record(z.string(), z.unknown());

const eventState = z.enum(['pending', 'processed', 'ignored', 'failed', 'discarded']);

export const event = z
  .object({
    seq: whole.describe('Its number, in the order of commits.'),
    id: text.describe('As the sender gave it.'),
    type: text,
    created: text.describe('As the sender wrote it.'),
    kind: kind.nullable(),
    record_id: text.nullable(),
    received_at: instant,
    deliveries: whole,
    last_delivered_at: instant,
    state: eventState,
    attempts: whole,
    next_attempt_at: instant.nullable(),
    processed_at: instant.nullable(),
    error: text.nullable(),
    address: text.nullable().describe('Whom it came from; null: not known, or trimmed with the body.'),
    body: text.nullable().describe('The raw body; null in lists, and once trimmed.'),
  })
  .openapi('Event');

export const delivery = z
  .object({
    outcome: z.enum(['accepted', 'duplicate', 'quarantined', 'rejected']),
    number: whole.describe('Its `seq` among the events, or its `id` among those of its outcome.'),
    received_at: instant,
    event_id: text.nullable().describe('As its body names it.'),
    type: text.nullable(),
    kind: kind.nullable(),
    record_id: text.nullable(),
    state: eventState.nullable().describe('Of the event, where it was accepted.'),
    reason: text.nullable().describe('Why it was not accepted, or why its event failed.'),
    address: text.nullable().describe('Whom it came from; null: not known, or trimmed with the body.'),
    deliveries: whole.describe('How often it came; of rejections, how many it stands for.'),
    answer: whole.describe('The HTTP status that it was answered with.'),
    answered_in_ms: z
      .number()
      .nullable()
      .describe('Null: answered by another process, or too long ago to be remembered.'),
    signature: z.enum(SIGNATURES),
  })
  .openapi('Delivery');

export const record = z
  .object({
    id: text,
    name: text.nullable(),
    version: text.nullable().optional().describe('Of policies only.'),
    status: text.nullable(),
    data: json.describe('The whole record as last read.'),
    first_seen_at: instant,
    synced_at: instant,
    verified_at: instant.nullable(),
    unverified_since: instant.nullable(),
    deleted_at: instant.nullable(),
    last_event_id: text.nullable(),
    last_event_at: instant.nullable(),
    cause: text.describe('The event, refetch or sync run that wrote the row.'),
  })
  .openapi('Record');

export const change = z
  .object({
    seq: whole,
    kind,
    record_id: text,
    operation: z.enum(['insert', 'update', 'delete', 'restore']),
    before: json.describe('Changed columns, and of `data` changed fields; what is absent did not exist.'),
    after: json.describe('The same columns and fields as they are now; what is absent is gone.'),
    cause: text,
    at: instant,
  })
  .openapi('Change');

export const gap = z
  .object({
    id: whole,
    kind: kind.nullable(),
    record_id: text.nullable(),
    reason: text,
    opened_at: instant,
    resolved_at: instant.nullable(),
    attempts: whole,
    error: text.nullable(),
  })
  .openapi('Gap');

const differences = {
  missing: whole.describe('Upstream, not here.'),
  extra: whole.describe('Here, not upstream.'),
  different: whole.describe('Here and upstream, unlike each other.'),
  repaired: whole.describe('How many of all these the full sync repaired itself.'),
  fields: z.record(z.string(), whole).describe('By field: in how many records it differed.'),
  examples: z.array(
    z.object({
      ...{
        id: text,
        what: z.enum(['missing', 'extra', 'different']),
        fields: z.array(text),
        repaired: z.boolean(),
      },
    }),
  ),
};

export const syncRun = z
  .object({
    id: whole,
    kind,
    reason: text,
    started_at: instant,
    finished_at: instant.nullable(),
    pages: whole,
    seen: whole,
    inserted: whole,
    updated: whole,
    deleted: whole,
    unchanged: whole,
    outcome: text.nullable(),
    error: text.nullable(),
    differences: json.nullable(),
  })
  .openapi('SyncRun');

export const quarantined = z
  .object({
    id: whole,
    received_at: instant,
    reason: text,
    t: text,
    body_sha256: text,
    released_at: instant.nullable(),
    address: text.nullable().describe('Whom it came from; null: not known, or trimmed with the body.'),
    body: text.nullable().describe('As text; null in lists, and once trimmed.'),
    body_base64: text.nullable().describe('The same bytes as they came.'),
  })
  .openapi('QuarantinedDelivery');

export const rejection = z
  .object({
    id: whole,
    at: instant,
    reason: text,
    t: text.nullable(),
    bytes: whole,
    body_sha256: text.nullable(),
    header: text.nullable(),
    address: text.nullable().describe('Whom it came from; null where that is not known.'),
    times: whole.describe('How many of that reason, sender and minute it stands for.'),
    body: text.nullable().describe('As text; null in lists, and where none was kept.'),
    body_base64: text.nullable().describe('The same bytes as they came.'),
  })
  .openapi('Rejection');

export const auditEntry = z
  .object({
    id: whole,
    at: instant,
    actor: text,
    action: text,
    outcome: text,
    target: text.nullable(),
  })
  .openapi('AuditEntry');

const verdict = z.enum(['in_sync', 'catching_up', 'stale', 'unreachable', 'action_required', 'unverified']);

const kindStatus = z
  .object({
    kind,
    verdict,
    in_sync_since: instant.nullable(),
    records: whole.describe('Live ones.'),
    deleted: whole.describe('Tombstones.'),
    known: whole.describe('Ids known, those included that the API never showed.'),
    verified: whole.describe('Live ones with nothing outstanding, as their rows say.'),
    unverified: whole.describe('Ids that a read can verify and has not.'),
    oldest_unverified_at: instant.nullable(),
    last_full_sync_at: instant.nullable(),
    last_full_sync_seconds: z.number().nullable(),
    complete_through: instant
      .nullable()
      .describe('All that the upstream held then has been read since, as far as `coverage` goes.'),
    readable_since: instant
      .nullable()
      .describe('Since when the present credentials have been seen to read it; null: not yet.'),
    open_gaps: whole,
    coverage: text,
  })
  .openapi('KindStatus');

const service = z.object({
  version: text,
  state: z
    .enum(['starting', 'migrating', 'running', 'draining', 'stopped', 'elsewhere'])
    .describe(
      'The last two only in the commands’ own use of this API: no service runs on the database, or others do.',
    ),
  started_at: instant,
  paused: z.boolean(),
  paused_since: instant.nullable(),
  events_only: z.boolean(),
  signing_secrets: whole,
  settle_seconds: z.number(),
  full_sync_minutes: z.number(),
  silence_hours: z.number(),
});

const deliveryCounts = z.object({
  accepted: whole,
  duplicate: whole,
  quarantined: whole.describe('Rightly signed, and not to be used.'),
  rejected: z.record(z.string(), whole).describe('By reason; only those that occurred.'),
});

const learnedPointer = z.object({
  kind,
  path: text,
  setting: text,
  event_id: text,
  record_id: text,
  learned_at: instant,
  used: z.boolean(),
});

const runningSyncRun = z.object({
  id: whole,
  kind,
  pages: whole,
  seen: whole,
  estimated_total: whole.nullable(),
  records_per_second: z.number().nullable(),
  seconds_left: z.number().nullable(),
  started_at: instant,
});

const upstream = z.object({
  configured: z.boolean().describe('False: there are no API credentials.'),
  origin: text.nullable(),
  ok: z
    .boolean()
    .nullable()
    .describe('Whether the last request was answered usefully; null before the first.'),
  last_ok_at: instant.nullable(),
  last_error_at: instant.nullable(),
  last_error: text.nullable(),
  consecutive_failures: whole,
  waits_until: instant
    .nullable()
    .describe('Until then nothing is asked, as the service asked (Retry-After).'),
  budget_left: whole,
  budget_per_minute: whole,
  budget_waits_for: z.array(z.object({ replica: text, requests: whole, until: instant })),
  skew_ms: z.number().nullable().describe('The upstream’s clock minus ours.'),
});

export const status = z
  .object({
    at: instant,
    verdict,
    reason: text.describe('Stable code of what decided it.'),
    sentence: text,
    remedy: text.nullable(),
    since: instant.nullable(),
    service,
    kinds: z
      .array(kindStatus)
      .nullable()
      .describe('As the view sync_status, and `verified`; null when the database cannot be read.'),
    events: z
      .object({ pending: whole, processed: whole, ignored: whole, failed: whole, discarded: whole })
      .nullable(),
    backlog: z.object({ events: whole, oldest_at: instant.nullable() }).nullable(),
    last_delivery_at: instant.nullable(),
    deliveries: z.object({ last_minute: deliveryCounts, last_hour: deliveryCounts }),
    quarantined: whole.nullable(),
    gaps: z
      .object({
        open: whole,
        by: z.array(z.object({ reason: text, kind: kind.nullable(), count: whole, oldest_at: instant })),
        resolved_last_day: whole,
        newest: z.array(gap),
      })
      .nullable(),
    learned_pointers: z
      .array(learnedPointer)
      .nullable()
      .describe('Where ids were found by asking the API, which no setting names yet.'),
    pending_deletions: z.array(z.object({ sync_run_id: whole, kind, count: whole })),
    sync_runs: z.object({ running: z.array(runningSyncRun), last: z.array(syncRun) }),
    assessment_cycle: z
      .object({
        last_seconds: z.number().nullable(),
        running: z
          .object({ elapsed_seconds: z.number(), estimated_seconds: z.number().nullable() })
          .nullable(),
      })
      .describe('How long it takes to read every known risk assessment once.'),
    upstream,
    database: z.object({ bytes: whole, wal_bytes: whole }).nullable(),
  })
  .openapi('Status');

export const problemDetails = z
  .object({
    type: text,
    title: text,
    status: whole,
    code: text.describe('Stable, for programs.'),
    detail: text.optional(),
  })
  .openapi('Problem');

export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.object({
    items: z.array(item),
    next: text.nullable().describe('What `after` takes for the following page; null on the last.'),
  });

/** Of what is searched by walking back. */
const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.object({
    items: z.array(item).describe('Fewer than `limit`, or none, also on a page that is not the last.'),
    next: text.nullable().describe('What `after` takes for the following page; null on the last.'),
    looked_back_to: instant
      .nullable()
      .describe('A page looks at a bounded number of rows. When it ended there: the oldest came in then.'),
  });
export const events = pageOf(event);
export const records = listOf(record).extend({
  items: z.array(record).describe('Fewer than `limit`, or none, also on a page that is not the last.'),
  searched_to: text
    .nullable()
    .describe(
      'A page looks at a bounded number of rows. When it ended there: the id, name or instant it came to.',
    ),
});
export const deliveries = pageOf(delivery).extend({
  newest: text.describe('What `above` takes to be told only of what comes in from here on.'),
});

export const pendingDeletions = z.object({
  sync_runs: z
    .array(
      z.object({
        sync_run_id: whole,
        kind,
        waiting: whole.describe('How many wait for a person.'),
        approved: whole.describe('How many are approved, and wait for one more proof.'),
        digest: text
          .nullable()
          .describe('Names exactly the ids that wait, to approve them. Null: none waits.'),
      }),
    )
    .describe('The sync runs that found them.'),
  items: z.array(
    z.object({
      ...{ kind, id: text, name: text.nullable(), status: text.nullable(), sync_run_id: whole },
      synced_at: instant.nullable().describe('When its row was last written; null: it has none.'),
      pending_since: instant,
      approved_until: instant.nullable().describe('Null: nobody has approved it.'),
    }),
  ),
  next: text.nullable().describe('What `after` takes for the following page; null on the last.'),
});

export const feed = z.object({
  epoch: text.describe('The database’s life: another one after a backup was put back.'),
  items: z.array(change),
  next: text.describe('What `after` takes from here on, also when nothing is new.'),
});

export const snapshot = z.object({
  epoch: text.describe('The database’s life: another one after a backup was put back.'),
  seq: whole.describe('The number at which the rows stand; the same on every page.'),
  after: text.describe('Follow /api/changes from here: the epoch and the number.'),
  trimmed: z
    .object({ through: whole, at: instant })
    .nullable()
    .describe('The last change that is not kept any more; null when all are.'),
  items: z.array(record.extend({ kind })),
  next: text.nullable(),
});

export const done = {
  retried: z.object({ status: z.literal('processed'), id: text, kind, record_id: text }),
  retriedAll: z.object({
    status: z.literal('tried'),
    processed: whole,
    failed: whole.describe('Failed again.'),
    errors: z.array(z.object({ id: text, error: text })).describe('The first of those that failed again.'),
  }),
  discarded: z.object({ status: z.literal('discarded'), id: text }),
  syncRun: z.object({ status: z.literal('queued'), kinds: z.array(kind) }),
  compared: z.object({
    status: z.literal('compared'),
    in_sync: z.boolean(),
    kinds: z.array(
      z.object({
        kind,
        ...differences,
        incomplete: text.nullable().describe('Why the list cannot be taken for the whole one; null: it can.'),
      }),
    ),
  }),
  approved: z.object({
    status: z.literal('approved'),
    sync_run_id: whole,
    kind,
    ids: z.array(text),
    until: instant,
  }),
  refetch: z.object({ status: z.literal('queued'), queued: whole }),
  released: z.object({ status: z.literal('released'), id: whole }),
  resolved: z.object({ status: z.literal('resolved'), id: whole }),
  paused: z.object({ paused: z.boolean() }),
};

export const live = z.object({ status: z.literal('live') });
export const ready = z.object({ status: z.literal('ready') });
export const notReady = z.object({ status: z.literal('not_ready'), reason: text });

export type Event = z.output<typeof event>;
export type MirroredRecord = z.output<typeof record>;
export type Change = z.output<typeof change>;
export type Delivery = z.output<typeof delivery>;
export type Gap = z.output<typeof gap>;
export type SyncRun = z.output<typeof syncRun>;
export type QuarantinedDelivery = z.output<typeof quarantined>;
export type Rejection = z.output<typeof rejection>;
export type AuditEntry = z.output<typeof auditEntry>;
export type Status = z.output<typeof status>;
export type PendingDeletion = z.output<typeof pendingDeletions>['items'][number];
