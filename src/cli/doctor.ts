import { Command } from 'commander';
import type { Configuration, Status } from '../ops/api/schemas.ts';
import { commandOf } from '../ops/problems.ts';
import { isWell } from '../ops/verdict.ts';
import { type Cli, writeJson, writeText } from './cli.ts';
import { helpNote, jsonOption } from './options.ts';
import { withService } from './service.ts';
import { requireWell } from './status.ts';

export function doctorCommand(cli: Cli): Command {
  return new Command('doctor')
    .description('what is wrong, and what the running service finds of its set-up')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      helpNote(
        'Exit codes: those of “status --check”, so 3 unless every kind is in_sync or known_only. “deliveries show ID” explains one delivery.',
      ),
    )
    .action((options: { json?: true }) => runDoctor(cli, options));
}

/**
 * Says the open problems of the running service, then what it finds of its set-up. @throws DifferenceFound exactly where
 * "status --check" does.
 */
export async function runDoctor(cli: Cli, { json }: { json?: true } = {}): Promise<void> {
  const [{ findings }, status] = await withService(cli, ({ get }) =>
    Promise.all([get<Configuration>('configuration'), get<Status>('status')]),
  );
  const { verdict, since, sentence, action, problems } = status;
  if (json) writeJson(cli.out, { verdict, since, sentence, action, problems, findings });
  else {
    for (const problem of problems) {
      const { kind, record_id, reason, error } = problem;
      const about = [kind, record_id].filter((each) => each !== null).join(' ');
      const subject = about === '' ? reason.replaceAll('_', ' ') : `${reason.replaceAll('_', ' ')}, ${about}`;
      const says = error === null ? problem.sentence : `${problem.sentence} Its error: ${error}`;
      const command = commandOf(problem);
      const remedy =
        command === null || command === 'doctor' ? problem.action : `${problem.action} Command: ${command}`;
      writeFinding(cli, problem.needs === 'you' ? 'WRONG' : '-', { subject, says, remedy });
    }
    // What a problem says, it has said.
    if (problems.every((each) => each.sentence !== sentence))
      writeFinding(cli, isWell(verdict) ? 'ok' : '-', { subject: 'mirror', says: sentence, remedy: action });
    for (const each of findings.filter(({ state }) => state === 'warning')) writeFinding(cli, 'look', each);
    for (const each of findings.filter(({ state }) => state === 'ok')) writeFinding(cli, 'ok', each);
  }
  requireWell(status);
}

/** Of the words that say how it is. */
const SIGN_COLUMNS = 7;

/** Whole seconds are enough. */
export function writeFinding(
  cli: Cli,
  sign: string,
  { subject, says, remedy }: Omit<Configuration['findings'][number], 'state'>,
): void {
  const text = `${sign.padEnd(SIGN_COLUMNS)}${subject}: ${says}`;
  const action = remedy === null ? [] : [`${' '.repeat(SIGN_COLUMNS)}What to do: ${remedy}`];
  for (const line of [text, ...action]) writeText(cli.out, line.replace(/\.\d{3}Z/g, 'Z'));
}
