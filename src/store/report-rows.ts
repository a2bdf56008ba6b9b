import { z } from 'zod';
import { KINDS } from '../compliance/kinds.ts';

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

export const eventState = z.enum(['pending', 'processed', 'ignored', 'failed', 'discarded']);
export const listedOutcome = z.enum(['accepted', 'duplicate', 'quarantined', 'rejected']);
// biome-ignore format: names side by side
export const verdictName = z.enum([
  'in_sync', 'catching_up', 'stale', 'unreachable', 'action_required', 'unverified',
]);

export const event = z
  .object({
    seq: whole.describe('Its number, in the order of commits.'),
    id: text.describe('As the sender gave it.'),
    type: text,
    created: text.describe('In UTC, with milliseconds. The body has it as the sender wrote it.'),
    kind: kind.nullable(),
    record_id: text.nullable(),
    received_at: instant,
    deliveries: whole,
    last_delivered_at: instant,
    state: eventState,
    // Tries since the delivery came, or since an operator asked for a retry.
    attempts: whole,
    next_attempt_at: instant.nullable(),
    processed_at: instant.nullable(),
    error: text.nullable(),
    address: senderAddress,
    body: text.nullable().describe('The raw body; null in lists, and once trimmed.'),
  })
  .meta({ id: 'Event' });

/** The API adds which answer it got. */
export const delivery = z.object({
  outcome: listedOutcome,
  number: whole.describe('Its `seq` among the events, or its `id` among those of its outcome.'),
  received_at: instant,
  event_id: text.nullable().describe('As its body names it.'),
  type: text.nullable(),
  kind: kind.nullable(),
  record_id: text.nullable(),
  state: eventState.nullable().describe('Of the event, where it was accepted.'),
  reason: text.nullable().describe('Why it was not accepted, or why its event failed.'),
  address: senderAddress,
  deliveries: whole.describe('How often it came; for rejections, how many the row counts.'),
});

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
    cause: text,
    at: instant,
  })
  .meta({ id: 'Change' });

/** The last change that is not kept any more. All before it are gone too. */
export const trimmedChanges = z.object({ through: whole, at: instant });

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
  .meta({ id: 'Gap' });

/** Open gaps of one reason and kind; without a kind, of the whole mirror. */
export const openGaps = z.object({
  reason: text,
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

export const quarantined = z
  .object({
    id: whole,
    received_at: instant,
    reason: text,
    t: text,
    body_sha256: text,
    released_at: instant.nullable(),
    address: senderAddress,
    body: text.nullable().describe('As text; null in lists, and once trimmed.'),
    body_base64: bodyBase64,
  })
  .meta({ id: 'QuarantinedDelivery' });

export const rejection = z
  .object({
    id: whole,
    at: instant,
    reason: text,
    t: text.nullable(),
    bytes: whole,
    body_sha256: text.nullable(),
    header: text.nullable(),
    address: text.nullable().describe('The address of the sender; null: unknown.'),
    times: whole.describe('How many rejections of this reason, sender and minute the row counts.'),
    body: text.nullable().describe('As text; null in lists, and where none was kept.'),
    body_base64: bodyBase64,
  })
  .meta({ id: 'Rejection' });

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

/** A row of the view `sync_status`, with further columns. */
export const kindStatus = z
  .object({
    kind,
    verdict: verdictName,
    in_sync_since: instant.nullable(),
    records: whole.describe('Live ones.'),
    deleted: whole.describe('Tombstones.'),
    known: whole.describe('Known ids, including those that the API has never shown.'),
    verified: whole.describe('Live ones with nothing outstanding, as their rows say.'),
    // With or without a row, but not ids that the API answers as unknown.
    unverified: whole.describe('Ids that a read can verify, but has not yet.'),
    oldest_unverified_at: instant.nullable(),
    last_full_sync_at: instant.nullable(),
    last_full_sync_seconds: z.number().nullable(),
    complete_through: instant
      .nullable()
      .describe('Everything that the upstream held then has been read since, as far as `coverage` says.'),
    readable_since: instant
      .nullable()
      .describe('Since when the present credentials have been seen to read it; null: not yet.'),
    open_gaps: whole,
    coverage: text,
  })
  .meta({ id: 'KindStatus' });

/** A deletion that waits for a person, or is approved and waits for its proof. */
export const pendingDeletion = z.object({
  kind,
  id: text,
  name: text.nullable().describe('At most its first 1,000 characters.'),
  status: text.nullable().describe('At most its first 1,000 characters.'),
  sync_run_id: whole,
  synced_at: instant.nullable().describe('When its row was last written; null: it has none.'),
  pending_since: instant,
  approved_until: instant.nullable().describe('Null: nobody has approved it.'),
});

/** A place in payloads where ids of a kind were found, and which no setting names. */
export const learnedPointer = z.object({
  kind,
  // Dotted, as in a setting.
  path: text,
  // The event that proved it, and the record that the event named.
  event_id: text,
  record_id: text,
  learned_at: instant,
  // Events are read with it.
  used: z.boolean(),
});
