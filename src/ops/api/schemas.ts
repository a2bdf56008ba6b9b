import { z } from '@hono/zod-openapi';
import { PROBLEM_REASONS } from '../../mirror/problems.ts';
import * as rows from '../../store/report-rows.ts';
import { DATABASE } from '../problems.ts';

/** The answers of the JSON API. Their rows are in `store/report-rows.ts`. */

const { instant, kind, text, verdictName: verdict, whole } = rows;

/** How the API differed from the mirror. */
const differences = z.object({
  new: whole.describe('Upstream, not here.'),
  deleted_upstream: whole.describe('Here, not upstream.'),
  different: whole.describe('Here and upstream, unlike each other.'),
  repaired: whole.describe('How many of all these the full sync repaired itself.'),
  fields: z.record(text, whole).describe('By field: in how many records it differed.'),
  // The first of them.
  examples: z.array(
    z.object({
      id: text,
      what: z.enum(['new', 'deleted_upstream', 'different']),
      fields: z.array(text),
      repaired: z.boolean(),
    }),
  ),
});

const service = z.object({
  version: text,
  state: z.enum(['starting', 'migrating', 'running', 'draining']),
  started_at: instant,
  events_only: z.boolean(),
  full_sync_seconds: z.number().describe('How often the timer begins full syncs; 0: there is none.'),
  notifies: z.boolean().describe('NOTIFY_URL is set.'),
  secrets: z.array(
    z.object({
      position: whole.describe('The configured ones come first.'),
      registration: text.nullable().describe('The registration that brought it; null: it is configured.'),
      last_used_at: instant.nullable().describe('Since this start; null: not yet.'),
    }),
  ),
});

const runningSyncRun = z.object({
  id: whole,
  kind,
  pages: whole,
  seen: whole,
  estimated_total: whole.nullable(),
  started_at: instant,
});

const upstream = z.object({
  configured: z.boolean().describe('False: there are no API credentials.'),
  // Scheme, host and port; never a path, a query or credentials.
  origin: text.nullable(),
  ok: z
    .boolean()
    .nullable()
    .describe('Whether the last request was answered usefully; null before the first.'),
  last_ok_at: instant.nullable(),
  // One line without secrets.
  last_error: text.nullable(),
  consecutive_failures: whole,
  waits_until: instant
    .nullable()
    .describe('No request is sent until then, as the service asked (Retry-After).'),
  // Requests left in the current minute.
  budget_left: whole,
  budget_per_minute: whole,
  skew_ms: z.number().nullable().describe('The upstream’s clock minus ours.'),
});

export const problem = rows.problem
  .extend({
    reason: z
      .enum([...PROBLEM_REASONS, DATABASE])
      .describe('`database`: it cannot be read or written, which no row says; its id is 0.'),
    sentence: text.describe('What is wrong.'),
    action: text.describe('What to do, or what happens by itself.'),
  })
  .openapi('Problem');

export const status = z
  .object({
    at: instant,
    verdict: verdict.describe('The worst of the kinds’.'),
    since: instant.nullable(),
    sentence: text,
    action: text.nullable().describe('What to do; null: nothing.'),
    kinds: z.array(rows.kindStatus).describe('As the view sync_status; none: the database cannot be read.'),
    problems: z.array(problem).describe('The open ones, the worst first; of very many some of each reason.'),
    open_problems: whole.describe('How many there are.'),
    service,
    events: z.object({ pending: whole, failed: whole, oldest_pending_at: instant.nullable() }).nullable(),
    deliveries: z.object({
      last_at: instant.nullable(),
      quarantined: whole.nullable().describe('Correctly signed, unusable, and not yet dismissed.'),
    }),
    learned_pointers: z
      .array(rows.learnedPointer)
      .describe(
        'Where ids are looked for in events besides the settings, because the API has proven these places.',
      ),
    sync_runs: z.object({ running: z.array(runningSyncRun), last: z.array(rows.syncRun) }),
    upstream,
    database: z.object({ bytes: whole.describe('With the log that is not merged yet.') }).nullable(),
  })
  .openapi('Status');

export const statusThen = z
  .object({
    at: instant,
    verdict: verdict.describe('The worst of the kinds’ then.'),
    kinds: z.array(rows.kindThen.extend({ records: whole.describe('How many were alive then.') })),
    problems: z.array(problem).describe('Those that were open then; of very many the first.'),
    open_problems: whole.describe('How many were.'),
    digest: text.describe(
      'SHA-256 over a line `[kind,id,data]` of canonical JSON for each living record, by kind and id: what the mirror held then.',
    ),
  })
  .openapi('StatusThen');

