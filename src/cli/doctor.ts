import { Command } from 'commander';
import type { Diagnosis } from '../doctor/diagnosis.ts';
import { type Check, judge } from '../doctor/judge.ts';
import { UsageError } from '../platform/errors.ts';
import { type Cli, writeJson } from './cli.ts';
import { configHere } from './database.ts';
import { type DeliveryOptions, explainRecorded, explainStored } from './doctor/delivery.ts';
import { examine } from './doctor/examine.ts';
import { DifferenceFound } from './exit.ts';
import { helpNote, jsonOption } from './options.ts';
import { printable } from './text.ts';

interface DoctorOptions extends DeliveryOptions {
  delivery?: string;
  json?: true;
}

const NOT_FROM_AFAR = 'it looks at the settings and the secrets of the service as well';

const several = (text: string, before: readonly string[] | undefined) => [...(before ?? []), text];

export function doctorCommand(cli: Cli): Command {
  return new Command('doctor')
    .description('what is wrong: with one delivery (--body or --delivery), or with the running configuration')
    .option(
      '--header <line>',
      'the signature header, its value or "Name: value"; once more for each other header that is signed',
      several,
    )
    .option('--body <file>', 'the body of one delivery, byte for byte as it arrived')
    .option(
      '--secret <secret>',
      'a signing secret to try besides the configured ones; any number of times',
      several,
    )
    .option('--retired <secret>', 'a secret that is no longer in use, to try', several)
    .option('--received-at <instant>', 'when it arrived: ISO 8601, or seconds since 1970 (default: now)')
    .option(
      '--delivery <id>',
      'one that came here: an event id, or a number as rejection:<number> or quarantine:<number>',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      helpNote(
        'Exit codes: 0 nothing needs a person, 3 something does, 1 it could not look, 2 bad usage or settings, a database that “serve” does not take included.',
      ),
    )
    .action((options: DoctorOptions) => doctor(cli, options));
}

async function doctor(cli: Cli, options: DoctorOptions): Promise<void> {
  const isRecorded = options.body !== undefined || options.header !== undefined;
  if (options.delivery !== undefined) {
    if (options.body !== undefined) {
      throw new UsageError(
        '--delivery names a delivery that is kept: leave --body away',
        '--header may give the value of a header that is signed too',
      );
    }
    configHere(cli, 'doctor --delivery', NOT_FROM_AFAR);
    report(cli, await explainStored(cli, options.delivery, options), options);
  } else if (isRecorded) {
    report(cli, await explainRecorded(cli, options), options);
  } else {
    await checkUp(cli, options);
  }
}

function report(cli: Cli, diagnosis: Diagnosis, options: DoctorOptions): void {
  if (options.json) writeJson(cli.out, diagnosis);
  else {
    for (const { code, what, remedy } of diagnosis.causes) {
      cli.out.write(`${printable(what)}  [${code}]\n  What to do: ${printable(remedy)}\n`);
    }
    for (const sentence of diagnosis.known ?? []) cli.out.write(`${printable(sentence)}\n`);
    if (diagnosis.healthy && diagnosis.known === undefined)
      cli.out.write('The signature is right, and the service would take this delivery.\n');
    if (diagnosis.fit !== null) {
      const { signed_content, hash, secret, secret_reading, body, signature } = diagnosis.fit;
      cli.out.write(
        `What fits: ${hash} over ${JSON.stringify(signed_content)}, secret ${printable(secret)} ${printable(secret_reading)}, body ${body}, signature ${printable(signature)}.\n`,
      );
    }
  }
  if (diagnosis.healthy) return;
  throw new DifferenceFound(
    diagnosis.known === undefined ? 'the delivery would be rejected' : 'the delivery has not had its effect',
  );
}

const SIGNS = { ok: 'ok     ', warning: 'warning', wrong: 'WRONG  ', skipped: '-      ' } as const;

/** Judges the whole set-up. Rejects with DifferenceFound where something is wrong. */
export async function checkUp(cli: Cli, options: Pick<DoctorOptions, 'json'>): Promise<void> {
  const found = await examine(cli, configHere(cli, 'doctor', NOT_FROM_AFAR));
  const checks: Check[] = judge(found);
  const wrong = checks.filter(({ state }) => state === 'wrong');
  if (options.json) writeJson(cli.out, { healthy: wrong.length === 0, checks });
  else {
    const width = Math.max(...checks.map(({ name }) => name.length));
    for (const { name, state, detail, remedy } of checks) {
      cli.out.write(`${SIGNS[state]}  ${name.padEnd(width)}  ${printable(detail)}\n`);
      if (remedy !== null) cli.out.write(`${' '.repeat(width + 11)}What to do: ${printable(remedy)}\n`);
    }
  }
  const { problem, remedy, isSetting } = found.database;
  if (problem !== null && isSetting) throw new UsageError(problem, remedy ?? undefined);
  if (wrong.length > 0) throw new DifferenceFound(`wrong: ${wrong.map(({ name }) => name).join(', ')}`);
}
