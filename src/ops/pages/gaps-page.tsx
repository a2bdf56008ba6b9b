import type { GapReport } from '../../store/reports.ts';
import { gapGuide, gapText, isEndedByPerson } from '../gap-texts.ts';
import { figure, kindPlural } from '../words.ts';
import { Frame, type ListView } from './layout.tsx';
import { ActionForm, Empty, Facts, Instant, NewRows, Pager, RecordLink, Table, Title } from './pieces.tsx';

interface GapsView extends ListView {
  show: 'open' | 'resolved';
  gaps: readonly GapReport[];
  eventsOnly: boolean;
  /** Where the page is told of what opens; null: it is not the newest page of what is open. */
  stream: string | null;
}

export function GapsPage(view: GapsView) {
  const { show, gaps, stream } = view;
  const groups = [...Map.groupBy(gaps, (gap) => gap.reason)].sort(
    ([a], [b]) => Number(gapText(b).needsPerson) - Number(gapText(a).needsPerson),
  );
  return (
    <Frame title="Gaps" current="Gaps" stream={stream}>
      <Title note="What is known to be missing or in doubt. Most gaps are repaired by the service itself.">
        Gaps
      </Title>
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
        groups.map(([reason, members]) => <Group {...view} {...{ reason, members }} />)
      )}
      <Pager next={view.next} first={view.first} words="Older gaps" />
    </Frame>
  );
}

function Group({
  show,
  reason,
  members,
  eventsOnly,
}: GapsView & { reason: string; members: readonly GapReport[] }) {
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
        <Facts
          facts={[
            ['Symptom', guide.symptom],
            ['Check', guide.check],
            [
              'Command',
              <>
                <code>{guide.command}</code>
                <br />
                <span class="quiet">{guide.note}</span>
              </>,
            ],
          ]}
        />
      )}
      <Table
        label={`${title}: each of them`}
        rows={members}
        columns={[
          ['About', (gap) => <About gap={gap} />],
          ['Opened', (gap) => <Instant at={gap.opened_at} />, 'wide'],
          [
            'Resolved',
            ({ resolved_at: at }) => (at === null ? <span class="quiet">open</span> : <Instant at={at} />),
            'wide',
          ],
          ['Times', (gap) => figure(gap.attempts), 'n'],
          {
            head: 'Error',
            td: (gap) => (
              <td class={gap.error === null ? 'gone' : 'full error'}>
                {gap.error}
                {gap.resolved_at === null && isEndedByPerson(gap, eventsOnly) ? (
                  <Resolve id={gap.id} />
                ) : null}
              </td>
            ),
          },
        ]}
      />
    </section>
  );
}

function About({ gap: { kind, record_id } }: { gap: GapReport }) {
  if (kind === null) return 'the whole mirror';
  return record_id === null ? `all ${kindPlural(kind)}` : <RecordLink kind={kind} id={record_id} />;
}

/** What nobody else can know. */
function Resolve({ id }: { id: number }) {
  return (
    <ActionForm action="/actions/resolve-gap" className="actions">
      <input type="hidden" name="id" value={String(id)} />
      <button class="button" type="submit" id={`resolve-${id}`}>
        Nothing is missing any more: resolve
      </button>
    </ActionForm>
  );
}
