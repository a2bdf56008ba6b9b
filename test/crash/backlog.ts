import { parseArgs } from 'node:util';
import { workOffBacklog } from './backlog-runs.ts';
import { inTemporaryDirectory } from './harness.ts';

/** By hand, after a build: `npx node test/crash/backlog.ts --events 100000`. */
const { values } = parseArgs({ options: { events: { type: 'string', default: '100000' } } });
const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;

await inTemporaryDirectory(async (directory) => {
  for (const events of [1_000, Number(values.events)]) {
    const report = await workOffBacklog(directory, events);
    const { samples, findings } = report;
    const tenths = Array.from(
      { length: 10 },
      (_, n) => samples[Math.floor((n * samples.length) / 10)] ?? Number.NaN,
    );
    process.stdout.write(
      `${events} pending: worked off in ${report.seconds.toFixed(1)} s, highest RSS ${mib(report.maxRssBytes)}, ` +
        `on the way ${tenths.map(mib).join(' ')}; ${JSON.stringify(findings.states)}, ` +
        `not applied once ${findings.notAppliedOnce.length}, exit code ${report.exitCode}\n`,
    );
  }
});
