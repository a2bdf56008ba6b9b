import { z } from 'zod';
import type {
  AuditReport,
  GapReport,
  NumberedTable,
  QuarantineReport,
  RejectionReport,
} from '../../store/reports.ts';
import { quote } from '../body-text.ts';
import type { OpsContext } from '../context.ts';
import { type GapGuide, gapText, isEndedByPerson, isOfUnknownId } from '../gap-texts.ts';
import { bytes, codeWords, figure, kindPlural } from '../words.ts';
import { ActionButton, mayOperate } from './controls.tsx';
import { type List, type ListPaging, numbered } from './list-page.tsx';
import { Facts, From, Instant, quiet, RecordLink, SignedAt, State, Table, Tabs } from './pieces.tsx';

/** The lists whose rows have numbers, and few columns. */

const noFilters = z.strictObject({});

const numberedRows = async <Table extends NumberedTable>(
  store: OpsContext['store'],
  table: Table,
  paging: ListPaging & { open?: boolean; reasons?: string[] | undefined },
) => numbered(await store.list(table, paging), paging, ({ id }) => id);

export const quarantineList = ({ store }: OpsContext): List<typeof noFilters, QuarantineReport> => ({
  name: 'Quarantine',
  note: 'Correctly signed deliveries that could not be used.',
  noun: ['delivery', 'deliveries'],
  filters: noFilters,
  read: (_, paging) => numberedRows(store, 'quarantine', paging),
  empty: () =>
    'Nothing is in quarantine. A correctly signed delivery that cannot be used is shown here, with its bytes.',
  table: (rows) => (
    <Table
      label="Quarantine"
      rows={rows}
      columns={[
        ['Number', (row) => <a href={`/quarantine/${row.id}`}>Delivery {row.id}</a>],
        ['Received', (row) => <Instant at={row.received_at} />, 'wide'],
        ['Why', (row) => codeWords(row.reason), 'full'],
        ['Released', ({ released_at }) => <Instant at={released_at} otherwise={notYet} />, 'wide'],
      ]}
    />
  ),
});

const notYet = <State state="pending" words="not yet" />;

export const rejectionsList = ({ store }: OpsContext): List<typeof noFilters, RejectionReport> => ({
  name: 'Rejections',
  title: 'Rejected deliveries',
  note: 'For each reason, sender and minute, the first two are kept, and the newest, whose count includes the others.',
  noun: ['rejection', 'rejections'],
  filters: noFilters,
  read: (_, paging) => numberedRows(store, 'rejections', paging),
  empty: () =>
    'None. A delivery whose signature is missing, wrong or late is shown here, with what is wrong with it.',
  table: (rows) => (
    <Table
      label="Rejected deliveries"
      rows={rows}
      columns={[
        ['Number', (row) => <a href={`/rejections/${row.id}`}>Rejection {row.id}</a>],
        ['Received', (row) => <Instant at={row.at} />, 'wide'],
        ['Why', (row) => codeWords(row.reason), 'wide'],
        ['From', From, 'wide'],
        ['Count', (row) => figure(row.times), 'n'],
        ['Size', (row) => bytes(row.bytes), 'n'],
        ['Signed at', ({ t }) => (t === null ? quiet('not said') : <SignedAt t={t} />), 'wide'],
      ]}
    />
  ),
});

export const auditList = ({ store }: OpsContext): List<typeof noFilters, AuditReport> => ({
  name: 'Audit',
  note: 'Sign-ins, grants and every change, by the token’s name.',
  noun: ['entry', 'entries'],
  filters: noFilters,
  read: (_, paging) => numberedRows(store, 'audit', paging),
  isWatched: () => false,
  empty: () => 'Nothing yet. Sign-ins, grants and every change are shown here.',
  table: (rows) => (
    <Table
      label="Audit"
      rows={rows}
      columns={[
        ['When', (row) => <Instant at={row.at} />],
        ['Who', (row) => row.actor, 'wide'],
        ['What', (row) => codeWords(row.action), 'wide'],
        ['Outcome', Outcome, 'wide'],
        ['On what', (row) => row.target && <code>{row.target}</code>, 'wide'],
      ]}
    />
  ),
});

function Outcome({ outcome }: AuditReport) {
  return <span class={/^ok/.test(outcome) ? '' : 'warn'}>{codeWords(outcome)}</span>;
}

const SHOWN = ['open', 'resolved'] as const;
/** `reason`: codes with commas between them, as `gapsHref` writes it. */
const gapFilters = z.strictObject({ show: z.enum(SHOWN).default('open'), reason: z.string().optional() });

