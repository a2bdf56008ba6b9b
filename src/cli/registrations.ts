import { Command, Option } from 'commander';
import { loadConfig } from '../platform/config.ts';
import { standingOf } from '../service/signing-secrets.ts';
import type { Cli } from './cli.ts';
import { clockOf, refuseFromAfar, withPresentStore, withStore } from './database.ts';
import { notFound } from './lists.ts';
import { helpNote, jsonOption, parseDuration } from './options.ts';
import { secretSettings, writeHeld } from './register/held.ts';
import { printable } from './text.ts';

/** In the audit, as for every change from the shell. */
const ACTOR = 'cli';

export function registrationsCommand(cli: Cli): Command {
  const registrations = new Command('registrations').description(
    'what “register” made, and whether its secrets verify deliveries: list, forget',
  );

  registrations
    .command('list')
    .description('registrations held here, oldest first; nothing lists those of the compliance service')
    .addOption(jsonOption())
    .action((options: { json?: true }) => list(cli, options));

  registrations
    .command('forget')
    .description('take a registration away with its signing secret: what that signs is answered 401')
    .argument('<id>', 'as in the list')
    .addOption(
      new Option('--after <time>', 'let its secret go on verifying for so long, such as 24h').argParser(
        parseDuration,
      ),
    )
    .addHelpText(
      'after',
      helpNote(
        'It works on the database itself, also beside a running service, which obeys within a second.',
        'With --after, a second one without it ends the wait, and a registration with the same id again undoes it.',
      ),
    )
    .action((id: string, options: { after?: number }) => forget(cli, id, options));

  return registrations;
}

async function list(cli: Cli, options: { json?: true }): Promise<void> {
  const config = loadConfig(cli.env);
  refuseFromAfar(config, 'registrations', 'whether a secret verifies depends on the settings there');
  await withStore(cli, async (store) => {
    const secrets = secretSettings(config, await clockOf(store));
    writeHeld(cli, await store.listRegistrations(), { json: options.json, secrets });
  });
}

async function forget(cli: Cli, id: string, { after = 0 }: { after?: number }): Promise<void> {
  const config = loadConfig(cli.env);
  refuseFromAfar(config, 'registrations', 'as "register" does');
  await withPresentStore(cli, config, async (store) => {
    const clock = await clockOf(store);
    const now = { wall: clock.wall(), steady: clock.steady() };
    const until = now.wall + after;
    const entry = { actor: ACTOR, action: 'registration_forget', outcome: 'ok', target: id };
    if (!(await store.forgetRegistration(id, until, entry, now))) {
      throw notFound(`no registration ${id} is held here`, 'registrations list');
    }
    const name = printable(id);
    const remove = 'Remove that registration in the compliance service: nothing else ends its deliveries.\n';
    cli.out.write(
      after === 0
        ? `Forgotten: ${name}. What its secret signs is answered 401 from now on. ${remove}`
        : `The secret of ${name} verifies until ${new Date(until).toISOString()} and is then forgotten. ${remove}`,
    );
    const secrets = { ...secretSettings(config, clock), now: until };
    const left = (await store.listRegistrations()).filter(
      (each) => standingOf(each, secrets).standing === 'verifies',
    );
    if (left.length === 0 && config.webhook.secrets().length === 0) {
      cli.err.write(
        'Warning: no other signing secret is known, so every delivery will be answered 503: "register", or set WEBHOOK_SECRETS\n',
      );
    }
  });
}
