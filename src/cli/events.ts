import { Argument, Command, Option } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { whyNot } from '../ops/operations.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import type { EventPage, EventReport, EventState, Paging } from '../store/reports.ts';
import { type Cli, writeJson } from './cli.ts';
import { type ListView, writeList } from './lists.ts';
import { type Operator, withOperator } from './operator.ts';
import { afterOption, jsonOption, type ListOptions, limitOption, pagingOf, parseKind } from './options.ts';
import { type Reports, withReports } from './reports.ts';
import { renderPairs } from './table.ts';
import { printable } from './text.ts';

const STATES: readonly EventState[] = ['pending', 'processed', 'ignored', 'failed', 'discarded'];

const EVENTS: ListView<EventReport> = {
  keyOf: (event) => String(event.seq),
  columns: [
    ['SEQ', (event) => event.seq],
    ['ID', (event) => event.id],
    ['TYPE', (event) => event.type],
    ['RECORD', (event) => event.record_id],
    ['STATE', (event) => event.state],
    ['RECEIVED', (event) => event.received_at],
    ['DELIVERIES', (event) => event.deliveries],
    ['ATTEMPTS', (event) => event.attempts],
    ['ERROR', (event) => event.error],
  ],
};

interface EventFilter extends ListOptions {
  state?: EventState;
  type?: string;
  kind?: Kind;
  record?: string;
}

export function eventsCommand(cli: Cli): Command {
  const events = new Command('events').description('accepted events: list, show, retry, discard');

  events
    .command('list')
    .description('events, newest first')
    .addOption(new Option('--state <state>', 'only those in this state').choices(STATES))
    .option('--type <type>', 'only this type')
    .addOption(new Option('--kind <kind>', 'only about this kind of record').argParser(parseKind))
    .option('--record <id>', 'only about this record')
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((options: EventFilter) =>
      withReports(cli, async (store) => {
        const filter = {
          state: options.state,
          type: options.type,
          kind: options.kind,
          recordId: options.record,
        };
        const { items, next } = await findEvents(store, filter, pagingOf(options));
        writeList(cli, items, options, EVENTS, next);
      }),
    );

  events
    .command('show')
    .description('one event with its body')
    .addArgument(new Argument('<id>', 'the id the sender gave it'))
    .addOption(jsonOption())
    .action((id: string, options: { json?: true }) =>
      withReports(cli, async (store) => {
        const event = await store.showEvent(id);
        if (event === null) throw noSuchEvent(id);
        if (options.json) writeJson(cli.out, event);
        else cli.out.write(renderPairs(Object.entries(event)));
      }),
    );

  events
    .command('retry')
    .description('read a failed event anew and process it, now')
    .argument('[id]')
    .addOption(
      new Option('--failed-for <gap>', 'instead of one: all that failed for this').choices(['no_record_id']),
    )
    .action((id: string | undefined, options: { failedFor?: string }) =>
      withOperator(cli, async (operator) => {
        if ((id === undefined) === (options.failedFor === undefined)) {
          throw new UsageError(
            'give the id of an event, or --failed-for',
            'see "events list --state failed"',
          );
        }
        if (id === undefined) return await retryAll(cli, operator);
        const why = await operator.retryEvent(id);
        if (why === whyNot({ outcome: 'unknown' })) throw noSuchEvent(id);
        if (why !== null)
          throw new MirrorError('not_processed', `${id}: ${why}`, { remedy: 'see "events show"' });
        cli.out.write('The event is processed.\n');
      }),
    );

  events
    .command('discard')
    .description('give an event up; it keeps its row')
    .argument('<id>')
    .action((id: string) =>
      withOperator(cli, async (operator) => {
        if (!(await operator.discardEvent(id))) throw notInState(id, 'failed or pending');
        cli.out.write('The event is discarded.\n');
      }),
    );

  return events;
}

async function retryAll(cli: Cli, operator: Operator): Promise<void> {
  const { processed, failed, errors } = await operator.retryWithoutRecord();
  cli.out.write(`${processed} processed, ${failed} failed again\n`);
  for (const { id, error } of errors) cli.out.write(`${printable(id)}: ${printable(error)}\n`);
  if (failed > 0) {
    throw new MirrorError('not_processed', `${failed} failed again`, {
      remedy: 'set ID_POINTERS_* to where the id stands in their bodies: see "events show"',
    });
  }
}

/** One page looks at a bounded number of events. A command has time: it goes on until its rows are full. */
async function findEvents(
  store: Pick<Reports, 'listEvents'>,
  filter: Parameters<Reports['listEvents']>[0],
  { limit, after }: Paging,
): Promise<Pick<EventPage, 'items' | 'next'>> {
  const items: EventReport[] = [];
  let next: string | null | undefined = after;
  do {
    const page: EventPage = await store.listEvents(filter, {
      limit: limit - items.length,
      after: next ?? undefined,
    });
    items.push(...page.items);
    next = page.next;
  } while (next !== null && items.length < limit);
  return { items, next };
}

function noSuchEvent(id: string): MirrorError {
  return new MirrorError('not_found', `no event with the id ${id}`, { remedy: 'see "events list"' });
}

function notInState(id: string, states: string): MirrorError {
  return new MirrorError('not_found', `no event with the id ${id} is ${states}`, {
    remedy: 'see "events show"',
  });
}
