import { Command } from 'commander';
import { loadConfig } from '../config.ts';
import type { StoreSummary } from '../store/reports.ts';
import { type Cli, writeJson, writeTable } from './cli.ts';
import { holderOfDatabase } from './database.ts';
import { jsonOption } from './options.ts';
import { withReports } from './reports.ts';
import { renderPairs } from './table.ts';

export function statusCommand(cli: Cli): Command {
  return new Command('status')
    .description('how far the mirror can be trusted, kind by kind')
    .addOption(jsonOption())
    .action((options: { json?: true }) =>
      withReports(cli, async (reports) => {
        const summary = await reports.summary();
        const { remote, databaseUrl } = loadConfig(cli.env);
        if (remote !== null) {
          if (options.json) writeJson(cli.out, { service: { ops_url: remote.url.href }, ...summary });
          else {
            cli.out.write(`Service at ${remote.url.href}\n\n`);
            writeSummary(cli, summary);
          }
          return;
        }
        const holder = await holderOfDatabase(databaseUrl);
        if (options.json) {
          const service = holder && { pid: holder.pid, ops_url: holder.opsUrl, started_at: holder.startedAt };
          writeJson(cli.out, { service, ...summary });
          return;
        }
        cli.out.write(
          holder
            ? `Service running: process ${holder.pid}, operators' page at ${holder.opsUrl ?? 'an address not known yet'}\n\n`
            : 'No service is running on this database.\n\n',
        );
        writeSummary(cli, summary);
      }),
    );
}

function writeSummary(cli: Cli, summary: StoreSummary): void {
  writeTable(
    cli.out,
    ['KIND', 'VERDICT', 'IN STEP SINCE', 'RECORDS', 'UNVERIFIED', 'LAST FULL SWEEP', 'OPEN GAPS', 'COVERAGE'],
    summary.kinds.map((kind) => [
      kind.kind,
      kind.verdict,
      kind.in_step_since,
      kind.records,
      kind.unverified,
      kind.last_full_sweep_at,
      kind.open_gaps,
      kind.coverage,
    ]),
  );
  const { pending, done, ignored, dead, discarded } = summary.events;
  cli.out.write('\n');
  cli.out.write(
    renderPairs([
      [
        'events',
        `${pending} pending, ${done} done, ${ignored} ignored, ${dead} dead, ${discarded} discarded`,
      ],
      ['oldest pending', summary.oldest_pending_at],
      ['last delivery', summary.last_delivery_at],
      ['quarantined', summary.quarantined],
      ['open gaps', summary.open_gaps],
      ['database', `${summary.database_bytes} bytes, and ${summary.wal_bytes} in its log`],
    ]),
  );
}