export const gapsList = ({ store, facts }: OpsContext): List<typeof gapFilters, GapReport> => ({
  name: 'Gaps',
  note: 'What is known to be missing or in doubt. Most gaps are repaired by the service itself.',
  noun: ['gap', 'gaps'],
  filters: gapFilters,
  read: ({ show, reason }, paging) =>
    numberedRows(store, 'gaps', { ...paging, open: show === 'open', reasons: reason?.split(',') }),
  isWatched: ({ show }) => show === 'open',
  form: ({ show, reason }) => (
    <Tabs
      label="Which gaps"
      tabs={SHOWN.map((words) => ({
        href: `/gaps?show=${words}`,
        words,
        isShown: words === show && !reason,
      }))}
    />
  ),
  empty({ show, reason }) {
    if (reason !== undefined) return 'No matching gaps.';
    return show === 'open'
      ? 'None is open.'
      : 'None is resolved yet. Each is shown here with its history once it is repaired.';
  },
  table: (gaps, { show }) =>
    gapsByReason(gaps).map(([reason, members]) => (
      <Gaps reason={reason} members={members} isOpen={show === 'open'} eventsOnly={facts().eventsOnly} />
    )),
});

/** By reason, those that need a person first. */
export function gapsByReason<Gap extends { reason: string }>(gaps: readonly Gap[]): [string, Gap[]][] {
  return [...Map.groupBy(gaps, (gap) => gap.reason)].sort(
    ([a], [b]) => Number(gapText(b).needsPerson ?? false) - Number(gapText(a).needsPerson ?? false),
  );
}

const FAILED = <a href="/events?state=failed">Failed events</a>;
const QUARANTINE = <a href="/quarantine">Quarantine</a>;
const REJECTIONS = <a href="/rejections">Rejections</a>;
/** The page that shows what gaps with this reason are about. */
const SHOWN_AT = new Map([
  ['failed_event', FAILED],
  ['no_record_id', FAILED],
  ['unusable_delivery', QUARANTINE],
  ['conflicting_content', QUARANTINE],
  ['rejected_signatures', REJECTIONS],
  ['rejected_timestamp', REJECTIONS],
]);

interface GapsOfReason {
  reason: string;
  members: readonly GapReport[];
  isOpen: boolean;
  eventsOnly: boolean;
}

function Gaps({ reason, members, isOpen, eventsOnly }: GapsOfReason) {
  const { title, remedy, needsPerson, ...guide } = gapText(reason);
  return (
    <section class="group" aria-labelledby={`gap-${reason}`}>
      <h2 id={`gap-${reason}`}>
        {title} {isOpen && needsPerson ? <small class="warn">needs a person</small> : null}
      </h2>
      {isOpen ? (
        <p class="lead">
          {remedy} {SHOWN_AT.get(reason)}
        </p>
      ) : null}
      {isOpen ? <Guide {...guide} members={members} /> : null}
      <Table
        label={`${title}: each of them`}
        rows={members}
        columns={[
          ['About', About],
          ['Opened', (gap) => <Instant at={gap.opened_at} />, 'wide'],
          ['Resolved', ({ resolved_at: at }) => <Instant at={at} otherwise={quiet('open')} />, 'wide'],
          ['Times', (gap) => figure(gap.attempts), 'n'],
          ['Error', (gap) => errorOf(gap, eventsOnly), 'full error'],
        ]}
      />
    </section>
  );
}

/**
 * A command of a single gap can be pasted as it is; for several it leaves open which one. An id that would be an option stays out:
 * `--ids=FILE` sends a file's lines to the API.
 */
function filled(words: string, [gap, ...others]: readonly GapReport[]): string {
  if (gap === undefined || others.length > 0) return words;
  const { id, kind, record_id } = gap;
  return words
    .replace('KIND', kind ?? 'KIND')
    .replace(/\bID$/, () => (record_id === null || record_id.startsWith('-') ? 'ID' : quote(record_id)))
    .replace('gaps resolve NUMBER', `gaps resolve ${id}`);
}

type GuideOf = Partial<GapGuide> & Pick<GapsOfReason, 'members'>;

function Guide({ symptom, check, command, note, members }: GuideOf) {
  if (command === undefined) return null;
  const commandAndNote = (
    <>
      <code>{filled(command, members)}</code>
      <br />
      {quiet(note && filled(note, members))}
    </>
  );
  return (
    <Facts
      facts={[
        ['Symptom', symptom],
        ['Check', check],
        ['Command', commandAndNote],
      ]}
    />
  );
}

function About({ kind, record_id, reason }: GapReport) {
  if (kind === null) return 'the whole mirror';
  // That page leads to the ids and to the button that approves them.
  if (reason === 'deletion_pending') return <a href="/sync-runs">all {kindPlural(kind)}</a>;
  return record_id === null ? `all ${kindPlural(kind)}` : <RecordLink kind={kind} id={record_id} />;
}

/** What a person says who resolves the gap. */
function sayingOf(gap: GapReport): string {
  // The list may show such a record.
  if (gap.reason === 'unaddressable') return 'Leave it unread';
  return isOfUnknownId(gap) ? 'There is no such record' : 'Nothing is missing any more';
}

/** The error, with a button for a gap that only a person can end. */
function errorOf(gap: GapReport, eventsOnly: boolean) {
  if (!mayOperate() || gap.resolved_at !== null || !isEndedByPerson(gap, eventsOnly)) return gap.error;
  return (
    <>
      {gap.error}
      <ActionButton
        action="/actions/resolve-gap"
        className="actions"
        fields={{ id: gap.id }}
        id={`resolve-${gap.id}`}
      >
        {sayingOf(gap)}: resolve
      </ActionButton>
    </>
  );
}
