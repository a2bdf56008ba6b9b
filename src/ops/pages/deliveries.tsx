import type { Child } from 'hono/jsx';
import { z } from 'zod';
import { EVENT_TYPES } from '../../compliance/kinds.ts';
import type { DeliveryReport } from '../../store/reports.ts';
import { queries } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import { answerTo } from '../delivery-answers.ts';
import { codeWords, figure } from '../words.ts';
import { anyOf, Filters } from './controls.tsx';
import type { List } from './list-page.tsx';
import { About, From, Instant, quiet, State, Tabs, Word } from './pieces.tsx';
import { deliveryHref, pathWith } from './query.ts';

/** An instant as in the API. A browser's field has no zone, because its time is UTC, and no seconds if they are 0. */
const instant = z
  .string()
  .transform((given) => `${given.replace(/Z$/, '').padEnd(19, ':00')}Z`)
  .pipe(queries.deliveries.shape.since.unwrap())
  .optional();

const filters = queries.deliveries
  .pick({ outcome: true, state: true, type: true, kind: true, record_id: true, search: true })
  .extend({ since: instant, until: instant });

type Filter = z.output<typeof filters>;

export const deliveriesList = ({ store }: OpsContext): List<typeof filters, DeliveryReport> => ({
  name: 'Deliveries',
  note: 'Whatever was sent to the receiver, accepted or not, the newest first.',
  noun: ['delivery', 'deliveries'],
  filters,
  cursor: queries.deliveries.shape.after.unwrap(),
  live: 'count',
  async read({ record_id: recordId, ...filter }, paging) {
    const { looked_back_to: at, ...page } = await store.listDeliveries({ ...filter, recordId }, paging);
    return { ...page, reached: at === null ? null : <Instant at={at} /> };
  },
  head: (filter) => (
    <>
      <Chips {...filter} />
      <SearchForm {...filter} />
    </>
  ),
  dense: true,
  columns: [
    ['Received', Received],
    ['Outcome', OutcomeState, 'wide'],
    ['Event', Event, 'wide'],
    ['About', (delivery) => <About {...delivery} otherwise="no known record" />, 'wide'],
    ['From', From, 'wide'],
    ['Answer', (delivery) => answerTo(delivery).status, 'n'],
    ['Times', (delivery) => figure(delivery.deliveries), 'n'],
    ['Reason', reasonWords, 'full error'],
  ],
  empty(isFiltered, { search, outcome, state }) {
    if (!isFiltered) return 'No delivery yet. The first one is shown here at once, accepted or not.';
    if (search !== undefined && state === undefined && (outcome ?? 'rejected') === 'rejected')
      return 'No matching deliveries. If a delivery was rejected for its headers alone, its body was not read: search by its time.';
    return 'No matching deliveries.';
  },
});

const CHIPS: readonly (readonly [words: string, chosen: Pick<Filter, 'outcome' | 'state'>])[] = [
  ['all', {}],
  ['failed', { state: 'failed' }],
  ['quarantined', { outcome: 'quarantined' }],
  ['rejected', { outcome: 'rejected' }],
];

/** Each is a filter alone. Others are in addresses that pages and people make. */
function Chips({ outcome, state, ...rest }: Filter) {
  return (
    <Tabs
      label="Which deliveries"
      tabs={CHIPS.map(([words, chosen]) => ({
        href: pathWith('/deliveries', { ...rest, ...chosen }),
        words,
        isShown: chosen.outcome === outcome && chosen.state === state,
      }))}
    />
  );
}

/** Its hidden fields are the filters that it does not show. */
function SearchForm({ search, type, since, until, ...hidden }: Filter) {
  const isKnown = type === undefined || EVENT_TYPES.some((each) => each === type);
  const types = isKnown ? EVENT_TYPES : [...EVENT_TYPES, type];
  return (
    <Filters
      action="/deliveries"
      label="Search"
      hidden={hidden}
      fields={[
        ['search', 'Event’s id, record’s id or text in the body', search, SEARCH_BOX],
        ['type', 'Type', type, anyOf(types)],
        ['since', 'Since (UTC)', since?.slice(0, 19), TIME_FIELD],
        ['until', 'Until (UTC)', until?.slice(0, 19), TIME_FIELD],
      ]}
    />
  );
}

const SEARCH_BOX = { type: 'search', 'aria-keyshortcuts': '/' } as const;
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
