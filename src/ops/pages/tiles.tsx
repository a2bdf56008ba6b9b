import type { Verdict } from '../../mirror/problems.ts';
import type { Status } from '../api/schemas.ts';
import { bytes, codeWords, count, duration, figure, kindPlural, sentenceCase } from '../words.ts';
import { ActionButton } from './controls.tsx';
import { Ago, Facts, Instant, quiet, State, Tile } from './pieces.tsx';

export const verdictWords = (verdict: Verdict) => sentenceCase(codeWords(verdict));

/** For each kind: how many records there are, and how far they can be trusted. */
export function KindCards({ kinds, service }: Status) {
  if (kinds.length === 0) {
    return (
      <Tile part="records" title="Records">
        <p class="note">The database could not be read.</p>
      </Tile>
    );
  }
  return kinds.map(({ kind, verdict, records, unverified, deleted, ...reads }) => (
    <Tile
      part={kind}
      width="third"
      title={<a href={`/records/${kind}`}>{sentenceCase(kindPlural(kind))}</a>}
      aside={<State state={verdict} words={verdictWords(verdict)} />}
    >
      <p class="big">
        {figure(records)}{' '}
        <small>
          {records === 1 ? 'record' : 'records'}
          {deleted > 0 ? `, and ${figure(deleted)} deleted` : ''}
        </small>
      </p>
      <Facts
        className="pairs"
        facts={[
          [
            'To be verified',
            unverified === 0 ? '0' : <a href={`/records/${kind}?unverified=true`}>{figure(unverified)}</a>,
          ],
          !service.events_only && [
            'Complete through',
            <Instant
              at={reads.complete_through}
              otherwise={quiet(reads.complete ? 'not yet' : 'not proven')}
            />,
          ],
          !service.events_only && [
            'Last full sync',
            <Ago at={reads.last_full_sync_at} otherwise={quiet('none yet')} />,
          ],
          reads.accepted > 0 && ['Differences accepted', figure(reads.accepted)],
        ]}
      />
    </Tile>
  ));
}

export function DeliveriesTile({ deliveries, events }: Status) {
  const { last_at, quarantined } = deliveries;
  const { pending = 0, oldest_pending_at: oldest = null } = events ?? {};
  const waiting = (number: number, href: string) =>
    number === 0 ? '0' : <a href={href}>{figure(number)}</a>;
  return (
    <Tile part="deliveries" width="third" title={<a href="/deliveries">Deliveries</a>}>
      {events !== null && last_at === null ? (
        <p class="note">
          No delivery has arrived yet. <code>compliance-mirror setup</code> asks for what is missing,
          registers the webhook and waits for a first delivery.
        </p>
      ) : null}
      {oldest === null ? null : (
        <p class="note">
          {count(pending, 'event waits', 'events wait')}, the oldest since <Ago at={oldest} />.
        </p>
      )}
      <Facts
        className="pairs"
        facts={[
          last_at !== null && ['Last one', <Ago at={last_at} />],
          events && ['Failed events', waiting(events.failed, '/deliveries?state=failed')],
          quarantined !== null && ['In quarantine', waiting(quarantined, '/deliveries?outcome=quarantined')],
        ]}
      />
    </Tile>
  );
}

export function UpstreamTile({ upstream }: Status) {
  const { configured, origin, ok, last_error, budget_left, budget_per_minute, waits_until } = upstream;
  if (!configured) return <div data-part="upstream" />;
  const state = ok === false ? 'unreachable' : ok === true ? 'in_sync' : '';
  const words = ok === false ? 'cannot be read' : ok === true ? 'answers' : 'not asked yet';
  const waits = (
    <>
      <Instant at={waits_until} />, as the service asked (Retry-After)
    </>
  );
  return (
    <Tile
      part="upstream"
      title="Compliance service"
      width="third"
      aside={<State state={state} words={words} />}
    >
      <p class="note">{[origin, ok === false && last_error].filter((each) => !!each).join(': ')}</p>
      <Facts
        className="pairs"
        facts={[
          ok === false && ['Failures in a row', figure(upstream.consecutive_failures), { isWarning: true }],
          waits_until !== null && ['Waits until', waits, { isWarning: true }],
          upstream.last_ok_at !== null && ['Last useful answer', <Ago at={upstream.last_ok_at} />],
          ['Requests left', `${figure(budget_left)} of ${figure(budget_per_minute)} a minute`],
        ]}
      />
    </Tile>
  );
}

export function ServiceTile({ service, database }: Status) {
  return (
    <Tile
      part="service"
      title="This service"
      width="third"
      aside={<State state={service.state === 'running' ? 'in_sync' : ''} words={service.state} />}
    >
      <p class="note">
        Version {service.version}, started <Ago at={service.started_at} />.
      </p>
      <Facts
        className="pairs"
        facts={[
          !service.events_only && [
            'Full syncs',
            service.full_sync_seconds === 0
              ? 'at the start, on demand'
              : `every ${duration(service.full_sync_seconds * 1_000)}`,
          ],
          database && ['Database', bytes(database.bytes)],
        ]}
      />
      <h3>Signing secrets, and their last use</h3>
      <Facts
        className="pairs"
        facts={service.secrets.map(({ position, registration, last_used_at }) => [
          `${position}. ${registration === null ? 'configured' : `of the registration ${registration}`}`,
          <Ago at={last_used_at} otherwise="not since the start" />,
        ])}
      />
      {service.notifies ? (
        <ActionButton action="/api/notify-test" id="notify-test">
          Test NOTIFY_URL
        </ActionButton>
      ) : null}
    </Tile>
  );
}
