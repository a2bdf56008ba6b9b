import type { EventReport } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { type Aftermath, aftermathOf } from '../aftermath.ts';
import type { OpsContext } from '../context.ts';
import { count, figure } from '../words.ts';
import { type Answers, missing } from './answers.tsx';
import { BodyText } from './body.tsx';
import { noticeOfEvent } from './form-outcome.ts';
import { Frame } from './layout.tsx';
import { ActionForm, Cause, Facts, Instant, RecordLink, State, Title } from './pieces.tsx';
import { eventHref } from './query.ts';
import { Change } from './record-page.tsx';

/** Later changes of the record that are read. The one of the event is among the first, except where very many waited. */
const CHANGES_LOOKED_AT = 200;

export function eventPage(context: OpsContext, { html }: Answers) {
  const { store } = context;
  const aftermath = async (event: EventReport): Promise<Aftermath | null> => {
    const { kind, record_id, seq } = event;
    if (kind === null || record_id === null) return null;
    const [later, record] = await Promise.all([
      store.recordHistory(kind, record_id, {
        limit: CHANGES_LOOKED_AT,
        after: String(seq),
        oldestFirst: true,
      }),
      store.showRecord(kind, record_id),
    ]);
    return aftermathOf(event, later, record);
  };
  return async (c: OpsHandlerContext, id: string): Promise<Response> => {
    const event = await store.showEvent(id);
    if (event === null) return missing('There is no event of this id.');
    const tookMs = context.answerTimes.of({ ...event, outcome: 'accepted', event_id: event.id });
    return html(
      c,
      <EventPage {...{ event, receiver: context.receiver, tookMs, aftermath: await aftermath(event) }} />,
      (outcome) => noticeOfEvent(outcome, event),
    );
  };
}

function EventPage({
  event,
  aftermath,
  receiver,
  tookMs,
}: {
  event: EventReport;
  /** Null: it names no record. */
  aftermath: Aftermath | null;
  receiver: OpsContext['receiver'];
  /** How long its answer took; null: not known. */
  tookMs: number | null;
}) {
  return (
    <Frame title={`Event ${event.id}`} current="Events">
      <Title>
        Event <code>{event.id}</code>
      </Title>
      <Facts
        facts={[
          ['State', <State state={event.state} />],
          event.state === 'ignored' ? ['Why', whyIgnored(event)] : null,
          event.error === null || event.state === 'processed'
            ? null
            : ['Error', <span class="warn">{event.error}</span>],
          ['Type', event.type],
          [
            'About',
            event.kind !== null && event.record_id !== null ? (
              <RecordLink kind={event.kind} id={event.record_id} />
            ) : (
              'no record that could be told'
            ),
          ],
          ['From', event.address === null ? 'not known' : <code>{event.address}</code>],
          ['Answer', `202, signature valid${tookMs === null ? '' : `, after ${tookMs} ms`}`],
          event.deliveries === 1 ? null : ['Delivered', `${figure(event.deliveries)} times`],
        ]}
      />
      {event.state === 'failed' || event.state === 'pending' ? (
        <ActionForm action="/actions/events" className="actions">
          <input type="hidden" name="id" value={event.id} />
          <input type="hidden" name="back" value={eventHref(event.id)} />
          {event.state === 'failed' ? (
            <button class="button" type="submit" name="do" value="retry" id="retry">
              Retry
            </button>
          ) : null}
          <button class="button" type="submit" name="do" value="discard" id="discard">
            Discard
          </button>
        </ActionForm>
      ) : null}
      <h2>What became of it</h2>
      <ol class="timeline">
        {stepsOf(event, aftermath).map(({ at, words }) => (
          <li>
            <Instant at={at} precise /> <span>{words}</span>
          </li>
        ))}
      </ol>
      {aftermath?.verdict === 'open' && (event.state === 'processed' || event.state === 'ignored') ? (
        <p class="note">The API has not confirmed it yet.</p>
      ) : null}
      <h2>What it changed</h2>
      {aftermath?.change == null ? (
        <p class="note">{whyNoChange(event)}</p>
      ) : (
        <Change change={aftermath.change} />
      )}
      <h2>Body</h2>
      {event.body === null ? (
        <p class="note">Trimmed: it is older than RETENTION_BODY_DAYS.</p>
      ) : (
        <BodyText text={event.body} receiver={receiver} />
      )}
    </Frame>
  );
}

interface Step {
  at: string;
  words: unknown;
}

/** In order of time. */
function stepsOf(event: EventReport, aftermath: Aftermath | null): Step[] {
  const { state, attempts, error } = event;
  const steps: Step[] = [
    { at: event.created, words: 'Created by the sender.' },
    { at: event.received_at, words: 'Received and stored.' },
  ];
  if (event.deliveries > 1)
    steps.push({
      at: event.last_delivered_at,
      words: `Came again, the last of ${figure(event.deliveries)}.`,
    });
  if (event.processed_at !== null) steps.push({ at: event.processed_at, words: settledWords(event) });
  if (event.next_attempt_at !== null) {
    const what =
      state === 'failed'
        ? 'Its record is looked for again.'
        : `Tried again, after ${count(attempts, 'attempt')}: ${error}`;
    steps.push({ at: event.next_attempt_at, words: what });
  }
  if (aftermath !== null) steps.push(...lookedAt(aftermath));
  return steps
    .map((step) => ({ ...step, at: new Date(step.at).toISOString() }))
    .sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

function settledWords({ state, attempts, error }: EventReport): string {
  if (state === 'failed') return `Failed at attempt ${figure(attempts)}: ${error}`;
  if (state === 'processed') return 'Processed.';
  return state === 'ignored' ? 'Ignored.' : 'Discarded by an operator.';
}

function lookedAt({ verdict, at, by }: Aftermath): Step[] {
  if (at === null) return [];
  switch (verdict) {
    case 'confirmed':
      return [{ at, words: 'The API confirmed what the record says since.' }];
    case 'corrected':
      return [
        { at, words: <>The API showed something else: changed by {by && <Cause cause={by.cause} />}.</> },
      ];
    case 'replaced':
      return [{ at, words: <>Changed again by {by && <Cause cause={by.cause} />}.</> }];
    case 'open':
      return [];
  }
}

function whyIgnored({ record_id }: EventReport): string {
  const type = 'the specification names no such type, so it has no effect of its own';
  return record_id === null ? `${type}.` : `${type}: the API was asked for its record.`;
}

function whyNoChange({ state, record_id }: EventReport): string {
  switch (state) {
    case 'processed':
      return 'Nothing: it showed nothing of the record, or nothing newer than what was there. Or the change is older than RETENTION_HISTORY_DAYS.';
    case 'ignored':
      return record_id === null
        ? 'Nothing.'
        : 'Nothing by itself: what the API showed since stands in the record’s history.';
    case 'pending':
      return 'Nothing yet: it waits to be processed.';
    case 'failed':
      return 'Nothing: it could not be processed.';
    case 'discarded':
      return 'Nothing: it was discarded.';
  }
}
