import type { Child } from 'hono/jsx';
import type { EventReport } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import { type Aftermath, aftermathOf } from '../aftermath.ts';
import { found } from '../api/answers.ts';
import type { OpsContext, RejectionDiagnosis } from '../context.ts';
import { answerTo } from '../delivery-answers.ts';
import { codeWords, count, figure } from '../words.ts';
import { Body, BodyText } from './body.tsx';
import { ActionButton, ActionForm, Button } from './controls.tsx';
import { isChangeable } from './events-page.tsx';
import { noticeOfEvent } from './forms.ts';
import { OneThing } from './layout.tsx';
import { About, Cause, Facts, From, Instant, SignedAt, State } from './pieces.tsx';
import { eventHref, rowAt } from './query.ts';
import { Change } from './record-page.tsx';

/** The pages of one delivery: of its event, of its row in quarantine, or of its rejection. */

/** How many changes of the record are read, from the event on. The event's own is one of the first, unless very many waited. */
const CHANGES_LOOKED_AT = 200;

export async function eventPage({ store, answerTimes, receiver }: OpsContext, id: string): Promise<Child> {
  const event = found(await store.showEvent(id), 'There is no event of this id.');
  const { state, deliveries } = event;
  const tookMs = answerTimes.of({ ...event, outcome: 'accepted', event_id: event.id });
  const aftermath = await readAftermath(store, event);
  return (
    <OneThing
      title={`Event ${event.id}`}
      heading={['Event ', <code>{event.id}</code>]}
      current="Events"
      facts={[
        ['State', <State state={state} />],
        state === 'ignored' && ['Why', whyIgnored(event)],
        event.error !== null && state !== 'processed' && ['Error', <span class="warn">{event.error}</span>],
        ['Type', event.type],
        ['About', <About {...event} otherwise="no known record" />],
        ['From', <From {...event} />],
        ['Answer', `202, signature valid${tookMs === null ? '' : `, after ${tookMs} ms`}`],
        deliveries > 1 && ['Delivered', `${figure(deliveries)} times`],
      ]}
      say={(outcome) => noticeOfEvent(outcome, event)}
    >
      {isChangeable(event) ? <EventButtons {...event} /> : null}
      <h2>What became of it</h2>
      <ol class="timeline">
        {stepsOf(event, aftermath).map(({ at, words }) => (
          <li>
            <Instant at={at} precise /> <span>{words}</span>
          </li>
        ))}
      </ol>
      {aftermath?.verdict === 'open' && (state === 'processed' || state === 'ignored') ? (
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
        <p class="note">{TRIMMED}</p>
      ) : (
        <BodyText text={event.body} receiver={receiver} />
      )}
    </OneThing>
  );
}

function EventButtons({ id, state }: EventReport) {
  return (
    <ActionForm action="/actions/events" className="actions" fields={{ id, back: eventHref(id) }}>
      {state === 'failed' ? (
        <Button id="retry" does="retry">
          Retry
        </Button>
      ) : null}
      <Button id="discard" does="discard">
        Discard
      </Button>
    </ActionForm>
  );
}

async function readAftermath(store: OpsContext['store'], event: EventReport): Promise<Aftermath | null> {
  const { kind, record_id, seq } = event;
  if (kind === null || record_id === null) return null;
  const since = { limit: CHANGES_LOOKED_AT, after: String(seq), oldestFirst: true } as const;
  const [{ items: later }, record] = await Promise.all([
    store.recordHistory(kind, record_id, since),
    store.showRecord(kind, record_id),
  ]);
  return aftermathOf(event, later, record);
}

const TRIMMED = 'Trimmed: it is older than RETENTION_BODY_DAYS.';

interface Step {
  at: string;
  words: unknown;
}

/** In order of time. */
function stepsOf(event: EventReport, aftermath: Aftermath | null): Step[] {
  const { state, attempts, error, deliveries } = event;
  const steps: Step[] = [
    { at: event.created, words: 'Created by the sender.' },
    { at: event.received_at, words: 'Received and stored.' },
  ];
  if (deliveries > 1)
    steps.push({
      at: event.last_delivered_at,
      words: `Delivered again, ${figure(deliveries)} times in all.`,
    });
  if (event.processed_at !== null) steps.push({ at: event.processed_at, words: settledWords(event) });
  if (event.next_attempt_at !== null) {
    const what =
      state === 'failed'
        ? 'Its record is looked for again.'
        : `Tried again, after ${count(attempts, 'attempt')}: ${error}`;
    steps.push({ at: event.next_attempt_at, words: what });
  }
  if (aftermath !== null && aftermath.at !== null) {
    steps.push({ at: aftermath.at, words: aftermathWords(aftermath) });
  }
  return steps.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
}

function settledWords({ state, attempts, error }: EventReport): string {
  if (state === 'failed') return `Failed at attempt ${figure(attempts)}: ${error}`;
  if (state === 'processed') return 'Processed.';
  return state === 'ignored' ? 'Ignored.' : 'Discarded by an operator.';
}

