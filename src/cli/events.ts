import { Argument, Command, Option } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { type ApiClient, answered, at, changed, found, PATIENTLY } from '../ops/api/client.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import type { EventReport } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { fullPage, type ListView, listing, notFound, showing } from './lists.ts';
import { withApi } from './ops-api.ts';
import { pagingOf, parseKind, periodOf, type TimedListOptions, timed } from './options.ts';
import { printable } from './text.ts';

const STATES = ['pending', 'processed', 'ignored', 'failed', 'discarded'] as const;

const EVENTS: ListView<EventReport> = [
  ['RECEIVED', (event) => event.received_at],
  ['STATE', (event) => event.state],
  ['ID', (event) => event.id],
  ['RECORD', (event) => event.record_id],
  ['TYPE', (event) => event.type],
  ['ERROR', (event) => event.error],
  ['ATTEMPTS', (event) => event.attempts],
  ['DELIVERIES', (event) => event.deliveries],
  ['SEQ', (event) => event.seq],
];

interface EventFilter extends TimedListOptions {
  state?: (typeof STATES)[number];
  type?: string;
  kind?: Kind;
  record?: string;
}

export function eventsCommand(cli: Cli): Command {
  const events = new Command('events').description('accepted events: list, show, retry, discard');

  listing(
    cli,
    timed(events.command('list'))
      .description('events, newest first')
      .addOption(new Option('--state <state>', 'only those in this state').choices(STATES))
      .option('--type <type>', 'only this type')
      .addOption(new Option('--kind <kind>', 'only about this kind of record').argParser(parseKind))
      .option('--record <id>', 'only about this record'),
    EVENTS,
    (api, options: EventFilter) => {
      const { state, type, kind, record: record_id } = options;
      const filter = { state, type, kind, record_id, ...periodOf(options) };
      return fullPage(pagingOf(options), (paging) =>
        answered(api.events.$get({ query: { ...filter, ...paging } })),
      );
    },
  );

  showing(
    cli,
    events
      .command('show')
      .description('one event with its body')
      .addArgument(new Argument('<id>', 'the id the sender gave it')),
    (api, id: string) => found(api.events[':id'].$get(at(id))),
    noSuchEvent,
  );

  events
    .command('retry')
    .description('read a failed event anew and process it, now')
    .argument('[id]')
    .addOption(
      new Option('--failed-for <gap>', 'instead of one: all that failed for this').choices(['no_record_id']),
    )
    .action((id: string | undefined, options: { failedFor?: string }) =>
      withApi(cli, 'change', async (api) => {
        if ((id === undefined) === (options.failedFor === undefined)) {
          throw new UsageError(
            'give the id of an event, or --failed-for',
            'see "events list --state failed"',
          );
        }
        if (id === undefined) return await retryAll(cli, api);
        const retried = await changed(api.events[':id'].retry.$post(at(id)));
        if (retried === null) throw noSuchEvent(id);
        if ('whyNot' in retried) {
          throw new MirrorError('not_processed', `${id}: ${retried.whyNot}`, { remedy: 'see "events show"' });
        }
        cli.out.write('The event is processed.\n');
      }),
    );

  events
    .command('discard')
    .description('give an event up; it keeps its row')
    .argument('<id>')
    .action((id: string) =>
      withApi(cli, 'change', async (api) => {
        const discarded = await changed(api.events[':id'].discard.$post(at(id)));
        if (discarded === null) throw noSuchEvent(id);
        if ('whyNot' in discarded) {
          throw new MirrorError('not_discarded', `${id}: ${discarded.whyNot}`, {
            remedy: 'see "events show"',
          });
        }
        cli.out.write('The event is discarded.\n');
      }),
    );

  return events;
}

async function retryAll(cli: Cli, api: ApiClient): Promise<void> {
  const { processed, failed, errors } = await answered(
    api.events.retry.$post({ json: { failed_for: 'no_record_id' } }, PATIENTLY),
  );
  cli.out.write(`${processed} processed, ${failed} failed again\n`);
  for (const { id, error } of errors) cli.out.write(`${printable(id)}: ${printable(error)}\n`);
  if (failed > 0) {
    throw new MirrorError('not_processed', `${failed} failed again`, {
      remedy: 'set ID_POINTERS_* to where the id stands in their bodies: see "events show"',
    });
  }
}

function noSuchEvent(id: string): MirrorError {
  return notFound(`no event with the id ${id}`, 'events list');
}
