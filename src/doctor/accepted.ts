import { pointersSettingOf } from '../compliance/pointers.ts';
import type { Config } from '../platform/config.ts';
import { parseEnvelope } from '../receive/envelope.ts';
import type { EventReport, QuarantineReport } from '../store/reports.ts';
import type { Diagnosis } from './diagnosis.ts';
import { ASK_SENDER, type Cause } from './diagnosis-causes.ts';
import { templateText } from './diagnosis-search.ts';

const RELEASE =
  'What it was about is read from the API. Look at the body, then release it: "quarantine release".';

/** What is wrong, by reason. Other reasons are clear by their names. */
const QUARANTINED: Readonly<Record<string, string>> = {
  empty_body: 'The body is empty.',
  invalid_utf8: 'The body is not UTF-8.',
  byte_order_mark: 'The body begins with a byte order mark, which JSON does not allow.',
  not_json: 'The body is not JSON.',
  not_an_object: 'The body is JSON, and no object.',
  nested_too_deep: 'The body is nested deeper than any event.',
  conflicting_content: 'An event with the same id came before, and said something else.',
};

/** Why a delivery is in quarantine. Its signature was right. Pure. */
export function explainQuarantined({ reason, received_at, released_at }: QuarantineReport): Diagnosis {
  const released = released_at === null ? '' : `; it was released at ${released_at}`;
  const remedy = released_at === null ? `Tell the sender. ${RELEASE}` : 'Tell the sender.';
  return {
    healthy: false,
    causes: [{ code: reason, what: unusableText(reason), remedy }],
    fit: null,
    known: [`It arrived at ${received_at} and is in quarantine${released}.`],
  };
}

/** What is wrong with a correctly signed delivery. */
function unusableText(reason: string): string {
  const what = QUARANTINED[reason] ?? `The body is not an event: ${reason.replaceAll('_', ' ')}.`;
  return `Its signature is right. ${what}`;
}

/** Why the service would reject this correctly signed body; null: it would not. */
export function bodyCause(body: Uint8Array, { webhook, idPointers }: Config): Cause | null {
  if (body.length > webhook.maxBodyBytes) {
    const what = `The body has ${body.length} bytes, and ${webhook.maxBodyBytes} are allowed: it is answered 413, unread.`;
    const remedy = 'Set WEBHOOK_MAX_BODY_BYTES higher, if such bodies are right.';
    return { code: 'too_large', what, remedy };
  }
  const envelope = parseEnvelope(body, { pointers: idPointers, t: '' });
  if (envelope.ok) return null;
  const { reason } = envelope;
  const what = `${unusableText(reason)} It is answered 400 ${envelope.code}, and kept in quarantine.`;
  return { code: reason, what, remedy: ASK_SENDER };
}

/** What became of an accepted delivery. Its header, and which secret fitted, are not stored. Pure. */
export function explainEvent(
  event: EventReport,
  webhook: Config['webhook'],
  rejectedAs: number | null,
): Diagnosis {
  const { id, type, received_at, deliveries, last_delivered_at } = event;
  const again = deliveries > 1 ? `, the last of ${deliveries} deliveries at ${last_delivered_at}` : '';
  const content = JSON.stringify(templateText(webhook.template));
  const known = [
    `Event ${id} (${type}) was accepted at ${received_at}${again}: its signature was right, under the settings of then.`,
    `Which secret fitted is not kept, nor is its header. Taken now: HMAC-${webhook.algorithm.toUpperCase()} over ${content}, ${webhook.secrets().length} secrets in WEBHOOK_SECRETS read as ${webhook.secretEncoding}.`,
    stateOf(event),
  ];
  if (rejectedAs !== null)
    known.push(
      `A delivery that names it was rejected besides: doctor --delivery rejection:${rejectedAs} says why.`,
    );
  const causes = event.state === 'failed' ? [failureOf(event)] : [];
  return { healthy: causes.length === 0, causes, fit: null, known };
}

function stateOf({ state, attempts, error, processed_at, next_attempt_at, kind, record_id }: EventReport) {
  const about = kind === null || record_id === null ? 'no record' : `${kind} ${record_id}`;
  const tries = attempts === 1 ? '1 attempt' : `${attempts} attempts`;
  const failure = error === null ? '' : ` Last error: ${error}.`;
  const next = next_attempt_at === null ? '' : `, next at ${next_attempt_at}`;
  switch (state) {
    case 'pending':
      return `It waits to be processed, about ${about}: ${tries} so far${next}.${failure}`;
    case 'processed':
      return `It was processed at ${processed_at}, about ${about}.`;
    case 'ignored':
      return `It was set aside at ${processed_at}, because its type is not known here; about ${about}.`;
    case 'discarded':
      return `An operator discarded it after ${tries}, about ${about}.${failure}`;
    case 'failed':
      return `It was given up after ${tries}, about ${about}.${failure}`;
  }
}

function failureOf({ error, id, kind, record_id }: EventReport): Cause {
  const why = error ?? 'no error was kept';
  if (kind !== null && record_id === null) {
    const what = `Its signature is right, and it does not say which record it is about: ${why}.`;
    const remedy = `Set ${pointersSettingOf(kind)} to where the id stands in its data ("events show ${id}"), and start again; or events discard ${id}.`;
    return { code: 'no_record_id', what, remedy };
  }
  const what = `Its signature is right, and it could not be processed: ${why}.`;
  const remedy = `Its record is read from the API instead. When the cause is mended: events retry ${id}, or events discard ${id}.`;
  return { code: 'failed_event', what, remedy };
}
