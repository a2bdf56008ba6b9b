import { Command } from 'commander';
import type { Status, StatusThen } from '../ops/api/schemas.ts';
import { isWell } from '../ops/verdict.ts';
import { bytes, duration } from '../ops/words.ts';
import { loadConfig } from '../platform/config.ts';
import { type Cli, type Columns, writeJson, writeRows, writeTable, writeText } from './cli.ts';
import { DifferenceFound } from './exit.ts';
import { atOption, jsonOption } from './options.ts';
import { writeProblem } from './problems.ts';
import { notRunning, runningService } from './service.ts';
import { pauseWords } from './sync.ts';
import type { Cell } from './table.ts';
import { printable } from './text.ts';

type KindRow = Status['kinds'][number];

/** On a terminal an instant would take two lines, so it is shown as the time since. */
function kindColumns(isTerminal: boolean): Columns<KindRow> {
  const when = (instant: string | null) => (isTerminal && instant !== null ? timeSince(instant) : instant);
  return [
    'kind',
    'verdict',
    'records',
    'unverified',
    'problems',
    ['COMPLETE THROUGH', (row) => when(row.complete_through)],
    ['LAST FULL SYNC', (row) => when(row.last_full_sync_at)],
  ];
}
/** Its blanks do not break. */
const timeSince = (instant: string) =>
  `${duration(Math.max(0, Date.now() - Date.parse(instant)))} ago`.replaceAll(' ', '\u00a0');
const KEPT = ['KIND', 'VERDICT', 'PROBLEMS'];

export function statusCommand(cli: Cli): Command {
  return new Command('status')
    .description('how far the mirror can be trusted, kind by kind')
    .option('--check', 'exit with 3 unless every kind is in_sync or known_only, for scripts')
    .addOption(atOption())
    .addOption(jsonOption())
    .action(async ({ json, check, at }: { json?: true; check?: true; at?: string }) => {
      const config = loadConfig(cli.env);
      const service = await runningService(config);
      if (service === null) {
        const error = await notRunning(config);
        throw check ? new DifferenceFound(error.message, error.remedy) : error;
      }
      const status = await service.get<Status | StatusThen>('status', { at });
      if (json) writeJson(cli.out, status);
      else if ('digest' in status) writeThen(cli, status);
      else writeStatus(cli, service.url, status);
      if (check) requireWell(status);
    });
}

/** The one judgement of "status --check" and "doctor". @throws DifferenceFound */
export function requireWell({ verdict, kinds, ...status }: Status | StatusThen): void {
  if (isWell(verdict)) return;
  const others = kinds.filter((each) => !isWell(each.verdict)).map((each) => `${each.kind}: ${each.verdict}`);
  throw new DifferenceFound(
    `not in sync: ${others.join(', ') || ('sentence' in status && status.sentence)}`,
    'see “problems” and “doctor”',
  );
}

/** What an auditor asks: whether the copy was right then, and what was in it. */
function writeThen(cli: Cli, { at, verdict, kinds, problems, open_problems, digest }: StatusThen): void {
  writeText(cli.out, `${verdict} at ${at}`);
  cli.out.write('\n');
  const columns: Columns<StatusThen['kinds'][number]> = [
    'kind',
    'verdict',
    ['COMPLETE', (row) => (row.complete ? 'yes' : 'no')],
    'records',
    'since',
    ['LAST FULL SYNC', (row) => row.last_full_sync?.finished_at ?? null],
  ];
  writeRows(cli.out, kinds, columns, ['KIND', 'VERDICT', 'RECORDS']);
  cli.out.write('\n');
  for (const problem of problems) writeProblem(cli, problem);
  if (problems.length > 0) cli.out.write('\n');
  writeTable(cli.out, null, [
    ['problems open then', open_problems],
    ['SHA-256 of the records', digest],
  ]);
}

function writeStatus(cli: Cli, url: string, status: Status): void {
  const { verdict, sentence, since, kinds, problems, events, deliveries, upstream } = status;
  writeText(cli.out, `${verdict}${since === null ? '' : ` since ${since}`}: ${sentence}`);
  if (status.action !== null) writeText(cli.out, `What to do: ${status.action}`);
  cli.out.write('\n');
  writeRows(cli.out, kinds, kindColumns(cli.out.isTerminal), KEPT);
  cli.out.write('\n');
  for (const problem of problems) writeProblem(cli, problem);
  if (problems.length > 0) cli.out.write('\n');
  const { waits_until: until } = upstream;
  const lines: [string, Cell][] = [
    ['events', events && `${events.pending} pending, ${events.failed} failed`],
    ['last delivery', deliveries.last_at],
    ['quarantined', deliveries.quarantined],
    ...(until === null ? [] : [['compliance service', pauseWords(until)] as const]),
    ...status.learned_pointers.map(
      ({ kind, path, leads }) =>
        [`ids of ${kind}`, `in events also at ${path}${leads ? ', before the defaults' : ''}`] as const,
    ),
    ['database', status.database && bytes(status.database.bytes)],
    ['operators’ page', url],
  ].map(([name, value]) => [printable(String(name)), value as Cell]);
  writeTable(cli.out, null, lines);
}
