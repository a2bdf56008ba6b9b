import type { AuditReport } from '../../store/reports.ts';
import type { Identity } from '../access.ts';
import { codeWords } from '../words.ts';
import { Frame } from './layout.tsx';
import { Empty, Instant, Pager, Table, Title } from './pieces.tsx';

export function AuditPage({
  rows,
  identity,
  now,
  next,
  first,
}: {
  rows: readonly AuditReport[];
  identity: Identity;
  now: number;
  next: string | null;
  first: string | null;
}) {
  return (
    <Frame title="Audit" current="Audit" identity={identity} now={now}>
      <Title note="Who came in, and who changed what: by the token’s name, never by its text.">Audit</Title>
      {rows.length === 0 ? (
        <Empty>Nothing yet. Sign-ins, grants and every change will stand here.</Empty>
      ) : (
        <Table label="Audit" head={['When', 'Who', 'What', 'Outcome', 'On what']}>
          {rows.map((row) => (
            <tr>
              <th scope="row">
                <Instant at={row.at} now={now} />
              </th>
              <td class="wide" data-label="Who">
                {row.actor}
              </td>
              <td class="wide" data-label="What">
                {codeWords(row.action)}
              </td>
              <td class="wide" data-label="Outcome">
                <span class={/^ok/.test(row.outcome) ? '' : 'warn'}>{codeWords(row.outcome)}</span>
              </td>
              <td class="wide" data-label="On what">
                {row.target === null ? null : <code>{row.target}</code>}
              </td>
            </tr>
          ))}
        </Table>
      )}
      <Pager next={next} first={first} words="Earlier entries" />
    </Frame>
  );
}
