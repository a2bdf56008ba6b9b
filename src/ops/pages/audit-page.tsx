import type { AuditReport } from '../../store/reports.ts';
import { codeWords } from '../words.ts';
import { Frame, type ListView } from './layout.tsx';
import { Empty, Instant, Pager, Table, Title } from './pieces.tsx';

export function AuditPage({ rows, next, first }: ListView & { rows: readonly AuditReport[] }) {
  return (
    <Frame title="Audit" current="Audit">
      <Title note="Who came in, and who changed what: by the token’s name, never by its text.">Audit</Title>
      {rows.length === 0 ? (
        <Empty>Nothing yet. Sign-ins, grants and every change will stand here.</Empty>
      ) : (
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
      )}
      <Pager next={next} first={first} words="Earlier entries" />
    </Frame>
  );
}

function Outcome({ outcome }: { outcome: string }) {
  return <span class={/^ok/.test(outcome) ? '' : 'warn'}>{codeWords(outcome)}</span>;
}
