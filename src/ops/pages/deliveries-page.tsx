import { z } from 'zod';
import { EVENT_TYPES, isKnownType } from '../../compliance/kinds.ts';
import type { DeliveryReport, ListedOutcome } from '../../store/reports.ts';
import { queries } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import { answerTo } from '../delivery-answers.ts';
import { codeWords, figure } from '../words.ts';
import type { List } from './list-page.tsx';
import { About, Choice, ErrorCell, Field, From, Instant, Table } from './pieces.tsx';
import { eventHref } from './query.ts';

/** As a browser's field has it, without a zone, or as the API has it: both are UTC. */
const instant = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z?$/)
  .transform((given) => ({
    day: given.slice(0, 10),
    wall: Date.parse(given.endsWith('Z') ? given : `${given}Z`),
  }))
  // Date.parse takes 30 February for 2 March.
  .refine(({ day, wall }) => !Number.isNaN(wall) && new Date(wall).toISOString().startsWith(day))
  .transform(({ wall }) => new Date(wall).toISOString())
  .optional();

const filters = queries.deliveries
  .pick({ outcome: true, type: true, search: true })
  .extend({ since: instant, until: instant });

type Filter = z.output<typeof filters>;

const OUTCOMES: readonly (readonly [ListedOutcome | '', string])[] = [
  ['', 'any'],
  ['accepted', 'accepted'],
  ['duplicate', 'duplicate'],
  ['quarantined', 'quarantined'],
  ['rejected', 'rejected'],
];

export const deliveriesList = ({
  store,
  answerTimes,
}: Pick<OpsContext, 'store' | 'answerTimes'>): List<typeof filters, DeliveryReport> => ({
  name: 'Deliveries',
  note: 'All that came in, whatever became of it, the newest first.',
  noun: ['delivery', 'deliveries'],
  filters,
  cursor: queries.deliveries.shape.after.unwrap(),
  read: (filter, paging) => store.listDeliveries(filter, paging),
  isWatched: ({ until }) => until === undefined,
  form: (filter, rows) => (
    <form class="filters" method="get" action="/deliveries" aria-label="Search">
      <Field
        name="search"
        label="Event’s id, record’s id or text in the body"
        value={filter.search}
        shortcut="/"
      />
      <Choice name="outcome" label="Outcome" value={filter.outcome} options={OUTCOMES} />
      <Choice name="type" label="Type" value={filter.type} options={typesAmong(filter.type, rows)} />
      <Field name="since" label="Since (UTC)" value={inField(filter.since)} type="datetime-local" />
      <Field name="until" label="Until (UTC)" value={inField(filter.until)} type="datetime-local" />
      <button class="button" type="submit">
        Search
      </button>
    </form>
  ),
  empty: emptyWords,
  table: (rows) => (
    <Table
      label="Deliveries"
      dense
      rows={rows}
      columns={[
        [
          'Received',
          (delivery) => (
            <a href={hrefOf(delivery)}>
              <Instant at={delivery.received_at} precise />
            </a>
          ),
        ],
        ['Outcome', (delivery) => <Outcome {...delivery} />, 'wide'],
        [
          'Event',
          ({ event_id, type }) => (
            <>
              {event_id === null ? <span class="quiet">not named</span> : <code>{event_id}</code>}
              <br />
              {/* Only the specification's types are short enough never to break. */}
              <span class={isKnownType(type ?? '') ? 'quiet whole' : 'quiet'}>{type ?? 'no type'}</span>
            </>
          ),
          'wide',
        ],
        ['About', (delivery) => <About {...delivery} otherwise="no known record" />, 'wide'],
        ['From', ({ address }) => <From address={address} />, 'wide'],
        ['Signature', (delivery) => codeWords(answerTo(delivery).signature), 'wide'],
        ['Answer', (delivery) => answerTo(delivery).status, 'n'],
        ['Took', (delivery) => <Took ms={answerTimes.of(delivery)} />, 'n'],
        ['Times', (delivery) => figure(delivery.deliveries), 'n'],
        {
          head: 'Reason',
          td: ({ reason }) => (
            <ErrorCell
              label="Reason"
              error={reason !== null && CODE.test(reason) ? codeWords(reason) : reason}
            />
          ),
        },
      ]}
    />
  ),
});

function Outcome({ outcome, state }: DeliveryReport) {
  if (state === null) return <span class={`state ${outcome}`}>{outcome}</span>;
  return (
    <span class={`state ${state}`}>
      {outcome}, {state}
    </span>
  );
}

function Took({ ms }: { ms: number | null }) {
  return ms === null ? <span class="quiet">not known</span> : `${ms} ms`;
}

/** A code of ours. Other reasons are sentences with ids from outside, which must stay as they are. */
const CODE = /^[a-z_]+$/;

function hrefOf({ outcome, number, event_id }: DeliveryReport): string {
  if (outcome === 'quarantined') return `/quarantine/${number}`;
  return outcome === 'rejected' ? `/rejections/${number}` : eventHref(event_id ?? '');
}

/** The types of the specification, and other types on this page. */
function typesAmong(
  chosen: string | undefined,
  deliveries: readonly DeliveryReport[],
): readonly (readonly [string, string])[] {
  const others = [chosen, ...deliveries.map(({ type }) => type)].filter((type) => type != null);
  const types = [...new Set([...EVENT_TYPES, ...others])].sort();
  return [['', 'any'], ...types.map((type) => [type, type] as const)];
}

/** A browser's field takes no zone. */
const inField = (instant: string | undefined) => instant?.slice(0, 19);

function emptyWords(filter: Filter, lookedBackTo: string | null): string {
  if (lookedBackTo !== null) return 'No delivery like that among these.';
  if (filter.search !== undefined && (filter.outcome ?? 'rejected') === 'rejected')
    return 'No matching deliveries. One that was rejected for its headers alone had no body read that names an event: look by its time.';
  return Object.values(filter).some((value) => value !== undefined)
    ? 'No matching deliveries.'
    : 'No delivery yet. The first that comes in will stand here at once, accepted or not.';
}
