import { z } from 'zod';
import type { AuditReport } from '../../store/reports.ts';
import type { OpsContext } from '../context.ts';
import { codeWords } from '../words.ts';
import type { List } from './list-page.tsx';
import { Instant } from './pieces.tsx';

const noFilters = z.strictObject({});

export const auditList = ({ store }: OpsContext): List<typeof noFilters, AuditReport> => ({
  name: 'Audit',
  note: 'Sign-ins, grants and every change, by the token’s name.',
  noun: ['entry', 'entries'],
  filters: noFilters,
  read: (_, paging) => store.list('audit', paging),
  empty: () => 'Nothing yet. Sign-ins, grants and every change are shown here.',
  columns: [
    ['When', (row) => <Instant at={row.at} />],
    ['Who', (row) => row.actor, 'wide'],
    ['What', (row) => codeWords(row.action), 'wide'],
    [
      'Outcome',
      ({ outcome }) => <span class={/^ok/.test(outcome) ? '' : 'warn'}>{codeWords(outcome)}</span>,
      'wide',
    ],
    ['On what', (row) => row.target && <code>{row.target}</code>, 'wide'],
  ],
});
