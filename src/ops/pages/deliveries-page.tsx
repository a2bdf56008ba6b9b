import { EVENT_TYPES } from '../../compliance/kinds.ts';
import type { DeliveryReport, ListedOutcome } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import type { AnswerTimes } from '../answer-times.ts';
import { answerTo } from '../delivery-answers.ts';
import { codeWords, figure } from '../words.ts';
import { eventHref } from './hrefs.ts';
import { Frame } from './layout.tsx';
import {
  Address,
  Choice,
  Empty,
  Field,
  Instant,
  NewRows,
  Pager,
  RecordLink,
  Table,
  Title,
} from './pieces.tsx';

export interface DeliveriesView {
  identity: Identity;
  now: number;
  filter: {
    outcome?: ListedOutcome | undefined;
    type?: string | undefined;
    search?: string | undefined;
    since?: string | undefined;
    until?: string | undefined;
  };
  deliveries: readonly DeliveryReport[];
  answerTimes: Pick<AnswerTimes, 'of'>;
  /** The page ended there, before its rows were full: ISO 8601. Null: it did not. */
  lookedBackTo: string | null;
  next: string | null;
  first: string | null;
  /** Where the page is told of what comes in; null: it is not the newest page. */
  stream: string | null;
}

const OUTCOMES: readonly (readonly [ListedOutcome | '', string])[] = [
  ['', 'any'],
  ['accepted', 'accepted'],
  ['duplicate', 'duplicate'],
  ['quarantined', 'quarantined'],
  ['rejected', 'rejected'],
];

/** All that came in, found by what a sender would name. */
export function DeliveriesPage({ identity, now, filter, deliveries, stream, ...view }: DeliveriesView) {
  return (
    <Frame title="Deliveries" current="Deliveries" identity={identity} now={now} stream={stream}>
      <Title note="All that came in, whatever became of it, the newest first.">Deliveries</Title>
      <form class="filters" method="get" action="/deliveries" aria-label="Search">
        <Field
          name="search"
          label="Event’s id, record’s id or text in the body"
          value={filter.search}
          shortcut="/"
        />
        <Choice name="outcome" label="Outcome" value={filter.outcome} options={OUTCOMES} />
        <Choice name="type" label="Type" value={filter.type} options={typesAmong(filter.type, deliveries)} />
        <Field name="since" label="Since (UTC)" value={inField(filter.since)} type="datetime-local" />
        <Field name="until" label="Until (UTC)" value={inField(filter.until)} type="datetime-local" />
        <button class="button" type="submit">
          Search
        </button>
      </form>
      <NewRows words={null} href="/deliveries" />
      {deliveries.length === 0 ? (
        <Empty>{emptyWords(filter, view.lookedBackTo)}</Empty>
      ) : (
        <Table
          label="Deliveries"
          dense
          head={[
            'Received',
            'Outcome',
            'Event',
            'About',
            'From',
            'Signature',
            'Answer',
            'Took',
            'Times',
            'Reason',
          ]}
          figures={['Answer', 'Took', 'Times']}
        >
          {deliveries.map((delivery) => (
            <Row delivery={delivery} tookMs={view.answerTimes.of(delivery)} now={now} />
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

function Row({ delivery, tookMs, now }: { delivery: DeliveryReport; tookMs: number | null; now: number }) {
  const { received_at, outcome, state, event_id, type, kind, record_id, address, deliveries, reason } =
    delivery;
  const { status, signature } = answerTo(delivery);
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf(delivery)}>
          <Instant at={received_at} now={now} precise />
        </a>
      </th>
      <td class="wide" data-label="Outcome">
        {state === null ? (
          <span class={`state ${outcome}`}>{outcome}</span>
        ) : (
          <span class={`state ${state}`}>
            {outcome}, {state}
          </span>
        )}
      </td>
      <td class="wide" data-label="Event">
        {event_id === null ? <span class="quiet">not named</span> : <code>{event_id}</code>}
        <br />
        <span class="quiet">{type ?? 'no type'}</span>
      </td>
      <td class="wide" data-label="About">
        {kind !== null && record_id !== null ? (
          <RecordLink kind={kind} id={record_id} />
        ) : (
          <span class="quiet">no known record</span>
        )}
      </td>
      <td class="wide" data-label="From">
        {address === null ? <span class="quiet">not known</span> : <Address address={address} />}
      </td>
      <td class="wide" data-label="Signature">
        {codeWords(signature)}
      </td>
      <td class="n" data-label="Answer">
        {status}
      </td>
      <td class="n" data-label="Took">
        {tookMs === null ? <span class="quiet">not known</span> : `${tookMs} ms`}
      </td>
      <td class="n" data-label="Times">
        {figure(deliveries)}
      </td>
      <td
        class={reason === null ? 'gone' : 'full error'}
        {...(reason === null ? {} : { 'data-label': 'Reason' })}
      >
        {reason !== null && CODE.test(reason) ? codeWords(reason) : reason}
      </td>
    </tr>
  );
}

/** A reason of our own; others are sentences, which may hold anybody's id. */
const CODE = /^[a-z_]+$/;

function hrefOf({ outcome, number, event_id }: DeliveryReport): string {
  if (outcome === 'quarantined') return `/quarantine/${number}`;
  return outcome === 'rejected' ? `/rejections/${number}` : eventHref(event_id ?? '');
}

/** Those that the service names, and what others stand on this page. */
function typesAmong(
  chosen: string | undefined,
  deliveries: readonly DeliveryReport[],
): readonly (readonly [string, string])[] {
  const others = [chosen, ...deliveries.map(({ type }) => type)].filter((type) => type != null);
  const types = [...new Set([...EVENT_TYPES, ...others])].sort();
  return [['', 'any'], ...types.map((type) => [type, type] as const)];
}

/** As the field of a browser has it: without a zone. */
const inField = (instant: string | undefined) => instant?.slice(0, 19);

function emptyWords(filter: DeliveriesView['filter'], lookedBackTo: string | null): string {
  if (lookedBackTo !== null) return 'No delivery like that among these.';
  if (filter.search !== undefined && (filter.outcome ?? 'rejected') === 'rejected')
    return 'No matching deliveries. One that was rejected for its headers alone had no body read that names an event: look by its time.';
  return Object.values(filter).some((value) => value !== undefined)
    ? 'No matching deliveries.'
    : 'No delivery yet. The first that comes in will stand here at once, accepted or not.';
}
