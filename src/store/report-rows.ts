import { z } from 'zod';
import { KINDS } from '../compliance/kinds.ts';
import { PROBLEM_REASONS, VERDICTS } from '../mirror/problems.ts';

/**
 * The rows that people see, each declared once: the port's types (`reports.ts`), the JSON API's document and the columns of an export
 * are made from these. Answers are not validated against them.
 */

export const kind = z.enum(KINDS);
export const instant = z.iso.datetime().describe('An instant, ISO 8601 in UTC.');
export const text = z.string();
export const whole = z.int();
const json = z.record(z.string(), z.unknown());

const senderAddress = text
  .nullable()
  .describe('The address of the sender; null: unknown, or trimmed with the body.');
const bodyBase64 = text.nullable().describe('The same body in base64, byte for byte.');

export const eventState = z.enum(['pending', 'processed', 'ignored', 'failed', 'dismissed']);
export const listedOutcome = z.enum(['accepted', 'quarantined', 'rejected']);
export const verdictName = z.enum(VERDICTS);

/** The API adds which answer it got. */
export const delivery = z.object({
  id: text.describe('The id of its event, or `rejection:NUMBER`.'),
  outcome: listedOutcome,
  number: whole.describe('Its `seq` among the events, or its `id` in `rejections`.'),
  received_at: instant,
  event_id: text.nullable().describe('As its body names it.'),
  type: text.nullable(),
  kind: kind.nullable(),
  record_id: text.nullable(),
  state: eventState
    .nullable()
    .describe('Of its event; of a quarantined one `dismissed` or null; null: it has no event.'),
  reason: text.nullable().describe('Why it was not accepted, or why its event failed.'),
  address: senderAddress,
  deliveries: whole.describe('How often it came; for rejections, how many the row counts.'),
});

/** What does not apply to its outcome is null. */
export const shownDelivery = delivery.extend({
  created: text.nullable().describe('Of its event, in UTC.'),
  last_delivered_at: instant.nullable(),
  attempts: whole.nullable().describe('Tries to process its event, since it came or was retried.'),
  next_attempt_at: instant.nullable(),
  processed_at: instant.nullable(),
  dismissed_at: instant.nullable().describe('Of a quarantined one.'),
  t: text.nullable().describe('The timestamp that was signed.'),
  header: text.nullable().describe('The signature header of a rejected one.'),
  bytes: whole.nullable(),
  body_sha256: text.nullable(),
  body: text.nullable().describe('As text; null once trimmed, and where none was kept.'),
  body_base64: bodyBase64.describe('Not of an accepted one, whose text is exact.'),
});

const cause = z.enum(['event', 'sync', 'refetch', 'person']);
const causeId = text
  .nullable()
  .describe(
    'The id of the event or of the sync run; of a refetch that of the event that made it due, if one did.',
  );

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
    deletion_pending_since: instant
      .nullable()
      .describe('Gone from the service since then, and kept alive until a person decides.'),
    last_event_id: text.nullable(),
    last_event_at: instant.nullable(),
    cause: cause.describe('What wrote the row.'),
    cause_id: causeId,
  })
  // Not `Record`, which would hide TypeScript's own type in a client.
  .meta({ id: 'MirrorRecord' });

export const shownRecord = record
  .extend({
    read_error: text.nullable().describe('Why the last read after its last event failed; null: it did not.'),
  })
  .meta({ id: 'ShownRecord' });

export const change = z
  .object({
    seq: whole,
    kind,
    record_id: text,
    operation: z.enum(['insert', 'update', 'delete', 'restore']),
    before: json.describe('Changed columns, and of `data` changed fields; what is absent did not exist.'),
    after: json.describe('The same columns and fields as they are now; what is absent is gone.'),
    data: json.describe('The whole record after the change.'),
    cause,
    cause_id: causeId,
    at: instant,
  })
  .meta({ id: 'Change' });

/** The last change that is not kept any more. All before it are gone too. */
export const trimmedChanges = z.object({ through: whole, at: instant });

export const problem = z
  .object({
    id: whole,
    kind: kind.nullable().describe('Null: of all kinds.'),
    record_id: text.nullable().describe('Null: of the whole kind.'),
    reason: z.enum(PROBLEM_REASONS),
    verdict: verdictName.describe('What it makes of its kind while it is open.'),
    needs: z.enum(['you', 'time']).describe('Who resolves it.'),
    opened_at: instant,
    resolved_at: instant.nullable(),
    times: whole.describe('How often it occurred while it was open.'),
    error: text.nullable(),
    digest: text.describe('Of what it shows: “resolve” accepts exactly this.'),
  })
  .meta({ id: 'Problem' });

/** Open problems of one reason and kind; without a kind, of all kinds. */
export const openProblems = z.object({
  reason: z.enum(PROBLEM_REASONS),
  kind: kind.nullable(),
  count: whole,
  oldest_at: instant,
});

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
    // Differences that no event had announced; null while it runs.
    differences: json.nullable(),
  })
  .meta({ id: 'SyncRun' });

export const auditEntry = z
  .object({
    id: whole,
    at: instant,
    actor: text,
    action: text,
    outcome: text,
    target: text.nullable(),
  })
  .meta({ id: 'AuditEntry' });

/** A row of `sync_history`: what the view said at an earlier time. */
export const kindThen = z.object({
  kind,
  verdict: verdictName,
  complete: z.boolean().describe('A list had proved that no record was missing.'),
  since: instant.describe('Since when that held then.'),
  last_full_sync: z
    .object({ id: whole, started_at: instant, finished_at: instant })
    .nullable()
    .describe('The last complete one before; null: there was none, or it is not kept.'),
});

/** A row of the view `sync_status`. */
export const kindStatus = z
  .object({
    kind,
    verdict: verdictName,
    complete: z.boolean().describe('A list has proved that no record is missing.'),
    since: instant.nullable().describe('Since when the verdict is what it is; null: not known.'),
    records: whole.describe('Live ones.'),
    deleted: whole.describe('Tombstones.'),
    unverified: whole.describe('Ids that a read can verify, but has not yet.'),
    oldest_unverified_at: instant.nullable(),
    last_full_sync_at: instant.nullable(),
    complete_through: instant
      .nullable()
      .describe('What the service held then is in; null: no list has proved it, or none can.'),
    problems: whole.describe('How many are open for the kind or for all.'),
    accepted: whole.describe('How many differences from the service a person has accepted.'),
  })
  .meta({ id: 'KindStatus' });

/** A place in payloads where ids of a kind are looked for, besides the settings'. */
export const learnedPointer = z.object({
  kind,
  // Dotted, as in a setting.
  path: text,
  // The event that proved it, and the record that the event named.
  event_id: text,
  record_id: text,
  learned_at: instant,
  // It goes before the default pointers, one of which finds another thing's id.
  leads: z.boolean(),
});
