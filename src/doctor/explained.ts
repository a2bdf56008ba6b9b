import { pointersSettingOf } from '../compliance/pointers.ts';
import type { ShownDelivery } from '../store/reports.ts';
import type { Cause, Diagnosis } from './diagnosis.ts';

/** What is wrong with a correctly signed delivery, by reason. Other reasons are clear by their names. */
const UNUSABLE: Readonly<Record<string, string>> = {
  empty_body: 'the body is empty',
  invalid_utf8: 'the body is not UTF-8',
  byte_order_mark: 'the body begins with a byte order mark, which JSON does not allow',
  not_json: 'the body is not JSON',
  not_an_object: 'the body is JSON, and no object',
  not_events: 'the body is a list, and not all in it are events',
  mixed_batch: 'the body wraps events, and more than these',
  nested_too_deep: 'the body is nested deeper than any event',
  conflicting_content: 'an event with the same id came before, and said something else',
};

const unusableText = (reason: string) =>
  `Its signature is right, but ${UNUSABLE[reason] ?? `the body is not an event: ${reason.replaceAll('_', ' ')}`}.`;

// biome-ignore format: names side by side
type Explained = Pick<
  ShownDelivery,
  | 'id' | 'outcome' | 'reason' | 'received_at' | 'dismissed_at' | 'type' | 'deliveries' | 'state'
  | 'attempts' | 'next_attempt_at' | 'processed_at' | 'kind' | 'record_id'
>;

/** What became of a delivery that was signed correctly. Which secret fitted is not kept. Pure. */
export function explainSigned(delivery: Explained): Diagnosis {
  const { id, outcome, reason, received_at, dismissed_at, type, deliveries } = delivery;
  if (outcome === 'quarantined') {
    const remedy = `Tell the sender. Its record is read from the API. Look at the body, then: deliveries dismiss ${id}`;
    const causes = [{ code: reason ?? outcome, what: unusableText(reason ?? ''), remedy }];
    const dismissed = dismissed_at === null ? '' : `; it was dismissed at ${dismissed_at}`;
    return {
      healthy: false,
      causes,
      fit: null,
      known: [`It came at ${received_at} and is in quarantine${dismissed}.`],
    };
  }
  const times = deliveries > 1 ? `, and came ${deliveries} times` : '';
  const known = [`Event ${id} (${type}) was accepted at ${received_at}${times}.`, stateOf(delivery)];
  const causes = delivery.state === 'failed' ? [failureOf(delivery)] : [];
  return { healthy: causes.length === 0, causes, fit: null, known };
}

function stateOf({
  state,
  attempts,
  reason,
  processed_at,
  next_attempt_at,
  kind,
  record_id,
}: Explained): string {
  const about = kind === null || record_id === null ? 'no record' : `${kind} ${record_id}`;
  const tries = attempts === 1 ? '1 attempt' : `${attempts} attempts`;
  if (state === 'processed') return `It was processed at ${processed_at}, about ${about}.`;
  if (state === 'ignored') return `Its type is not known here, so it was ignored; about ${about}.`;
  const error = reason === null ? '' : ` Last error: ${reason}.`;
  if (state === 'pending') {
    const next = next_attempt_at === null ? '' : `, next at ${next_attempt_at}`;
    return `It waits to be processed, about ${about}: ${tries} so far${next}.${error}`;
  }
  return `It was ${state === 'failed' ? 'given up' : 'dismissed'} after ${tries}, about ${about}.${error}`;
}

function failureOf({ id, reason, kind, record_id }: Explained): Cause {
  const why = reason ?? 'no error was kept';
  if (kind !== null && record_id === null) {
    const what = `Its signature is right, and it does not say which record it is about: ${why}.`;
    const remedy = `Set ${pointersSettingOf(kind)} to where the id stands in its data (deliveries show ${id}), restart, and: deliveries retry ${id}. If it names none: deliveries dismiss ${id}`;
    return { code: 'no_record_id', what, remedy };
  }
  const what = `Its signature is right, and it could not be processed: ${why}.`;
  const remedy = `Its record is read from the API instead. When the cause is mended: deliveries retry ${id}, or deliveries dismiss ${id}`;
  return { code: 'failed_event', what, remedy };
}
