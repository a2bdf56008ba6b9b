import { CONFLICTING, type ShownDelivery } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { found } from '../api/answers.ts';
import { idFromPath } from '../api/ids.ts';
import type { Diagnosis as Explained } from '../api/schemas.ts';
import type { OpsContext } from '../context.ts';
import { codeWords, count, figure } from '../words.ts';
import { ActionForm, Button } from './controls.tsx';
import { OutcomeState, reasonWords } from './deliveries.tsx';
import type { Content } from './layout.tsx';
import { About, EventLink, type Fact, Facts, From, Instant, Text } from './pieces.tsx';
import { deliveryHref } from './query.ts';
import { Change, Verified } from './record-page.tsx';

/** The page of a delivery of any outcome. */
export async function deliveryPage(context: OpsContext, c: OpsHandlerContext): Promise<Content> {
  const { store, diagnose } = context;
  const missing = 'There is no such delivery, or it is not kept any more.';
  const delivery = found(await store.show('deliveries', idFromPath(c.req.param('id') ?? '')), missing);
  const { id, outcome, body } = delivery;
  return {
    title: `Delivery ${id}`,
    heading: (
      <>
        Delivery <code>{id}</code>
      </>
    ),
    current: 'Deliveries',
    body: (
      <>
        <Facts facts={factsOf(delivery)} />
        <Verbs {...delivery} />
        {outcome === 'rejected' ? <Diagnosis diagnosis={await diagnose(delivery)} /> : null}
        {outcome === 'accepted' ? await whatItChanged(store, delivery) : null}
        <h2>Body</h2>
        {body ? (
          <Text text={body} label="Body" />
        ) : (
          <p class="note">{body === '' ? 'It is empty.' : outcome === 'rejected' ? NOT_KEPT : TRIMMED}</p>
        )}
      </>
    ),
  };
}

const TRIMMED = 'Trimmed: it is older than RETENTION_BODY_DAYS.';
const NOT_KEPT = 'Not kept: it was too large, or the delivery was rejected for its headers alone.';

function factsOf(delivery: ShownDelivery): Facts {
  const { outcome, state, deliveries, attempts, reason, t } = delivery;
  const isEvent = outcome === 'accepted';
  return [
    ['Outcome', <OutcomeState {...delivery} />],
    state === 'ignored' && ['Why', whyIgnored(delivery)],
    reason !== null &&
      state !== 'processed' && [isEvent ? 'Error' : 'Why', <span class="warn">{reasonWords(delivery)}</span>],
    delivery.type !== null && ['Type', delivery.type],
    reason === CONFLICTING && ['The event of the same id', <EventLink id={delivery.event_id ?? ''} />],
    ['About', <About {...delivery} otherwise="no known record" />],
    ['From', <From {...delivery} />],
    delivery.created !== null && ['Created by the sender', <Instant at={delivery.created} precise />],
    ['Received', <Instant at={delivery.received_at} precise />],
    outcome === 'rejected' &&
      deliveries > 1 && ['Count', `${figure(deliveries)}: it stands for others of the same minute`],
    isEvent &&
      deliveries > 1 && [
        'Delivered again',
        <>
          <Instant at={delivery.last_delivered_at} precise />, {figure(deliveries)} times in all
        </>,
      ],
    delivery.processed_at !== null && ['Settled', <Instant at={delivery.processed_at} precise />],
    delivery.next_attempt_at !== null && [
      'Tried again',
      <>
        <Instant at={delivery.next_attempt_at} precise />, after {count(attempts ?? 0, 'attempt')}
      </>,
    ],
    delivery.dismissed_at !== null && ['Dismissed', <Instant at={delivery.dismissed_at} precise />],
    delivery.bytes !== null && ['Size', `${figure(delivery.bytes)} bytes`],
    t !== null && ['Signed at', <code>t={t}</code>],
    outcome === 'rejected' && ['Signature header', delivery.header ? <code>{delivery.header}</code> : 'none'],
  ];
}

function whyIgnored({ record_id }: ShownDelivery): string {
  const type = 'the specification has no such type, so the event itself has no effect';
  return record_id === null
    ? `${type}. A webhook that is registered for exact types gets none of these.`
    : `${type}: the API was asked for its record.`;
}

function Verbs({ id, outcome, state, dismissed_at }: ShownDelivery) {
  const isWaiting = outcome === 'quarantined' && dismissed_at === null;
  if (state !== 'failed' && !isWaiting) return null;
  return (
    <ActionForm className="actions">
      <Button id="retry" formaction={`/api${deliveryHref(id)}/retry`}>
        Retry
      </Button>
      <Button id="dismiss" formaction={`/api${deliveryHref(id)}/dismiss`}>
        Dismiss
      </Button>
      {isWaiting ? (
        <span class="note">
          Retry: it is read again with the present settings. Dismiss: the API is asked for the record that it
          was about, if that is known, and nothing of its content gets into the tables.
        </span>
      ) : null}
    </ActionForm>
  );
}

/** How many changes of the record are read, from the event on. Its own is one of the first, unless very many waited. */
const CHANGES_LOOKED_AT = 200;

async function whatItChanged(store: OpsContext['store'], delivery: ShownDelivery) {
  const { id, kind, record_id, state, number } = delivery;
  const isKnown = kind !== null && record_id !== null;
  const from = { limit: CHANGES_LOOKED_AT, after: number, oldestFirst: true } as const;
  const [record, later] = await Promise.all([
    isKnown ? store.show('records', { kind, id: record_id }) : null,
    isKnown ? store.list('changes', { kind, record_id, ...from }) : null,
  ]);
  const change = later?.items.find(({ cause, cause_id }) => cause === 'event' && cause_id === id);
  return (
    <>
      <h2>What it changed</h2>
      {change === undefined ? (
        <p class="note">{WHY_NO_CHANGE[state ?? 'pending']}</p>
      ) : (
        <Change change={change} />
      )}
      {record === null ? null : (
        <p class="note">
          Its record is confirmed by the API: <Verified {...record} />
        </p>
      )}
    </>
  );
}

const WHY_NO_CHANGE: Readonly<Record<NonNullable<ShownDelivery['state']>, string>> = {
  processed:
    'Nothing: it said nothing about the record, or nothing newer than the row. Or the change is older than RETENTION_HISTORY_DAYS.',
  ignored: 'Nothing by itself. What the API has shown since then is in the record’s history.',
  pending: 'Nothing yet: it waits to be processed.',
  failed: 'Nothing: it could not be processed.',
  dismissed: 'Nothing: it was dismissed.',
};

function Diagnosis({ diagnosis: { causes, fit } }: { diagnosis: Explained }) {
  const fits = Object.entries(fit ?? {});
  return (
    <>
      <h2>What doctor says</h2>
      {causes.length > 0 ? null : (
        <p class="note">With the present settings it would be accepted: what was wrong has been corrected.</p>
      )}
      <ul class="causes">
        {causes.map(({ code, what, remedy }) => (
          <li>
            <p>
              {what} <code>{code}</code>
            </p>
            <p class="lead">{remedy}</p>
          </li>
        ))}
      </ul>
      {fits.length === 0 ? null : (
        <>
          <h2>What its signature fits</h2>
          <Facts facts={fits.map(([name, value]): Fact => [codeWords(name), <code>{value}</code>])} />
        </>
      )}
    </>
  );
}
