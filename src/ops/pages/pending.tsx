import type { Kind } from '../../compliance/kinds.ts';
import type { OpsContext } from '../context.ts';
import { count, figure, kindNoun } from '../words.ts';
import { ActionForm, Button } from './controls.tsx';
import { Instant } from './pieces.tsx';

/** What a person can say of the pending deletions of a kind, above the list of them. Null: there are none. */
export async function pendingSection({ store, clock }: OpsContext, kind: Kind) {
  const pending = await store.pendingOf(kind, clock.wall());
  if (pending.count === 0) return null;
  const open = await store.list('problems', { open: true, reasons: ['pending_deletions'], limit: 10 });
  const problem = open.find((each) => each.kind === kind);
  const { count: waiting, approvedUntil, digest } = pending;
  const records = `${figure(waiting)} ${kindNoun(kind, waiting)}`;
  return (
    <section class="group action_required" id="pending" aria-labelledby="pending-title">
      <h2 id="pending-title">
        {count(waiting, 'deletion')}{' '}
        {approvedUntil === null ? `${waiting === 1 ? 'waits' : 'wait'} for approval` : 'approved'}
      </h2>
      <p class="lead">
        {approvedUntil === null ? (
          'The compliance service does not show these any more, or has announced that they are gone: unusually many, or the last one. Nothing has been deleted here. Check there first that they were really deleted.'
        ) : (
          <>
            The next full sync that proves them gone deletes exactly these. The approval lasts until{' '}
            <Instant at={approvedUntil} />.
          </>
        )}
      </p>
      {problem === undefined ? null : (
        <ActionForm className="approval" body={{ digest }}>
          <label>
            <input type="checkbox" required id="sure" />
            <span>I have looked in the compliance service for the {records} below.</span>
          </label>
          <Button id="approve" formaction={`/api/problems/${problem.id}/approve`} first>
            They are gone: approve the deletion of {records}
          </Button>
          <Button id="keep" formaction={`/api/problems/${problem.id}/keep`}>
            Keep {records}
          </Button>
        </ActionForm>
      )}
    </section>
  );
}
