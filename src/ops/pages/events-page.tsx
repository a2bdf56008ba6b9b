import type { z } from 'zod';
import { EVENT_TYPES, KINDS } from '../../compliance/kinds.ts';
import { eventState } from '../../store/report-rows.ts';
import type { EventReport } from '../../store/reports.ts';
import { queries } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import { figure, kindNoun } from '../words.ts';
import { ActionForm, anyOf, Button, Filters, mayOperate } from './controls.tsx';
import { type List, numbered } from './list-page.tsx';
import { About, EventLink, Instant, State, Table, Word } from './pieces.tsx';

const filters = queries.events.pick({ state: true, type: true, kind: true, record_id: true });

export const eventsList = ({ store }: OpsContext): List<typeof filters, EventReport> => ({
  name: 'Events',
  note: 'Every accepted event, the newest first.',
  noun: ['event', 'events'],
  filters,
  async read({ record_id: recordId, ...filter }, paging) {
    const { items, ...rest } = await store.listEvents({ ...filter, recordId }, paging);
    return { ...numbered(items, paging, ({ seq }) => seq), ...rest };
  },
  form: (filter) => (
    <Filters
      action="/events"
      label="Filter"
      fields={[
        ['state', 'State', filter.state, anyOf(eventState.options)],
        ['type', 'Type', filter.type, { list: 'types' }],
        ['kind', 'Kind', filter.kind, anyOf(KINDS, (kind) => kindNoun(kind, 1))],
        ['record_id', 'Record’s id', filter.record_id],
        ['id', 'Event’s id', undefined],
      ]}
    >
      <datalist id="types">
        {EVENT_TYPES.map((type) => (
          <option value={type} />
        ))}
      </datalist>
    </Filters>
  ),
  empty: (filter, lookedBackTo) =>
    lookedBackTo === null ? emptyWords(filter) : 'No matching event among these.',
  table: (events, _, here) => <Events events={events} here={here} />,
});

/** The events have boxes to tick if the reader may change one of them. */
function Events({ events, here }: { events: readonly EventReport[]; here: string }) {
  const ticks = mayOperate() && events.some(isChangeable);
  const table = (
    <Table
      label="Events"
      dense
      rows={events}
      columns={[
        [ticks ? <span data-tick-all>Event</span> : 'Event', (event) => <Name event={event} ticks={ticks} />],
        ['Type', (event) => <Word text={event.type} />, 'wide'],
        ['About', (event) => <About {...event} otherwise={kindWords(event)} />, 'wide'],
        ['State', State, 'wide'],
        ['Received', Received, 'wide'],
        ['Attempts', (event) => figure(event.attempts), 'n'],
        ['Error', ({ error }) => error, 'full error'],
      ]}
    />
  );
  if (!ticks) return table;
  return (
    <ActionForm action="/actions/events" fields={{ back: here }}>
      {table}
      <div class="actions bulk">
        <Button does="retry">Retry the ticked</Button>
        <Button does="discard">Discard the ticked</Button>
        <span class="note">Failed events can be retried; failed and pending events can be discarded.</span>
      </div>
    </ActionForm>
  );
}

function Name({ event, ticks }: { event: EventReport; ticks: boolean }) {
  return (
    <>
      {ticks && isChangeable(event) ? (
        <input type="checkbox" name="id" value={event.id} aria-label={`Tick ${event.id}`} />
      ) : null}{' '}
      <EventLink id={event.id} />
    </>
  );
}

function Received({ received_at, deliveries }: EventReport) {
  return (
    <>
      <Instant at={received_at} precise />
      {deliveries > 1 ? <span class="quiet"> ×{figure(deliveries)}</span> : null}
    </>
  );
}

const kindWords = ({ kind }: EventReport) => (kind === null ? 'no known kind' : kindNoun(kind, 1));

export function isChangeable({ state }: EventReport): boolean {
  return state === 'failed' || state === 'pending';
}

function emptyWords(filter: z.output<typeof filters>): string {
  const filters = Object.values(filter).filter((value) => value !== undefined).length;
  if (filters === 0) return 'No event yet. The first accepted one is shown here at once.';
  if (filters === 1 && filter.state === 'failed')
    return 'No failed events. An event that cannot be processed is shown here, to be retried or discarded.';
  if (filters === 1 && filter.state === 'pending') return 'No pending events: none waits to be processed.';
  return 'No matching events. Remove a filter to see more.';
}
