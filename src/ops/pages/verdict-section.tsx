import { pointersToSet } from '../../compliance/pointers.ts';
import type { PendingDeletions } from '../context.ts';
import type { Snapshot } from '../snapshot.ts';
import { age, count, kindPlural } from '../words.ts';
import { ActionForm, Instant, mayOperate } from './pieces.tsx';

export const VERDICT_WORDS = {
  in_sync: 'In sync',
  catching_up: 'Catching up',
  stale: 'Stale',
  unreachable: 'Unreachable',
  action_required: 'Action required',
  unverified: 'Unverified',
} as const;

export function VerdictSection({ snapshot }: { snapshot: Snapshot }) {
  const { verdict, at, summary, live } = snapshot;
  const toSet = pointersToSet(summary?.learned_pointers ?? [], live.idPointers);
  return (
    <section class={`verdict ${verdict.verdict}`} data-part="verdict" role="status" aria-label="Verdict">
      <div>
        <p class="eyebrow">
          <strong class={`state ${verdict.verdict}`}>{VERDICT_WORDS[verdict.verdict]}</strong>
          {verdict.since === null ? null : (
            <span>
              since <Instant at={verdict.since} /> · {age(at - Date.parse(verdict.since))}
            </span>
          )}
        </p>
        <h1>{verdict.sentence}</h1>
        {verdict.remedy === null ? null : <p class="remedy">{verdict.remedy}</p>}
        {toSet.map(({ kind, path, setting, record_id, used }) => (
          <p class="remedy" data-part="learned-pointer">
            The id of {record_id}, one of the {kindPlural(kind)}, was found at “{path}”, where no setting
            looks.{' '}
            {used ? 'Events are read by that meanwhile.' : 'Each such event has its record sought meanwhile.'}{' '}
            Set <code>{setting}</code>.
          </p>
        ))}
      </div>
      {mayOperate() ? <Actions snapshot={snapshot} /> : null}
    </section>
  );
}

function Actions({ snapshot: { verdict, live, pending } }: { snapshot: Snapshot }) {
  const first = (action: string) => (verdict.action === action ? 'button first' : 'button');
  return (
    <div class="actions">
      {/* Of several kinds, the list below has them. */}
      {pending.length === 1 ? <Pending deletions={pending[0]!} /> : null}
      {live.paused ? (
        <ActionForm action="/actions/resume">
          <button class={first('resume')} id="resume" type="submit">
            Resume
          </button>
        </ActionForm>
      ) : null}
      {verdict.action === 'retry' ? (
        <ActionForm action="/actions/retry">
          <button class="button first" id="retry" type="submit">
            Retry these events
          </button>
        </ActionForm>
      ) : null}
      {verdict.action === 'resolve' ? (
        <a class="button first" id="restored" href="/gaps#gap-restored">
          Look at what is missing
        </a>
      ) : null}
      {live.eventsOnly ? null : (
        <ActionForm action="/actions/sync">
          <button class={first('sync')} id="sync" type="submit">
            Full sync now
          </button>
        </ActionForm>
      )}
      {live.paused ? null : (
        <ActionForm action="/actions/pause">
          <button class="button" id="pause" type="submit">
            Pause
          </button>
        </ActionForm>
      )}
    </div>
  );
}

/** They are approved where the ids can be seen: on the full sync's page. */
function Pending({ deletions: { syncRunId, kind, count: pending } }: { deletions: PendingDeletions }) {
  return (
    <a class="button first" id={`pending-${syncRunId}`} href={`/sync-runs/${syncRunId}#pending`}>
      Look at the {count(pending, 'deletion')} of {kindPlural(kind)}
    </a>
  );
}
