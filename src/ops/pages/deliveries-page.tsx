import { EVENT_TYPES } from '../../compliance/kinds.ts';
import type { DeliveryReport, ListedOutcome } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import { figure } from '../words.ts';
import { State } from './events-page.tsx';
import { eventHref } from './hrefs.ts';
import { Frame } from './layout.tsx';
import { Choice, Empty, Field, Instant, Pager, RecordLink, Table, Title } from './pieces.tsx';

export interface DeliveriesView {
  identity: Identity;
  now: number;
  filter: {
    outcome?: ListedOutcome | undefined;
    type?: string | undefined;
    search?: string | undefined;
  };
  deliveries: readonly DeliveryReport[];
  /** The page ended there, before its rows were full: ISO 8601. Null: it did not. */
  lookedBackTo: string | null;
  next: string | null;
  first: string | null;
}

const OUTCOMES: readonly (readonly [ListedOutcome | '', string])[] = [
  ['', 'any'],
  ['accepted', 'accepted'],
  ['quarantined', 'quarantined'],
  ['rejected', 'rejected'],
];

/** All that came in, found by what a sender would name. */
export function DeliveriesPage({ identity, now, filter, deliveries, ...view }: DeliveriesView) {
  return (
    <Frame title="Deliveries" current="Deliveries" identity={identity} now={now} wide>
      <Title note="All that came in, whatever became of it, the newest first.">Deliveries</Title>
      <form class="filters" method="get" action="/deliveries" aria-label="Search">
        <Field name="search" label="Event’s id, record’s id or text in the body" value={filter.search} />
        <Choice name="outcome" label="Outcome" value={filter.outcome} options={OUTCOMES} />
        <Field name="type" label="Type" value={filter.type} list="types" />
        <button class="button" type="submit">
          Search
        </button>
        <datalist id="types">
          {EVENT_TYPES.map((type) => (
            <option value={type} />
          ))}
        </datalist>
      </form>
      {deliveries.length === 0 ? (
        <Empty>{emptyWords(filter, view.lookedBackTo)}</Empty>
      ) : (
        <Table
          label="Deliveries"
          head={['Received', 'Outcome', 'Event', 'Type', 'About', 'Times', 'Reason']}
          figures={['Times']}
        >
          {deliveries.map((delivery) => (
            <Row delivery={delivery} now={now} />
          ))}
        </Table>
      )}
      {view.lookedBackTo === null ? null : (
        <p class="note" role="status">
          This page looked back to <Instant at={view.lookedBackTo} now={now} />. There are older deliveries.
        </p>
      )}
      <Pager
        next={view.next}
        first={view.first}
        words={view.lookedBackTo === null ? 'Older deliveries' : 'Look further back'}
      />
    </Frame>
  );
}

function Row({ delivery, now }: { delivery: DeliveryReport; now: number }) {
  const { received_at, outcome, state, event_id, type, kind, record_id, deliveries, reason } = delivery;
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf(delivery)}>
          <Instant at={received_at} now={now} />
        </a>
      </th>
      <td data-label="Outcome">
        {state === null ? <span class="state failed">{outcome}</span> : <State state={state} />}
      </td>
      <td class="wide" data-label="Event">
        {event_id === null ? <span class="quiet">not named</span> : <code>{event_id}</code>}
      </td>
      <td class="wide" data-label="Type">
        {type ?? <span class="quiet">not named</span>}
      </td>
      <td class="wide" data-label="About">
        {kind !== null && record_id !== null ? (
          <RecordLink kind={kind} id={record_id} />
        ) : (
          <span class="quiet">no known record</span>
        )}
      </td>
      <td class="n" data-label="Times">
        {figure(deliveries)}
      </td>
      <td
        class={reason === null ? 'gone' : 'full error'}
        {...(reason === null ? {} : { 'data-label': 'Reason' })}
      >
        {reason}
      </td>
    </tr>
  );
}

function hrefOf({ outcome, number, event_id }: DeliveryReport): string {
  if (outcome === 'quarantined') return `/quarantine/${number}`;
  return outcome === 'rejected' ? `/rejections/${number}` : eventHref(event_id ?? '');
}

function emptyWords(filter: DeliveriesView['filter'], lookedBackTo: string | null): string {
  if (lookedBackTo !== null) return 'No delivery like that among these.';
  return Object.values(filter).some((value) => value !== undefined)
    ? 'No matching deliveries.'
    : 'No delivery yet. The first that comes in will stand here at once, accepted or not.';
}
