import type { Status } from '../api/schemas.ts';
import { buttonOf, commandOf, isResolvable, type Problem } from '../problems.ts';
import { codeWords, count, figure, kindPlural, sentenceCase } from '../words.ts';
import { ActionButton, mayOperate } from './controls.tsx';
import { Ago, RecordLink, State, Tile } from './pieces.tsx';
import { pendingHref } from './query.ts';
import { verdictWords } from './tiles.tsx';

/** Of one reason. The rest is under `/api/problems`. */
const SHOWN = 10;

/** All open problems, the worst first; those of one reason together. Empty while none is open. */
export function ProblemsTile({ problems, open_problems: open }: Status) {
  if (problems.length === 0) return <div data-part="problems" />;
  const groups = [...Map.groupBy(problems, ({ reason, verdict }) => `${verdict} ${reason}`).values()];
  return (
    <Tile part="problems" title={count(open, 'open problem')}>
      {groups.map((group) => (
        <OneReason group={group} />
      ))}
      {open > problems.length ? (
        <p class="note">
          These are {figure(problems.length)} of {figure(open)}.{' '}
          <a href="/api/problems">All of them as JSON</a>
        </p>
      ) : null}
    </Tile>
  );
}

function OneReason({ group }: { group: readonly Problem[] }) {
  const [{ reason, verdict, needs, sentence, action }] = group as [Problem];
  const id = `problem-${verdict}-${reason}`;
  const shown = group.slice(0, SHOWN);
  return (
    <section class="problem" aria-labelledby={id}>
      <div class="head">
        <h3 id={id}>{sentence}</h3>
        <State
          state={verdict}
          words={
            needs === 'you' && verdict !== 'action_required'
              ? `${verdictWords(verdict)}: needs you`
              : verdictWords(verdict)
          }
        />
      </div>
      <p class="note">{action}</p>
      <ul>
        {shown.map((problem) => (
          <li id={`problem-${problem.id}`}>
            <div>
              <About {...problem} />
              {problem.times > 1 ? <span class="quiet">, {figure(problem.times)} times</span> : null}
              <span class="quiet">
                , since <Ago at={problem.opened_at} />
              </span>
              {problem.error === null ? null : <div class="error">{problem.error}</div>}
            </div>
            <Way problem={problem} />
          </li>
        ))}
      </ul>
      {group.length > shown.length ? (
        <p class="note">
          {figure(shown.length)} of {figure(group.length)}. <a href="/api/problems">All of them as JSON</a>
        </p>
      ) : null}
    </section>
  );
}

function About({ kind, record_id, reason }: Problem) {
  if (kind === null) return <>{sentenceCase(codeWords(reason))}: all kinds</>;
  if (record_id === null)
    return (
      <>
        {sentenceCase(codeWords(reason))}: <a href={`/records/${kind}`}>{kindPlural(kind)}</a>
      </>
    );
  return <RecordLink kind={kind} id={record_id} />;
}

const WHERE = {
  failed_event: '/deliveries?state=failed',
  quarantined: '/deliveries?outcome=quarantined',
  conflicting_content: '/deliveries?outcome=quarantined',
  rejected_deliveries: '/deliveries?outcome=rejected',
  unreadable_answer: '/syncs',
  incomplete_list: '/syncs',
  full_sync_overdue: '/syncs',
  paused: '/audit',
} as const satisfies Partial<Record<Problem['reason'], string>>;

/** The problem's button, and the page that shows what it is about. */
function Way({ problem }: { problem: Problem }) {
  const { id, reason, kind, digest, needs } = problem;
  const button = buttonOf(problem);
  const href = (WHERE as Partial<Record<string, string>>)[reason];
  const command = commandOf(problem);
  return (
    <div class="actions">
      {href === undefined ? null : <a href={href}>Look</a>}
      {button === 'approve' && kind !== null ? (
        <a class="button" id={`pending-${kind}`} href={pendingHref(kind)}>
          Look at the deletions
        </a>
      ) : null}
      {button === 'resume' ? (
        <ActionButton action="/api/resume" id="resume-here">
          Resume
        </ActionButton>
      ) : null}
      {button === 'sync' ? (
        <ActionButton action="/api/syncs" body={kind === null ? {} : { kinds: [kind] }} id={`sync-${id}`}>
          Full sync now
        </ActionButton>
      ) : null}
      {button === 'find' ? (
        <ActionButton action={`/api/problems/${id}/resolve`} body={{ find: true }} id={`find-${id}`}>
          Ask the API for its record
        </ActionButton>
      ) : null}
      {isResolvable(problem) && (button === 'resolve' || needs === 'you') ? (
        <ActionButton action={`/api/problems/${id}/resolve`} body={{ digest }} id={`resolve-${id}`}>
          Resolve
        </ActionButton>
      ) : null}
      {command === null || mayOperate() ? null : <code>{command}</code>}
    </div>
  );
}
