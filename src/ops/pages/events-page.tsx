import { EVENT_TYPES, KINDS, type Kind } from '../../compliance/kinds.ts';
import type { EventReport, EventState } from '../../store/reports.ts';
import { figure, kindNoun } from '../words.ts';
import { Frame, type ListView } from './layout.tsx';
import {
  About,
  ActionForm,
  Choice,
  Empty,
  ErrorCell,
  EventLink,
  Field,
  Instant,
  LookedBack,
  mayOperate,
  NewRows,
  Table,
  Title,
} from './pieces.tsx';

export interface EventsView extends ListView {
  filter: {
    state?: EventState | undefined;
    type?: string | undefined;
    kind?: Kind | undefined;
    record_id?: string | undefined;
  };
  events: readonly EventReport[];
  /** The page ended there, before its rows were full: ISO 8601. Null: it did not. */
  lookedBackTo: string | null;
  /** Where a form leads back to. */
  here: string;
  /** Where the page is told of what comes in; null: it is not the newest page. */
  stream: string | null;
}

const STATES: readonly (readonly [EventState | '', string])[] = [
  ['', 'any'],
  ['pending', 'pending'],
  ['processed', 'processed'],
  ['ignored', 'ignored'],
  ['failed', 'failed'],
  ['discarded', 'discarded'],
];

export function EventsPage(view: EventsView) {
  const { filter, events } = view;
  const changeable = mayOperate() && events.some(isChangeable);
  return (
    <Frame title="Events" current="Events" stream={view.stream}>
      <Title note="Every delivery that was verified and committed, the newest first.">Events</Title>
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
      <NewRows words={null} href="/events" />
      {events.length === 0 ? (
        <Empty>{view.lookedBackTo === null ? emptyWords(filter) : 'No event like that among these.'}</Empty>
      ) : changeable ? (
        <ActionForm action="/actions/events">
          <input type="hidden" name="back" value={view.here} />
          <EventTable {...view} ticks />
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
      ) : (
        <EventTable {...view} ticks={false} />
      )}
      <LookedBack {...view} what="events" />
    </Frame>
  );
}

function EventTable({ events, ticks }: EventsView & { ticks: boolean }) {
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

export function State({ state }: { state: EventState }) {
  return <span class={`state ${state}`}>{state}</span>;
}

function isChangeable({ state }: EventReport): boolean {
  return state === 'failed' || state === 'pending';
}

function emptyWords(filter: EventsView['filter']): string {
  if (filter.state === 'failed')
    return 'No failed events. One that cannot be processed would stand here, to be tried again or discarded.';
  if (filter.state === 'pending') return 'No pending events: all are processed.';
  const filtered = Object.values(filter).some((value) => value !== undefined);
  return filtered
    ? 'No event is like that. Take a filter away to see more.'
    : 'No event yet. The first delivery that is verified will stand here at once.';
}
