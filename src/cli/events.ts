import { Command, Option } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { type ApiClient, answered, at, found, PATIENTLY } from '../ops/api/client.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import type { EventReport, EventState } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { type Columns, changeOne, listing, showing, type Thing } from './lists.ts';
import { withApi } from './ops-api.ts';
import { parseKind, timed } from './options.ts';
import { printable } from './text.ts';

const STATES: readonly EventState[] = ['pending', 'processed', 'ignored', 'failed', 'discarded'];

const EVENTS: Columns<EventReport> = {
  RECEIVED: 'received_at',
  STATE: 'state',
  ID: 'id',
  RECORD: 'record_id',
  TYPE: 'type',
  ERROR: 'error',
  ATTEMPTS: 'attempts',
  DELIVERIES: 'deliveries',
  SEQ: 'seq',
};
const EVENT: Thing<[string]> = {
  noun: 'event',
  group: 'events',
  missing: (id) => `no event with the id ${id}`,
};

interface EventFilter {
  state?: EventState;
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
    (api, query, { state, type, kind, record: record_id }: EventFilter) =>
      answered(api.events.$get({ query: { ...query, state, type, kind, record_id } })),
  );

  showing(
    cli,
    events
      .command('show')
      .description('one event with its body')
      .argument('<id>', 'the id the sender gave it'),
    EVENT,
    (api, id) => found(api.events[':id'].$get(at(id))),
  );

  events
    .command('retry')
    .description('read a failed event anew and process it, now')
    .argument('[id]')
    .addOption(
      new Option('--failed-for <gap>', 'instead of one: all that failed for this').choices(['no_record_id']),
    )
    .action(async (id: string | undefined, { failedFor }: { failedFor?: string }) => {
      if ((id === undefined) === (failedFor === undefined)) {
        throw new UsageError('give the id of an event, or --failed-for', 'see "events list --state failed"');
      }
      if (id === undefined) return await withApi(cli, 'change', (api) => retryAll(cli, api));
      await changeOne(cli, EVENT, id, 'processed', (api) => api.events[':id'].retry.$post(at(id)));
    });

  events
    .command('discard')
    .description('give an event up; it keeps its row')
    .argument('<id>')
    .action((id: string) =>
      changeOne(cli, EVENT, id, 'discarded', (api) => api.events[':id'].discard.$post(at(id))),
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
