import type { Child } from 'hono/jsx';
import { z } from 'zod';
import { EVENT_TYPES, KINDS } from '../../compliance/kinds.ts';
import { eventState, listedOutcome } from '../../store/report-rows.ts';
import type { DeliveryReport } from '../../store/reports.ts';
import { queries } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import { codeWords, figure } from '../words.ts';
import { anyOf, Filters } from './controls.tsx';
import type { List } from './list-page.tsx';
import { About, From, Instant, quiet, State, Word } from './pieces.tsx';
import { deliveryHref } from './query.ts';

/** An instant as in the API. A browser's field has no zone, because its time is UTC, and no seconds if they are 0. */
const instant = z
  .string()
  .transform((given) => `${given.replace(/Z$/, '').padEnd(19, ':00')}Z`)
  .pipe(queries.deliveries.shape.since.unwrap())
  .optional();

const filters = queries.deliveries
  .omit({ limit: true, after: true })
  .extend({ since: instant, until: instant });

type Filter = z.output<typeof filters>;

export const deliveriesList = ({ store }: OpsContext): List<typeof filters, DeliveryReport> => ({
  name: 'Deliveries',
  note: 'Whatever was sent to the receiver, accepted or not, the newest first.',
  noun: ['delivery', 'deliveries'],
  filters,
  cursor: queries.deliveries.shape.after.unwrap(),
  async read(filter, paging) {
    const { looked_back_to: at, ...page } = await store.list('deliveries', { ...filter, ...paging });
    return { ...page, reached: at === null ? null : <Instant at={at} /> };
  },
  head: (filter) => <SearchForm {...filter} />,
  dense: true,
  columns: [
    ['Received', Received],
    ['Outcome', OutcomeState, 'wide'],
    ['Event', Event, 'wide'],
    ['About', (delivery) => <About {...delivery} otherwise="no known record" />, 'wide'],
    ['From', From, 'wide'],
    ['Times', (delivery) => figure(delivery.deliveries), 'n'],
    ['Reason', reasonWords, 'full error'],
  ],
  empty(isFiltered, { search, outcome, state }) {
    if (!isFiltered) return 'No delivery yet. Each is listed here, accepted or not.';
    if (search !== undefined && state === undefined && (outcome ?? 'rejected') === 'rejected')
      return 'No matching deliveries. If a delivery was rejected for its headers alone, its body was not read: search by its time.';
    return 'No matching deliveries.';
  },
});

function SearchForm({ search, outcome, state, type, kind, record_id, since, until }: Filter) {
  const types = new Set([...EVENT_TYPES, ...(type === undefined ? [] : [type])]);
  return (
    <Filters
      action="/deliveries"
      label="Search"
      fields={[
        ['search', 'Event’s id, record’s id or text in the body', search, { type: 'search' }],
        ['outcome', 'Outcome', outcome, anyOf(listedOutcome.options)],
        ['state', 'State of its event', state, anyOf(eventState.options)],
        ['type', 'Type', type, anyOf([...types])],
        ['kind', 'Kind', kind, anyOf(KINDS, codeWords)],
        ['record_id', 'Record', record_id],
        ['since', 'Since (UTC)', since?.slice(0, 19), TIME_FIELD],
        ['until', 'Until (UTC)', until?.slice(0, 19), TIME_FIELD],
      ]}
    />
  );
}

const TIME_FIELD = { type: 'datetime-local', step: 1 } as const;

function Received({ id, received_at }: DeliveryReport) {
  return (
    <a href={deliveryHref(id)}>
      <Instant at={received_at} precise />
    </a>
  );
}

function Event({ event_id, type }: DeliveryReport) {
  return (
    <>
      {event_id === null ? quiet('not named') : <code>{event_id}</code>}
      <br />
      {quiet(<Word text={type ?? 'no type'} />)}
    </>
  );
}

export function OutcomeState({ outcome, state }: DeliveryReport) {
  return state === null ? <State state={outcome} /> : <State state={state} words={`${outcome}, ${state}`} />;
}

/** Our own codes as words. Other reasons are sentences with ids from outside, which must stay as they are. */
export function reasonWords({ reason }: DeliveryReport): Child {
  return reason !== null && /^[a-z0-9_]+$/.test(reason) ? codeWords(reason) : reason;
}
