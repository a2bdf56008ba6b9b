import { z } from '@hono/zod-openapi';
import * as rows from '../../store/report-rows.ts';
import { SIGNATURES } from '../delivery-answers.ts';

/** The answers of the JSON API. Their rows are in `store/report-rows.ts`. */

const { instant, kind, text, verdictName: verdict, whole } = rows;

/** How the API differed from the mirror. */
const differences = z.object({
  missing: whole.describe('Upstream, not here.'),
  extra: whole.describe('Here, not upstream.'),
  different: whole.describe('Here and upstream, unlike each other.'),
  repaired: whole.describe('How many of all these the full sync repaired itself.'),
  fields: z.record(text, whole).describe('By field: in how many records it differed.'),
  // The first of them.
  examples: z.array(
    z.object({
      id: text,
      what: z.enum(['missing', 'extra', 'different']),
      fields: z.array(text),
      repaired: z.boolean(),
    }),
  ),
});

/** What a dry run found. */
const comparison = differences.extend({
  incomplete: text.nullable().describe('Why the list may be incomplete; null: it is complete.'),
});

const service = z.object({
  version: text,
  state: z
    .enum(['starting', 'migrating', 'running', 'draining', 'stopped', 'elsewhere'])
    .describe(
      '`stopped` and `elsewhere` only in commands that read the database themselves: no service runs on it, or others do.',
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
  quarantined: whole.describe('Correctly signed, but unusable.'),
  rejected: z.record(z.string(), whole).describe('By reason; only those that occurred.'),
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

const pendingCount = z.object({ sync_run_id: whole, kind, count: whole });

const upstream = z.object({
  configured: z.boolean().describe('False: there are no API credentials.'),
  // Scheme, host and port; never a path, a query or credentials.
  origin: text.nullable(),
  ok: z
    .boolean()
    .nullable()
    .describe('Whether the last request was answered usefully; null before the first.'),
  last_ok_at: instant.nullable(),
  last_error_at: instant.nullable(),
  // One line without secrets.
  last_error: text.nullable(),
  consecutive_failures: whole,
  waits_until: instant
    .nullable()
    .describe('No request is sent until then, as the service asked (Retry-After).'),
  // Requests left in the current minute.
  budget_left: whole,
  budget_per_minute: whole,
  // Requests that replicas that are gone may have sent, and until when nobody else may send them.
  budget_waits_for: z.array(z.object({ replica: text, requests: whole, until: instant })),
  skew_ms: z.number().nullable().describe('The upstream’s clock minus ours.'),
});

export const status = z
  .object({
    at: instant,
    verdict,
    reason: text.describe('Stable code of the rule that decided.'),
    sentence: text,
    remedy: text.nullable(),
    since: instant.nullable(),
    service,
    kinds: z
      .array(rows.kindStatus)
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
        by: z.array(rows.openGaps),
        resolved_last_day: whole,
        newest: z.array(rows.gap),
      })
      .nullable(),
    learned_pointers: z
      .array(rows.learnedPointer.extend({ setting: text }))
      .nullable()
      .describe('Where ids were found by asking the API, which no setting names yet.'),
    pending_deletions: z.array(pendingCount),
    sync_runs: z.object({ running: z.array(runningSyncRun), last: z.array(rows.syncRun) }),
    assessment_sync: z
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

const next = text.nullable().describe('To be given as `after` for the next page; null on the last.');
export const listOf = <Item extends z.ZodType>(item: Item) => z.object({ items: z.array(item), next });

/** A list that is searched backwards: each page looks at a bounded number of rows. */
const searched = <Item extends z.ZodType>(item: Item) =>
  z.object({
    items: z.array(item).describe('Fewer than `limit`, or none, also on a page that is not the last.'),
    next,
  });
const looked_back_to = instant
  .nullable()
  .describe('A page looks at a bounded number of rows. If that ended it: when the oldest of them came in.');

export const events = searched(rows.event).extend({ looked_back_to });
export const records = searched(rows.record).extend({
  searched_to: text
    .nullable()
    .describe('A page looks at a bounded number of rows. If that ended it: the last id, name or instant.'),
});
const delivery = rows.delivery
  .extend({
    answer: whole.describe('The HTTP status that it was answered with.'),
    answered_in_ms: z
      .number()
      .nullable()
      .describe('Null: answered by another process, or too long ago to be remembered.'),
    signature: z.enum(SIGNATURES),
  })
  .openapi('Delivery');
export const deliveries = searched(delivery).extend({
  looked_back_to,
  newest: text.describe('To be given as `above` for later deliveries only.'),
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
  items: z.array(rows.pendingDeletion),
  next,
});

export const feed = z.object({
  epoch: text.describe('Changes when a backup is put back.'),
  items: z.array(rows.change),
  next: text.describe('To be given as `after` to go on, also when nothing is new.'),
});

export const snapshot = z.object({
  epoch: text.describe('Changes when a backup is put back.'),
  seq: whole.describe('The number at which the rows stand; the same on every page.'),
  after: text.describe('Follow /api/changes from here: the epoch and the number.'),
  trimmed: rows.trimmedChanges
    .nullable()
    .describe('The last change that is not kept any more; null when all are.'),
  items: z.array(rows.record.and(z.object({ kind }))),
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
    kinds: z.array(z.object({ kind, ...comparison.shape })),
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

export type Differences = z.output<typeof differences>;
export type Comparison = z.output<typeof comparison>;
export type Delivery = z.output<typeof delivery>;
export type DeliveryCounts = z.output<typeof deliveryCounts>;
export type PendingDeletions = z.output<typeof pendingDeletions>;
export type PendingCount = z.output<typeof pendingCount>;
export type RunningSyncRun = z.output<typeof runningSyncRun>;
export type Status = z.output<typeof status>;
/** As the whole service sees it. */
export type Upstream = z.output<typeof upstream>;
