import type { SandboxParts } from '../controls.ts';
import type { DeliveryView, Outcome } from '../deliveries.ts';
import type { Attempt } from '../send.ts';
import { Card } from './layout.tsx';

/** How an outcome reads, and whether it is fine, undecided or lost. */
const OUTCOMES: Record<Outcome, { text: string; tone: 'good' | 'wait' | 'bad' }> = {
  queued: { text: 'on its way', tone: 'wait' },
  waiting: { text: 'held back', tone: 'wait' },
  retrying: { text: 'will be sent again', tone: 'wait' },
  delivered: { text: 'delivered', tone: 'good' },
  dropped: { text: 'dropped', tone: 'bad' },
  abandoned: { text: 'given up', tone: 'bad' },
  cancelled: { text: 'cancelled', tone: 'bad' },
};

const DELIVERIES_SHOWN = 15;

export function DeliveriesPart({ parts }: { parts: SandboxParts }) {
  const { deliveries: sent } = parts.upstream;
  const { open } = sent;
  const deliveries = sent.list().slice(-DELIVERIES_SHOWN).toReversed();
  const registrations = parts.registrations.list();
  const addresses = new Map(registrations.map(({ id, url }) => [id, url]));
  const hasSeveral = registrations.length > 1;
  return (
    <Card
      part="deliveries"
      title="Deliveries going out"
      aside={
        <p class="note end">
          {open.underWay} on their way · {open.waiting} held back · {open.retrying} to be sent again
        </p>
      }
    >
      {deliveries.length === 0 ? (
        <p class="empty">
          {registrations.length === 0
            ? 'Nobody has registered a webhook yet, so nothing is sent.'
            : 'Nothing was sent yet. Change a record, and its event goes out.'}
        </p>
      ) : (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Event</th>
                <th>Record</th>
                {hasSeveral && <th>To</th>}
                <th>Outcome</th>
                <th>Attempts</th>
              </tr>
            </thead>
            <tbody>
              {deliveries.map((delivery) => (
                <Row
                  delivery={delivery}
                  to={hasSeveral ? (addresses.get(delivery.registrationId) ?? '') : null}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

function Row({ delivery, to }: { delivery: DeliveryView; to: string | null }) {
  const { type, created, eventId, recordId, outcome, faults, attempts } = delivery;
  const { text, tone } = OUTCOMES[outcome];
  return (
    <tr>
      <td class="tight">
        {type}
        <small>
          {created.slice(11, 23)} · {eventId}
        </small>
      </td>
      <td>
        <code>{recordId}</code>
      </td>
      {to !== null && (
        <td>
          <code>{to}</code>
        </td>
      )}
      <td>
        <span class={`state ${tone}`}>{text}</span>
        {faults.length > 0 && <small>{faults.join(', ')}</small>}
      </td>
      <td>
        <code title={attempts.map(timeText).join(', ')}>{attempts.map(attemptText).join(' · ') || '–'}</code>
      </td>
    </tr>
  );
}

function attemptText({ status, error }: Attempt): string {
  return String(status ?? error?.split(':')[0] ?? 'no answer');
}

function timeText({ at, durationMs }: Attempt): string {
  return `${at.slice(11, 23)}, ${durationMs} ms`;
}
