import { z } from 'zod';
import { EVENT_TYPES } from '../../compliance/kinds.ts';
import { listedOutcome } from '../../store/report-rows.ts';
import type { DeliveryReport } from '../../store/reports.ts';
import { queries } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import { answerTo } from '../delivery-answers.ts';
import { codeWords, figure } from '../words.ts';
import { anyOf, Filters } from './controls.tsx';
import type { List } from './list-page.tsx';
import { About, From, Instant, quiet, State, Table, Word } from './pieces.tsx';
import { eventHref } from './query.ts';

/** An instant as in the API. A browser's field has no zone, because its time is UTC, and no seconds if they are 0. */
const instant = z
  .string()
  .transform((given) => `${given.replace(/Z$/, '').padEnd(19, ':00')}Z`)
  .pipe(queries.deliveries.shape.since.unwrap())
  .optional();

const filters = queries.deliveries
  .pick({ outcome: true, type: true, search: true })
  .extend({ since: instant, until: instant });

type Filter = z.output<typeof filters>;

type Deliveries = List<typeof filters, DeliveryReport>;

export const deliveriesList = ({ store, answerTimes }: OpsContext): Deliveries => ({
  name: 'Deliveries',
  note: 'All deliveries with their outcome, newest first.',
  noun: ['delivery', 'deliveries'],
  filters,
  cursor: queries.deliveries.shape.after.unwrap(),
  read: (filter, paging) => store.listDeliveries(filter, paging),
  isWatched: ({ until }) => until === undefined,
  form: (filter, rows) => (
    <Filters
      action="/deliveries"
      label="Search"
      fields={[
        ['search', 'Event’s id, record’s id or text in the body', filter.search, SEARCH_BOX],
        ['outcome', 'Outcome', filter.outcome, anyOf(listedOutcome.options)],
        ['type', 'Type', filter.type, anyOf(typesAmong(filter.type, rows))],
        ['since', 'Since (UTC)', inField(filter.since), TIME_FIELD],
        ['until', 'Until (UTC)', inField(filter.until), TIME_FIELD],
      ]}
    />
  ),
  empty: emptyWords,
  table: (rows) => (
    <Table
      label="Deliveries"
      dense
      rows={rows}
      columns={[
        ['Received', Received],
        ['Outcome', Outcome, 'wide'],
        ['Event', Event, 'wide'],
        ['About', (delivery) => <About {...delivery} otherwise="no known record" />, 'wide'],
        ['From', From, 'wide'],
        ['Signature', (delivery) => codeWords(answerTo(delivery).signature), 'wide'],
        ['Answer', (delivery) => answerTo(delivery).status, 'n'],
        ['Took', (delivery) => tookWords(answerTimes.of(delivery)), 'n'],
        ['Times', (delivery) => figure(delivery.deliveries), 'n'],
        ['Reason', reasonWords, 'full error'],
      ]}
    />
  ),
});

const tookWords = (ms: number | null) => (ms === null ? quiet('not known') : `${ms} ms`);

function Received(delivery: DeliveryReport) {
  return (
    <a href={hrefOf(delivery)}>
      <Instant at={delivery.received_at} precise />
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

function Outcome({ outcome, state }: DeliveryReport) {
  return state === null ? <State state={outcome} /> : <State state={state} words={`${outcome}, ${state}`} />;
}

/** Our own codes as words. Other reasons are sentences with ids from outside, which must stay as they are. */
const reasonWords = ({ reason }: DeliveryReport) =>
  reason !== null && /^[a-z0-9_]+$/.test(reason) ? codeWords(reason) : reason;

function hrefOf({ outcome, number, event_id }: DeliveryReport): string {
  if (outcome === 'quarantined') return `/quarantine/${number}`;
  return outcome === 'rejected' ? `/rejections/${number}` : eventHref(event_id ?? '');
}

/** The types of the specification, and other types on this page. */
function typesAmong(chosen: string | undefined, deliveries: readonly DeliveryReport[]): readonly string[] {
  const others = [chosen, ...deliveries.map(({ type }) => type)].filter((type) => type != null);
  return [...new Set([...EVENT_TYPES, ...others])].sort();
}

const SEARCH_BOX = { type: 'search', 'aria-keyshortcuts': '/' } as const;
const TIME_FIELD = { type: 'datetime-local', step: 1 } as const;
/** A browser's field takes no zone. */
const inField = (instant: string | undefined) => instant?.slice(0, 19);

function emptyWords(filter: Filter, lookedBackTo: string | null): string {
  if (lookedBackTo !== null) return 'No matching delivery among these.';
  if (filter.search !== undefined && (filter.outcome ?? 'rejected') === 'rejected')
    return 'No matching deliveries. If a delivery was rejected for its headers alone, its body was not read: search by its time.';
  return Object.values(filter).some((value) => value !== undefined)
    ? 'No matching deliveries.'
    : 'No delivery yet. The first one is shown here at once, accepted or not.';
}
