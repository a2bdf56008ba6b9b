import { Command } from 'commander';
import { momentOf } from '../platform/clock.ts';
import { secretSettings, stateOfSecret } from '../service/signing-secrets.ts';
import { askerFor } from './asker.ts';
import { type Cli, writeJson, writeRows, writeText } from './cli.ts';
import { clockOf, configHere, withStore } from './database.ts';
import { notFound } from './lists.ts';
import { helpNote, jsonOption } from './options.ts';
import { DEFAULT_EVENTS, type RegisterOptions, register } from './register.ts';
import { stopSignals } from './stop-signals.ts';

export function webhookCommand(cli: Cli): Command {
  const webhook = new Command('webhook').description('have the compliance service send its events here');

  webhook
    .command('register')
    .description('register the address of this receiver; says what it finds, and asks before it sends')
    .option('--url <url>', 'where deliveries go: https, or loopback, ending in /webhooks')
    .option(
      '--events <patterns>',
      'exact types and families, comma-separated, such as policy.*,vendor.removed',
      DEFAULT_EVENTS,
    )
    .option(
      '--secret-at <place>',
      'place of the signing secret in the answer, such as data.hook.token; if an answer without its secret is stored, nothing is sent',
    )
    .option('--yes', 'ask nothing, and register whatever is found')
    .addHelpText(
      'after',
      helpNote(
        'It works on the database itself, also beside a running service, which takes the new secret up within a second.',
        'Without a terminal it sends nothing if the address is registered here already, or was requested and not answered. If you register it once more, the secret before verifies until you forget it.',
        'Exit code 3: registered, but no signing secret is known yet, or WEBHOOK_SECRET_ENCODING makes no key of it.',
      ),
    )
    .action(async (options: RegisterOptions) => {
      using stop = stopSignals();
      await register(cli, await askerFor(cli, options, stop.signal), options);
    });

  webhook
    .command('list')
    .description('registrations held here, oldest first; nothing lists those of the compliance service')
    .addOption(jsonOption())
    .action((options: { json?: true }) => list(cli, options));

  webhook
    .command('forget')
    .description('remove a registration and its signing secret: deliveries signed with it get 401')
    .argument('<id>', 'as in the list')
    .action((id: string) => forget(cli, id));

  return webhook;
}

async function list(cli: Cli, options: { json?: true }): Promise<void> {
  const config = configHere(cli, 'webhook list', 'whether a secret verifies depends on the settings there');
  await withStore(cli, 'read', async (store) => {
    const secrets = secretSettings(config);
    const shown = (await store.listRegistrations()).map((each) => ({
      id: each.upstreamId,
      secret: stateOfSecret(each, secrets),
      url: each.url,
      events: each.delivers,
      created_at: each.createdAt,
    }));
    if (options.json) return writeJson(cli.out, shown);
    if (shown.length === 0) writeText(cli.out, 'No registration is held here. “webhook register” makes one.');
    writeRows(cli.out, shown, [
      'id',
      ['SECRET', ({ secret }) => secret.replaceAll('_', ' ')],
      'url',
      ['EVENTS', ({ events }) => events.join(', ')],
      'created_at',
    ]);
  });
}

async function forget(cli: Cli, id: string): Promise<void> {
  const config = configHere(cli, 'webhook forget', 'as "webhook register" does');
  await withStore(cli, 'write', async (store) => {
    const entry = { actor: 'cli', action: 'registration_forget', outcome: 'ok', target: id };
    if (!(await store.forgetRegistration(id, entry, momentOf(await clockOf(store))))) {
      throw notFound(`no registration ${id} is held here`, 'webhook list');
    }
    writeText(
      cli.out,
      `Forgotten: ${id}. What its secret signs is not accepted any more. Remove that registration in the compliance service: nothing else ends its deliveries.`,
    );
    const secrets = secretSettings(config);
    const isLeft = (await store.listRegistrations()).some(
      (each) => stateOfSecret(each, secrets) === 'verifies',
    );
    if (!isLeft && config.webhook.secrets().length === 0) {
      cli.err.write(
        'Warning: no other signing secret is known, so every delivery will be answered 503: "webhook register", or set WEBHOOK_SECRETS\n',
      );
    }
  });
}
