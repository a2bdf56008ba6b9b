import { z } from 'zod';
import type { GapReport } from '../../store/reports.ts';
import type { OpsContext } from '../context.ts';
import { gapGuide, gapText, isEndedByPerson } from '../gap-texts.ts';
import { figure, kindPlural } from '../words.ts';
import { type List, numbered } from './list-page.tsx';
import { ActionForm, Facts, Instant, mayOperate, RecordLink, Table } from './pieces.tsx';

const SHOWN = ['open', 'resolved'] as const;
const filters = z.strictObject({ show: z.enum(SHOWN).default('open') });

export const gapsList = (context: Pick<OpsContext, 'store' | 'facts'>): List<typeof filters, GapReport> => ({
  name: 'Gaps',
  note: 'What is known to be missing or in doubt. Most gaps are repaired by the service itself.',
  noun: ['gap', 'gaps'],
  filters,
  read: async ({ show }, paging) =>
    numbered(await context.store.list('gaps', { open: show === 'open', ...paging }), paging, ({ id }) => id),
  isWatched: ({ show }) => show === 'open',
  form: ({ show }) => (
    <nav class="tabs" aria-label="Which gaps">
      <ul>
        {SHOWN.map((each) => (
          <li>
            <a href={`/gaps?show=${each}`} {...(each === show ? { 'aria-current': 'true' } : {})}>
              {each}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  ),
  empty: ({ show }) =>
    show === 'open'
      ? 'None open.'
      : 'None is resolved yet. A gap stands here with its history once it is repaired.',
  table: (gaps, { show }) =>
    gapsByReason(gaps).map(([reason, members]) => (
      <Group {...{ reason, members }} isOpen={show === 'open'} eventsOnly={context.facts().eventsOnly} />
    )),
});

/** By reason, those that need a person first. */
export function gapsByReason<Gap extends { reason: string }>(gaps: readonly Gap[]): [string, Gap[]][] {
  return [...Map.groupBy(gaps, (gap) => gap.reason)].sort(
    ([a], [b]) => Number(gapText(b).needsPerson) - Number(gapText(a).needsPerson),
  );
}

function Group({
  reason,
  members,
  isOpen,
  eventsOnly,
}: {
  reason: string;
  members: readonly GapReport[];
  isOpen: boolean;
  eventsOnly: boolean;
}) {
  const { title, remedy, needsPerson } = gapText(reason);
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
            td: (gap) => {
              const isMine = mayOperate() && gap.resolved_at === null && isEndedByPerson(gap, eventsOnly);
              return (
                <td class={gap.error === null && !isMine ? 'gone' : 'full error'}>
                  {gap.error}
                  {isMine ? <Resolve id={gap.id} /> : null}
                </td>
              );
            },
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

/** Only a person can know it. */
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