function aftermathWords({ change, verdict, by }: Aftermath) {
  // Its moment is that of the record's last read. What an event said that changed nothing may be older than what the API shows.
  if (by === null)
    return change === null ? 'Its record was last verified by the API.' : 'Last confirmed by the API.';
  const cause = <Cause cause={by.cause} />;
  return verdict === 'replaced' ? (
    <>Changed again by {cause}.</>
  ) : (
    <>The API showed something else: changed by {cause}.</>
  );
}

function whyIgnored({ record_id }: EventReport): string {
  const type = 'the specification has no such type, so the event itself has no effect';
  const unwanted = 'A webhook that is registered for exact types gets none of these';
  return record_id === null ? `${type}. ${unwanted}.` : `${type}: the API was asked for its record.`;
}

function whyNoChange({ state, record_id }: EventReport): string {
  switch (state) {
    case 'processed':
      return 'Nothing: it said nothing about the record, or nothing newer than the row. Or the change is older than RETENTION_HISTORY_DAYS.';
    case 'ignored':
      return record_id === null
        ? 'Nothing.'
        : 'Nothing by itself. What the API has shown since then is in the record’s history.';
    case 'pending':
      return 'Nothing yet: it waits to be processed.';
    case 'failed':
      return 'Nothing: it could not be processed.';
    case 'discarded':
      return 'Nothing: it was discarded.';
  }
}

function answerFact(outcome: 'quarantined' | 'rejected', reason: string) {
  const { status, signature } = answerTo({ outcome, reason });
  return ['Answer', `${status}, signature ${codeWords(signature)}`] as const;
}

export async function quarantinedPage({ store, receiver }: OpsContext, c: OpsHandlerContext): Promise<Child> {
  const delivery = await rowAt(c, store, 'quarantine', 'There is no delivery of this number in quarantine.');
  const { reason, released_at } = delivery;
  return (
    <OneThing
      title={`Quarantine ${delivery.id}`}
      heading={`Delivery ${delivery.id} in quarantine`}
      current="Quarantine"
      facts={[
        ['Why', codeWords(reason)],
        ['Received', <Instant at={delivery.received_at} />],
        ['From', <From {...delivery} />],
        answerFact('quarantined', reason),
        ['Signed at', <SignedAt t={delivery.t} />],
        ['SHA-256', <code>{delivery.body_sha256}</code>],
        ['Released', <Instant at={released_at} otherwise="not yet" />],
      ]}
    >
      {released_at === null ? (
        <>
          <p class="note">
            “Release” asks the API for the record that it was about, if that is known, and marks the delivery
            as settled. Nothing of its content gets into the tables.
          </p>
          <ActionButton
            action="/actions/release"
            className="actions"
            fields={{ id: delivery.id }}
            id="release"
          >
            Release
          </ActionButton>
        </>
      ) : null}
      <Body {...delivery} receiver={receiver} whyNone={TRIMMED} />
    </OneThing>
  );
}

const NOT_EXAMINED: RejectionDiagnosis = { causes: [], fit: null };
const NOT_KEPT = 'It is not kept any more.';
const BUSY = 'Other rejections are being examined. Reload this page in a few seconds.';
const CORRECTED = 'With the present settings it would be accepted: what was wrong has been corrected.';

export async function rejectionPage(context: OpsContext, c: OpsHandlerContext): Promise<Child> {
  const missing = 'This rejection is not kept any more, or never was.';
  const rejection = await rowAt(c, context.store, 'rejections', missing);
  const { id, reason, times, body_sha256, header } = rejection;
  const diagnosis = await context.diagnose(id);
  const { causes, fit } = typeof diagnosis === 'object' && diagnosis !== null ? diagnosis : NOT_EXAMINED;
  const fits = Object.entries(fit ?? {});
  return (
    <OneThing
      title={`Rejection ${id}`}
      current="Rejections"
      facts={[
        ['Why', codeWords(reason)],
        ['Received', <Instant at={rejection.at} />],
        times > 1 && ['Count', `${figure(times)}: it stands for others of the same minute`],
        ['From', <From {...rejection} />],
        answerFact('rejected', reason),
        ['Size', `${figure(rejection.bytes)} bytes`],
        body_sha256 !== null && ['SHA-256', <code>{body_sha256}</code>],
        ['Signature header', header === null ? 'none' : <code>{header}</code>],
      ]}
    >
      <h2>What doctor says</h2>
      {causes.length === 0 ? (
        <p class="note">{diagnosis === null ? NOT_KEPT : diagnosis === 'busy' ? BUSY : CORRECTED}</p>
      ) : (
        <ul class="causes">
          {causes.map(({ code, what, remedy }) => (
            <li>
              <p>
                {what} <code>{code}</code>
              </p>
              <p class="lead">{remedy}</p>
            </li>
          ))}
        </ul>
      )}
      {fits.length === 0 ? null : (
        <>
          <h2>What its signature fits</h2>
          <Facts facts={fits.map(([name, value]) => [codeWords(name), <code>{value}</code>] as const)} />
        </>
      )}
      <Body
        {...rejection}
        receiver={context.receiver}
        whyNone="Not kept: it was too large, or the delivery was rejected for its headers alone."
      />
    </OneThing>
  );
}
