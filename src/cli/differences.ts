import type { Differences } from '../ops/context.ts';
import { renderPairs, renderTable } from './table.ts';
import { printable } from './text.ts';

/** What a reading of the API found to differ, as `sync --dry-run` and `sync-runs show` tell it. Ends with a newline. */
export function describeDifferences(
  title: string,
  differences: Differences & { incomplete?: string | null },
): string {
  const { missing, extra, different, repaired, fields, examples, incomplete = null } = differences;
  const figures = `${title}: ${missing} missing, ${extra} extra, ${different} different, ${repaired} repaired\n`;
  const unnamed = missing + extra + different - examples.length;
  const byField = Object.entries(fields).map(
    ([name, count]) => [`  ${name}`, `differs in ${count}`] as const,
  );
  const rows = examples.map((one) => [one.id, one.what, one.fields.join(', '), one.repaired ? 'yes' : 'no']);
  return [
    figures,
    incomplete === null ? '' : `  not the whole list, so nothing absent counts: ${printable(incomplete)}\n`,
    byField.length === 0 ? '' : renderPairs(byField),
    rows.length === 0 ? '' : renderTable(['ID', 'WHAT', 'FIELDS', 'REPAIRED'], rows),
    rows.length > 0 && unnamed > 0 ? `  and ${unnamed} more\n` : '',
  ].join('');
}
