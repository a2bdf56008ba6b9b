import { z } from 'zod';
import type { AuditReport } from '../../store/reports.ts';
import type { OpsContext } from '../context.ts';
import { codeWords } from '../words.ts';
import { type List, numbered } from './list-page.tsx';
import { Instant, Table } from './pieces.tsx';

const filters = z.strictObject({});

export const auditList = ({ store }: Pick<OpsContext, 'store'>): List<typeof filters, AuditReport> => ({
  name: 'Audit',
  note: 'Who came in, and who changed what: by the token’s name, never by its text.',
  noun: ['entry', 'entries'],
  filters,
  read: async (_, paging) => numbered(await store.list('audit', paging), paging, ({ id }) => id),
  isWatched: () => false,
  empty: () => 'Nothing yet. Sign-ins, grants and every change will stand here.',
  table: (rows) => (
    <Table
      label="Audit"
      rows={rows}
      columns={[
        ['When', (row) => <Instant at={row.at} />],
        ['Who', (row) => row.actor, 'wide'],
        ['What', (row) => codeWords(row.action), 'wide'],
        ['Outcome', (row) => <Outcome outcome={row.outcome} />, 'wide'],
        ['On what', (row) => row.target && <code>{row.target}</code>, 'wide'],
      ]}
    />
  ),
});

function Outcome({ outcome }: { outcome: string }) {
  return <span class={/^ok/.test(outcome) ? '' : 'warn'}>{codeWords(outcome)}</span>;
}
