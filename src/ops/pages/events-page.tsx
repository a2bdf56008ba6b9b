import type { z } from 'zod';
import { EVENT_TYPES, KINDS } from '../../compliance/kinds.ts';
import type { EventReport, EventState } from '../../store/reports.ts';
import { queries } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import { figure, kindNoun } from '../words.ts';
import { type List, numbered } from './list-page.tsx';
import {
  About,
  ActionForm,
  Choice,
  ErrorCell,
  EventLink,
  Field,
  Instant,
  mayOperate,
  State,
  Table,
} from './pieces.tsx';

const filters = queries.events.pick({ state: true, type: true, kind: true, record_id: true });

const STATES: readonly (readonly [EventState | '', string])[] = [
  ['', 'any'],
  ['pending', 'pending'],
  ['processed', 'processed'],
  ['ignored', 'ignored'],
  ['failed', 'failed'],
  ['discarded', 'discarded'],
];

export const eventsList = ({ store }: Pick<OpsContext, 'store'>): List<typeof filters, EventReport> => ({
  name: 'Events',
  note: 'Every delivery that was verified and committed, the newest first.',
  noun: ['event', 'events'],
  filters: filters,
  async read({ record_id: recordId, ...filter }, paging) {
    const { items, ...rest } = await store.listEvents({ ...filter, recordId }, paging);
    return { ...numbered(items, paging, ({ seq }) => seq), ...rest };
  },
  form: (filter) => (
    <form class="filters" method="get" action="/events" aria-label="Filter">
      <Choice name="state" label="State" value={filter.state} options={STATES} />
      <Field name="type" label="Type" value={filter.type} list="types" />
      <Choice
        name="kind"
        label="Kind"
        value={filter.kind}
        options={[['', 'any'], ...KINDS.map((kind) => [kind, kindNoun(kind, 1)] as const)]}
      />
      <Field name="record_id" label="Record’s id" value={filter.record_id} />
      <Field name="id" label="Event’s id" value={undefined} />
      <button class="button" type="submit">
        Show
      </button>
      <datalist id="types">
        {EVENT_TYPES.map((type) => (
          <option value={type} />
        ))}
      </datalist>
    </form>
  ),
  empty: (filter, lookedBackTo) =>
    lookedBackTo === null ? emptyWords(filter) : 'No event like that among these.',
  table: (events, _, here) => <Events {...{ events, here }} />,
});

/** With boxes to tick, if the reader may change at least one of them. */
function Events({ events, here }: { events: readonly EventReport[]; here: string }) {
  if (!mayOperate() || !events.some(isChangeable)) return <EventTable events={events} ticks={false} />;
  return (
    <ActionForm action="/actions/events">
      <input type="hidden" name="back" value={here} />
      <EventTable events={events} ticks />
      <div class="actions bulk">
        <button class="button" type="submit" name="do" value="retry">
          Retry the ticked
        </button>
        <button class="button" type="submit" name="do" value="discard">
          Discard the ticked
        </button>
        <span class="note">Failed ones can be tried again; failed and pending ones discarded.</span>
      </div>
    </ActionForm>
  );
}

function EventTable({ events, ticks }: { events: readonly EventReport[]; ticks: boolean }) {
  return (
    <Table
      label="Events"
      dense
      rows={events}
      columns={[
        [
          ticks ? <span data-tick-all>Event</span> : 'Event',
          (event) => (
            <>
              {ticks && isChangeable(event) ? (
                <input type="checkbox" name="id" value={event.id} aria-label={`Tick ${event.id}`} />
              ) : null}{' '}
              <EventLink id={event.id} />
            </>
          ),
        ],
        ['Type', (event) => event.type, 'wide'],
        [
          'About',
          (event) => (
            <About {...event} otherwise={event.kind === null ? 'no known kind' : kindNoun(event.kind, 1)} />
          ),
          'wide',
        ],
        ['State', (event) => <State state={event.state} />, 'wide'],
        [
          'Received',
          (event) => (
            <>
              <Instant at={event.received_at} precise />
              {event.deliveries > 1 ? <span class="quiet"> ×{figure(event.deliveries)}</span> : null}
            </>
          ),
          'wide',
        ],
        ['Attempts', (event) => figure(event.attempts), 'n'],
        { head: 'Error', td: ({ error }) => <ErrorCell label="Error" error={error} /> },
      ]}
    />
  );
}

function isChangeable({ state }: EventReport): boolean {
  return state === 'failed' || state === 'pending';
}

function emptyWords(filter: z.output<typeof filters>): string {
  if (filter.state === 'failed')
    return 'No failed events. One that cannot be processed would stand here, to be tried again or discarded.';
  if (filter.state === 'pending') return 'No pending events: all are processed.';
  const filtered = Object.values(filter).some((value) => value !== undefined);
  return filtered
    ? 'No event is like that. Take a filter away to see more.'
    : 'No event yet. The first delivery that is verified will stand here at once.';
}
