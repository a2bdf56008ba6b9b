import { z } from 'zod';
import { KINDS } from '../../compliance/kinds.ts';

/** What the JSON API answers. For its document and for tests: nothing is checked against these on its way out. */

const kind = z.enum(KINDS);
const instant = z.iso.datetime().describe('An instant, ISO 8601 in UTC.');
const text = z.string();
const whole = z.int();
const json = z.record(z.string(), z.unknown());
const table = <Shape extends z.ZodRawShape>(shape: Shape) => z.looseObject(shape);

export const event = table({
  seq: whole.describe('Its number, in the order of commits.'),
  id: text.describe('As the sender gave it.'),
  type: text,
  created: text.describe('As the sender wrote it.'),
  kind: kind.nullable(),
  record_id: text.nullable(),
  received_at: instant,
  deliveries: whole,
  last_delivered_at: instant,
  state: z.enum(['pending', 'processed', 'ignored', 'failed', 'discarded']),
  attempts: whole,
  next_attempt_at: instant.nullable(),
  processed_at: instant.nullable(),
  error: text.nullable(),
  body: text.nullable().describe('The raw body; null in lists, and once trimmed.'),
});

export const record = table({
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
});

export const change = table({
  seq: whole,
  kind,
  record_id: text,
  operation: z.enum(['insert', 'update', 'delete', 'restore']),
  before: json.describe('Changed columns, and of `data` changed fields; what is absent did not exist.'),
  after: json.describe('The same columns and fields as they are now; what is absent is gone.'),
  cause: text,
  at: instant,
});

export const gap = table({
  id: whole,
  kind: kind.nullable(),
  record_id: text.nullable(),
  reason: text,
  opened_at: instant,
  resolved_at: instant.nullable(),
  attempts: whole,
  error: text.nullable(),
});

export const fullSync = table({
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
});

export const quarantined = table({
  id: whole,
  received_at: instant,
  reason: text,
  t: text,
  body_sha256: text,
  released_at: instant.nullable(),
  body: text.nullable().describe('As text; null in lists, and once trimmed.'),
  body_base64: text.nullable().describe('The same bytes as they came.'),
});

export const rejection = table({
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
});

export const auditEntry = table({
  id: whole,
  at: instant,
  actor: text,
  action: text,
  outcome: text,
  target: text.nullable(),
});

export const status = table({
  at: instant,
  verdict: z.enum(['in_sync', 'catching_up', 'stale', 'unreachable', 'action_required', 'unverified']),
  reason: text.describe('Stable code of what decided it.'),
  sentence: text,
  remedy: text.nullable(),
  since: instant.nullable(),
  service: json,
  kinds: z
    .array(json)
    .nullable()
    .describe('As the view sync_status, and `verified`; null when the database cannot be read.'),
  events: z.record(z.string(), whole).nullable(),
  backlog: table({ events: whole, oldest_at: instant.nullable() }).nullable(),
  last_delivery_at: instant.nullable(),
  deliveries: json,
  quarantined: whole.nullable(),
  gaps: table({
    open: whole,
    by: z.array(table({ reason: text, kind: kind.nullable(), count: whole, oldest_at: instant })),
    resolved_last_day: whole,
    newest: z.array(gap),
  }).nullable(),
  learned_pointers: z
    .array(
      table({
        kind,
        path: text,
        setting: text,
        event_id: text,
        record_id: text,
        learned_at: instant,
        used: z.boolean(),
      }),
    )
    .nullable()
    .describe('Where ids were found by asking the API, which no setting names yet.'),
  pending_deletions: z.array(table({ sync_run_id: whole, kind, count: whole })),
  sync_runs: table({ running: z.array(json), last: z.array(fullSync) }),
  assessment_cycle: table({
    last_seconds: z.number().nullable(),
    running: table({ elapsed_seconds: z.number(), estimated_seconds: z.number().nullable() }).nullable(),
  }).describe('How long it takes to read every known risk assessment once.'),
  upstream: json,
  database: table({ bytes: whole, wal_bytes: whole }).nullable(),
});

export const problemDetails = table({
  type: text,
  title: text,
  status: whole,
  code: text.describe('Stable, for programs.'),
  detail: text.optional(),
});

export const listOf = <Item extends z.ZodType>(item: Item) =>
  table({
    items: z.array(item),
    next: text.nullable().describe('What `after` takes for the following page; null on the last.'),
  });

export const events = table({
  items: z.array(event).describe('Fewer than `limit`, or none, also on a page that is not the last.'),
  next: text.nullable().describe('What `after` takes for the following page; null on the last.'),
  looked_back_to: instant
    .nullable()
    .describe('A page looks at a bounded number of events. When it ended there: the oldest came in then.'),
});

export const deletions = table({
  sync_runs: z
    .array(
      table({
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
    table({
      ...{ kind, id: text, name: text.nullable(), status: text.nullable(), sync_run_id: whole },
      pending_since: instant,
      approved_until: instant.nullable().describe('Null: nobody has approved it.'),
    }),
  ),
  next: text.nullable().describe('What `after` takes for the following page; null on the last.'),
});

export const feed = table({
  epoch: text.describe('The database’s life: another one after a backup was put back.'),
  items: z.array(change),
  next: text.describe('What `after` takes from here on, also when nothing is new.'),
});

export const snapshot = table({
  epoch: text.describe('The database’s life: another one after a backup was put back.'),
  seq: whole.describe('The number at which the rows stand; the same on every page.'),
  after: text.describe('Follow /api/changes from here: the epoch and the number.'),
  trimmed: table({ through: whole, at: instant })
    .nullable()
    .describe('The last change that is not kept any more; null when all are.'),
  items: z.array(record.extend({ kind })),
  next: text.nullable(),
});

export const done = {
  retried: table({ status: z.literal('processed'), id: text, kind, record_id: text }),
  retriedAll: table({
    status: z.literal('tried'),
    processed: whole,
    failed: whole.describe('Failed again.'),
    errors: z.array(table({ id: text, error: text })).describe('The first of those that failed again.'),
  }),
  discarded: table({ status: z.literal('discarded'), id: text }),
  fullSync: table({ status: z.literal('queued'), kinds: z.array(kind) }),
  approved: table({
    status: z.literal('approved'),
    sync_run_id: whole,
    kind,
    ids: z.array(text),
    until: instant,
  }),
  refetch: table({ status: z.literal('queued'), queued: whole }),
  released: table({ status: z.literal('released'), id: whole }),
  resolved: table({ status: z.literal('resolved'), id: whole }),
  paused: table({ paused: z.boolean() }),
};

export const live = table({ status: z.literal('live') });
export const ready = table({ status: z.enum(['ready', 'not_ready']), reason: text.optional() });
