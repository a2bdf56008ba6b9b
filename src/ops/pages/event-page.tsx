import type { EventReport } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import { count, figure } from '../words.ts';
import { State } from './events-page.tsx';
import { Frame } from './layout.tsx';
import { ActionForm, Facts, Instant, RecordLink, Text, Title, Told } from './pieces.tsx';

export function EventPage({
  event,
  identity,
  now,
  told,
  here,
}: {
  event: EventReport;
  identity: Identity;
  now: number;
  told: string | null;
  here: string;
}) {
  return (
    <Frame title={`Event ${event.id}`} current="Events" identity={identity} now={now}>
      <Title>
        Event <code>{event.id}</code>
      </Title>
      <Told text={told} />
      <Facts
        facts={[
          ['State', <State state={event.state} />],
          ['Type', event.type],
          [
            'About',
            event.kind !== null && event.record_id !== null ? (
              <RecordLink kind={event.kind} id={event.record_id} />
            ) : (
              'no record that could be told'
            ),
          ],
          ['Created by the sender', <Instant at={event.created} now={now} />],
          ['Received', <Instant at={event.received_at} now={now} />],
          [
            'Delivered',
            event.deliveries === 1 ? (
              'once'
            ) : (
              <>
                {figure(event.deliveries)} times, last <Instant at={event.last_delivered_at} now={now} />
              </>
            ),
          ],
          ['Attempts', event.attempts === 0 ? 'none yet' : count(event.attempts, 'attempt')],
          event.next_attempt_at === null
            ? null
            : ['Tried again', <Instant at={event.next_attempt_at} now={now} />],
          event.processed_at === null ? null : ['Settled', <Instant at={event.processed_at} now={now} />],
          event.error === null ? null : ['Error', <span class="warn">{event.error}</span>],
        ]}
      />
      {identity.role === 'operate' && (event.state === 'failed' || event.state === 'pending') ? (
        <ActionForm action="/actions/events" csrf={identity.csrf} className="actions">
          <input type="hidden" name="id" value={event.id} />
          <input type="hidden" name="back" value={here} />
          {event.state === 'failed' ? (
            <button class="button" type="submit" name="do" value="retry" id="retry">
              Retry
            </button>
          ) : null}
          <button class="button" type="submit" name="do" value="discard" id="discard">
            Discard
          </button>
        </ActionForm>
      ) : null}
      <h2>Body</h2>
      {event.body === null ? (
        <p class="note">Trimmed: it is older than RETENTION_BODY_DAYS.</p>
      ) : (
        <>
          <Text text={event.body} label="Body" />
          <details>
            <summary>As it was signed, to the byte</summary>
            <Text text={event.body} label="Body as signed" raw />
          </details>
        </>
      )}
    </Frame>
  );
}
