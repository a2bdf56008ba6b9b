import { Command } from 'commander';
import wrapAnsi from 'wrap-ansi';
import type { Diagnosis } from '../doctor/diagnosis.ts';
import { explainSigned } from '../doctor/explained.ts';
import type { Finding } from '../doctor/findings.ts';
import { idInPath } from '../ops/api/ids.ts';
import type { Configuration, Deliveries, ShownDelivery, Status } from '../ops/api/schemas.ts';
import { commandOf } from '../ops/problems.ts';
import { isWell } from '../ops/verdict.ts';
import { type ListedSetting, listedSettings } from '../platform/config-sources.ts';
import { MirrorError } from '../platform/errors.ts';
import { fingerprint } from '../platform/fingerprint.ts';
import { type Cli, writeJson } from './cli.ts';
import { isSetBy } from './env-file.ts';
import { DifferenceFound } from './exit.ts';
import { helpNote, jsonOption } from './options.ts';
import { found, withService } from './service.ts';
import { requireWell } from './status.ts';
import { printable } from './text.ts';

interface DoctorOptions {
  delivery?: string;
  json?: true;
}

/** `environment`: without what only `.env` has. */
export function doctorCommand(cli: Cli, environment: NodeJS.ProcessEnv): Command {
  return new Command('doctor')
    .description('what is wrong, with the set-up or with one delivery')
    .option('--delivery <id>', 'one that came: an event’s id, or rejection:NUMBER')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      helpNote(
        'Exit codes: of the set-up those of “status --check”, so 3 unless every kind is in_sync or known_only; of a delivery 3 unless it was taken and has had its effect.',
      ),
    )
    .action(async ({ delivery, json }: DoctorOptions) => {
      if (delivery === undefined) return await runDoctor(cli, { environment, json });
      const diagnosis = await explainStored(cli, delivery);
      if (json) writeJson(cli.out, diagnosis);
      else writeDiagnosis(cli, diagnosis);
      if (!diagnosis.healthy)
        throw new DifferenceFound('the delivery was not taken, or has not had its effect');
    });
}

export function writeDiagnosis(cli: Cli, { healthy, causes, known = [], fit }: Diagnosis): void {
  for (const { code, what, remedy } of causes)
    writeFinding(cli, 'WRONG', { subject: code.replaceAll('_', ' '), says: what, remedy });
  for (const says of known)
    writeFinding(cli, healthy ? 'ok' : '', { subject: 'delivery', says, remedy: null });
  const fits = Object.entries(fit ?? {}).map(([name, value]) => `${name.replaceAll('_', ' ')} ${value}`);
  if (fit !== null)
    writeFinding(cli, '', { subject: 'what fits', says: `${fits.join(', ')}.`, remedy: null });
}

/**
 * Says the open problems of the running service, then what it finds of its set-up.
 * `environment`: without what only `.env` has. @throws DifferenceFound exactly where "status --check" does.
 */
export async function runDoctor(
  cli: Cli,
  { environment = cli.env, json }: { environment?: NodeJS.ProcessEnv; json?: true | undefined } = {},
): Promise<void> {
  const [configuration, status] = await withService(cli, ({ get }) =>
    Promise.all([get<Configuration>('configuration'), get<Status>('status')]),
  );
  const { verdict, since, sentence, action, problems } = status;
  const findings = [
    ...(await differences(listedSettings(cli.env, environment), configuration, isSetBy(cli.env, 'OPS_URL'))),
    ...configuration.findings,
  ];
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

/** Of a terminal that does not say how wide it is. */
const COLUMNS = 80;
const SIGN_COLUMNS = 7;

function writeFinding(cli: Cli, sign: string, { subject, says, remedy }: Omit<Finding, 'state'>): void {
  const width = Math.max(40, (cli.out.columns ?? COLUMNS) - SIGN_COLUMNS);
  const text = [`${subject}: ${says}`, ...(remedy === null ? [] : [`What to do: ${remedy}`])];
  // Whole seconds are enough.
  const lines = text.flatMap((each) =>
    wrapAnsi(printable(each).replace(/\.\d{3}Z/g, 'Z'), width).split('\n'),
  );
  const indented = lines.map((line, nth) => `${(nth === 0 ? sign : '').padEnd(SIGN_COLUMNS)}${line}\n`);
  cli.out.write(indented.join(''));
}

/** Which settings of `.env` or of this shell are not those that the service runs with. */
async function differences(
  mine: readonly ListedSetting[],
  { folder, salt, settings, started_at }: Configuration,
  isRemote: boolean,
): Promise<Finding[]> {
  const isItsFolder = !isRemote && folder === process.cwd();
  const changed: string[] = [];
  const others: string[] = [];
  for (const { name, value, source, path, isSecret } of mine) {
    const its = settings.find((each) => each.name === name);
    if (its === undefined || name.startsWith('OPS_URL') || name === 'OPS_TOKEN') continue;
    // The service may have more than this shell, unless its own .env has lost it.
    if (source === 'default' && !(isItsFolder && its.source === '.env')) continue;
    if (isSecret && salt === null) continue;
    const own = isSecret && value !== null ? await fingerprint(value, salt!) : value;
    if (own === (isSecret ? its.fingerprint : its.value)) continue;
    const named = path === null ? name : `${name} (in ${path})`;
    const isChanged = source !== 'environment' && isItsFolder && its.source !== 'environment';
    (isChanged ? changed : others).push(named);
  }
  const finding = (state: Finding['state'], says: string, names: string[], remedy: string) =>
    names.length === 0 ? [] : [{ subject: 'settings', state, says: `${says}: ${names.join(', ')}.`, remedy }];
  const restart = 'Restart the service, so that it runs with what is there now.';
  return [
    ...finding('warning', 'You changed .env and have not restarted the service', changed, restart),
    ...finding(
      'warning',
      `The service, which runs since ${started_at}, has others than you have here`,
      others,
      'If yours are right, set them where the service is started, and restart it.',
    ),
  ];
}

/** What the service says of a delivery, by its id, or of the newest one that names this event. */
export async function explainStored(cli: Cli, id: string): Promise<Diagnosis> {
  const delivery = await withService(cli, async ({ get }) => {
    const show = (each: string) => found(get<ShownDelivery>(`deliveries/${idInPath(each)}`));
    const shown = await show(id);
    if (shown !== null) return shown;
    const { items } = await get<Deliveries>('deliveries', { search: id, limit: 20 });
    const naming = items.find(({ event_id }) => event_id === id);
    return naming === undefined ? null : await show(naming.id);
  });
  if (delivery === null)
    throw new MirrorError('not_found', `no delivery ${id} is kept`, { remedy: 'see “deliveries”' });
  return diagnosisOf(delivery);
}

export function diagnosisOf(delivery: ShownDelivery): Diagnosis {
  const { diagnosis, received_at } = delivery;
  if (diagnosis === null) return explainSigned(delivery);
  const healthy = diagnosis.causes.length === 0;
  const known = [`It is ${delivery.id}, rejected ${received_at}.`];
  if (healthy) known.push('By the present settings it would be accepted: what was wrong has been corrected.');
  return { ...diagnosis, healthy, known };
}