const finding = z.object({
  subject: text,
  state: z.enum(['ok', 'warning']),
  says: text,
  remedy: text.nullable().describe('What to do; null: nothing.'),
});

export const configuration = z
  .object({
    version: text,
    started_at: instant,
    folder: text.describe('Where the service was started, and its `.env` is.'),
    salt: text.nullable().describe('Of the fingerprints; null: the token’s role shows none.'),
    settings: z.array(
      z.object({
        name: text,
        value: text.nullable().describe('As it is set, or its default; null: neither, or it is a secret.'),
        source: z.enum(['environment', '.env', 'file', 'default']),
        path: text.nullable().describe('The file that NAME_FILE names.'),
        secret: z.boolean(),
        fingerprint: text
          .nullable()
          .describe('Of a secret: the same for who has the same one and this salt.'),
      }),
    ),
    findings: z.array(finding).describe('The set-up as the service finds it.'),
  })
  .openapi('Configuration');

export const problemDetails = z
  .object({
    type: text,
    title: text,
    status: whole,
    code: text.describe('Stable, for programs.'),
    detail: text.optional(),
  })
  .openapi('ProblemDetails');

const next = text.nullable().describe('To be given as `after` for the next page; null on the last.');
export const listOf = <Item extends z.ZodType>(item: Item) => z.object({ items: z.array(item), next });

const diagnosis = z.object({
  causes: z
    .array(z.object({ code: text, what: text, remedy: text, settings: z.record(text, text).optional() }))
    .describe('Every reason; none: with the present settings it would be accepted.'),
  fit: z.record(text, text).nullable().describe('What its signature is made of, if that was found.'),
});
export const shownDelivery = rows.shownDelivery
  .extend({
    diagnosis: diagnosis.nullable().describe('Of a rejected one: why, as `doctor` says it.'),
  })
  .openapi('ShownDelivery');
/** Searched backwards: each page looks at a bounded number of rows. */
export const deliveries = z.object({
  items: z.array(rows.delivery).describe('Fewer than `limit`, or none, also on a page that is not the last.'),
  next,
  looked_back_to: instant
    .nullable()
    .describe('A page looks at a bounded number of rows. If that ended it: when the oldest of them came in.'),
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
  dismissed: z.object({ status: z.literal('dismissed'), id: text }),
  sync: z.object({
    status: z.literal('queued'),
    kinds: z.array(kind),
    records: whole.nullable().describe('How many records are read; null: the kinds whole.'),
  }),
  retried: z.object({
    status: z
      .enum(['processed', 'accepted'])
      .describe('`accepted`: it was quarantined, and is an event now.'),
    id: text,
    kind: kind.nullable(),
    record_id: text.nullable(),
  }),
  approved: z.object({
    status: z.literal('approved'),
    id: whole,
    kind,
    ids: z.array(text),
    until: instant,
  }),
  kept: z.object({ status: z.literal('kept'), id: whole, kind, ids: z.array(text) }),
  resolved: z.object({
    status: z.literal('resolved'),
    id: whole,
    full_sync: z
      .boolean()
      .describe('A full sync was asked for: the kind is in sync once it has ended with nothing else.'),
  }),
  found: z.object({
    status: z.enum(['found', 'not_found']),
    id: whole,
    pointer: rows.learnedPointer
      .pick({ kind: true, path: true, record_id: true, event_id: true })
      .nullable()
      .describe('Events are read with it from now on; null: none was proven.'),
    retried: whole.describe('How many events were read again, and have their record now.'),
    says: text.describe('What was found, and what to do.'),
  }),
  paused: z.object({ paused: z.boolean() }),
  notified: z.object({ status: z.literal('delivered') }),
};

export const live = z.object({ status: z.literal('live') });
export const ready = z.object({ status: z.literal('ready') });
export const notReady = z.object({ status: z.literal('not_ready'), reason: text });

/** What each change answers. */
export type Done = { [Name in keyof typeof done]: z.output<(typeof done)[Name]> };

export type Differences = z.output<typeof differences>;
export type RunningSyncRun = z.output<typeof runningSyncRun>;
export type ShownDelivery = z.output<typeof shownDelivery>;
export type Deliveries = z.output<typeof deliveries>;
export type Diagnosis = z.output<typeof diagnosis>;
export type Configuration = z.output<typeof configuration>;
export type Status = z.output<typeof status>;
export type StatusThen = z.output<typeof statusThen>;
export type Problem = z.output<typeof problem>;
export type Found = z.output<typeof done.found>;
/** As the whole service sees it. */
export type Upstream = z.output<typeof upstream>;
