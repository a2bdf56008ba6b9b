import type { GapReport } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import { gapGuide } from '../gap-guides.ts';
import { gapText } from '../gap-texts.ts';
import { isEndedByPerson } from '../verdict-facts.ts';
import { figure, kindPlural } from '../words.ts';
import type { Notice } from './form-outcome.ts';
import { Frame } from './layout.tsx';
import { ActionForm, Empty, Instant, NewRows, Pager, RecordLink, Table, Title, Told } from './pieces.tsx';

export function GapsPage({
  show,
  gaps,
  eventsOnly,
  identity,
  now,
  told,
  next,
  first,
  stream,
}: {
  show: 'open' | 'resolved';
  gaps: readonly GapReport[];
  eventsOnly: boolean;
  identity: Identity;
  now: number;
  told: Notice | null;
  next: string | null;
  first: string | null;
  /** Where the page is told of what opens; null: it is not the newest page of what is open. */
  stream: string | null;
}) {
  const groups = [...Map.groupBy(gaps, (gap) => gap.reason)].sort(
    ([a], [b]) => Number(gapText(b).needsPerson) - Number(gapText(a).needsPerson),
  );
  return (
    <Frame title="Gaps" current="Gaps" identity={identity} now={now} stream={stream}>
      <Title note="What is known to be missing or in doubt. Most gaps are repaired by the service itself.">
        Gaps
      </Title>
      <Told notice={told} />
      <nav class="tabs" aria-label="Which gaps">
        <ul>
          {(['open', 'resolved'] as const).map((each) => (
            <li>
              <a href={`/gaps?show=${each}`} {...(each === show ? { 'aria-current': 'true' } : {})}>
                {each}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <NewRows words={null} href="/gaps" />
      {groups.length === 0 ? (
        <Empty>
          {show === 'open'
            ? 'None open.'
            : 'None is resolved yet. A gap stands here with its history once it is repaired.'}
        </Empty>
      ) : (
        groups.map(([reason, members]) => <Group {...{ show, reason, members, eventsOnly, identity, now }} />)
      )}
      <Pager next={next} first={first} words="Older gaps" />
    </Frame>
  );
}

function Group({
  show,
  reason,
  members,
  eventsOnly,
  identity,
  now,
}: {
  show: 'open' | 'resolved';
  reason: string;
  members: readonly GapReport[];
  eventsOnly: boolean;
  identity: Identity;
  now: number;
}) {
  const { title, remedy, needsPerson } = gapText(reason);
  const isOpen = show === 'open';
  // What is resolved needs nobody any more.
  const guide = isOpen ? gapGuide(reason) : null;
  return (
    <section class="group" aria-labelledby={`gap-${reason}`}>
      <h2 id={`gap-${reason}`}>
        {title} {isOpen && needsPerson ? <small class="warn">needs a person</small> : null}
      </h2>
      {isOpen ? <p class="lead">{remedy}</p> : null}
      {guide === null ? null : (
        <dl class="facts">
          <dt>Symptom</dt>
          <dd>{guide.symptom}</dd>
          <dt>Check</dt>
          <dd>{guide.check}</dd>
          <dt>Command</dt>
          <dd>
            <code>{guide.command}</code>
            <br />
            <span class="quiet">{guide.note}</span>
          </dd>
        </dl>
      )}
      <Table
        label={`${title}: each of them`}
        head={['About', 'Opened', 'Resolved', 'Times', 'Error']}
        figures={['Times']}
      >
        {members.map((gap) => (
          <tr>
            <th scope="row">
              {gap.kind === null ? (
                'the whole mirror'
              ) : gap.record_id === null ? (
                `all ${kindPlural(gap.kind)}`
              ) : (
                <RecordLink kind={gap.kind} id={gap.record_id} />
              )}
            </th>
            <td class="wide" data-label="Opened">
              <Instant at={gap.opened_at} now={now} />
            </td>
            <td class="wide" data-label="Resolved">
              {gap.resolved_at === null ? (
                <span class="quiet">open</span>
              ) : (
                <Instant at={gap.resolved_at} now={now} />
              )}
            </td>
            <td class="n" data-label="Times">
              {figure(gap.attempts)}
            </td>
            <td class={gap.error === null ? 'gone' : 'full error'}>
              {gap.error}
              {gap.resolved_at === null && isEndedByPerson(gap, eventsOnly) && identity.role === 'operate' ? (
                <Resolve id={gap.id} csrf={identity.csrf} />
              ) : null}
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

/** What nobody else can know. */
function Resolve({ id, csrf }: { id: number; csrf: string | null }) {
  return (
    <ActionForm action="/actions/resolve-gap" csrf={csrf} className="actions">
      <input type="hidden" name="id" value={String(id)} />
      <button class="button" type="submit" id={`resolve-${id}`}>
        Nothing is missing any more: resolve
      </button>
    </ActionForm>
  );
}
