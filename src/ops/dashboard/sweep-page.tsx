import type { SweepReport } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import type { RunningSweep } from '../context.ts';
import { HELD_SHOWN, type HeldUnderSweep } from '../held.ts';
import { recordHref } from '../hrefs.ts';
import { codeWords, count, figure, kindPlural } from '../words.ts';
import { DriftDetails } from './drift-details.tsx';
import { Frame } from './layout.tsx';
import { ActionForm, Facts, Instant, Pager, Title, Told } from './pieces.tsx';
import { Running } from './sweeps-tile.tsx';

export function SweepPage({
  sweep,
  running,
  held,
  identity,
  now,
  told,
  next,
  first,
}: {
  sweep: SweepReport;
  running: RunningSweep | null;
  held: HeldUnderSweep;
  identity: Identity;
  now: number;
  told: string | null;
  next: string | null;
  first: string | null;
}) {
  return (
    <Frame title={`Sweep ${sweep.id}`} current="Sweeps" identity={identity} now={now}>
      <Title>
        Sweep {sweep.id} of the {kindPlural(sweep.kind)}
      </Title>
      <Told text={told} />
      {running === null ? null : (
        <div class="running">
          <Running sweep={running} />
        </div>
      )}
      <Facts
        facts={[
          ['Why', codeWords(sweep.reason)],
          ['Began', <Instant at={sweep.started_at} now={now} />],
          ['Ended', sweep.finished_at === null ? 'not yet' : <Instant at={sweep.finished_at} now={now} />],
          ['Outcome', sweep.outcome === null ? 'under way' : codeWords(sweep.outcome)],
          sweep.error === null ? null : ['Error', <span class="warn">{sweep.error}</span>],
          ['Read', `${count(sweep.seen, 'record')} on ${count(sweep.pages, 'page')}`],
          [
            'Wrote',
            `${figure(sweep.inserted)} new, ${figure(sweep.updated)} changed, ${figure(sweep.deleted)} deleted; ${figure(sweep.unchanged)} as they were`,
          ],
        ]}
      />
      {held.waiting + held.consented === 0 ? null : (
        <HeldDeletions {...{ sweep, held, identity, now, next, first }} />
      )}
      <h2>Drift</h2>
      <p class="lead">What differed although no delivery had announced it.</p>
      <DriftDetails kind={sweep.kind} drift={sweep.drift} />
    </Frame>
  );
}

function HeldDeletions({
  sweep,
  held,
  identity,
  now,
  next,
  first,
}: {
  sweep: SweepReport;
  held: HeldUnderSweep;
  identity: Identity;
  now: number;
  next: string | null;
  first: string | null;
}) {
  const until = held.shown.find(({ consent_until }) => consent_until !== null)?.consent_until ?? null;
  return (
    <section class="group blocked" id="held" aria-labelledby="held-title">
      <h2 id="held-title">
        {held.waiting > 0
          ? `${count(held.waiting, 'deletion')} ${held.waiting === 1 ? 'awaits' : 'await'} consent`
          : `${count(held.consented, 'deletion')} consented to`}
      </h2>
      <p class="lead">
        {held.waiting > 0
          ? 'These are gone from the compliance service’s list, and they are too many to believe without a person. Nothing has been deleted here. Make sure of it there first.'
          : 'The next proof that they are gone deletes exactly these.'}
        {held.consented > 0 && until !== null ? (
          <>
            {' '}
            The consent holds until <Instant at={until} now={now} />.
          </>
        ) : null}
      </p>
      <ul class="ids held" aria-label="Held deletions">
        {held.shown.map(({ kind, id }) => (
          <li>
            <a href={recordHref(kind, id)}>
              <code>{id}</code>
            </a>
          </li>
        ))}
      </ul>
      {held.waiting + held.consented > HELD_SHOWN ? (
        <p class="note">
          {figure(HELD_SHOWN)} of {figure(held.waiting + held.consented)} stand on this page.
        </p>
      ) : null}
      <Pager next={next} first={first} words="More of them" />
      {held.waiting > 0 && identity.role === 'operate' ? (
        <ActionForm action="/actions/confirm-deletions" csrf={identity.csrf} className="consent">
          <input type="hidden" name="sweep" value={String(sweep.id)} />
          <input type="hidden" name="ids" value={held.digest} />
          <label>
            <input type="checkbox" name="sure" value="yes" required id="sure" />
            <span>
              I have made sure that these {figure(held.waiting)} {kindPlural(sweep.kind)} are gone from the
              compliance service.
            </span>
          </label>
          <button class="button first" id="consent" type="submit">
            Consent to {count(held.waiting, 'deletion')}
          </button>
        </ActionForm>
      ) : null}
    </section>
  );
}
