import { Argument, Command, Option } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { type ApiClient, answered, at, changed, found, PATIENTLY } from '../ops/api/client.ts';
import type { Differences } from '../ops/api/schemas.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import type {
  AuditReport,
  EventReport,
  EventState,
  GapReport,
  Paging,
  Period,
  QuarantineReport,
  RejectionReport,
  SyncRunReport,
} from '../store/reports.ts';
import type { Cli, Columns } from './cli.ts';
import { describeDifferences } from './full-sync.ts';
import { type ListPage, listing, notFound, showing } from './lists.ts';
import { withApi } from './ops-api.ts';
import { parseKind, rowId, timed } from './options.ts';
import { renderPairs } from './table.ts';
import { printable } from './text.ts';

// Commands over rows that are listed newest first: audit, events, gaps, quarantine, rejections, sync-runs.

type Id = string | number;

interface Rows<Row> {
  /** The group of commands. */
  name: string;
  about: string;
  list: {
    about: string;
    options?(command: Command): Command;
    columns: Columns<Row>;
    read(api: ApiClient, query: Paging & Period, options: object): Promise<ListPage<Row>>;
  };
  one: {
    noun: string;
    missing(id: Id): string;
    about: string;
    /** Of its number, if nothing else. */
    argument?: Argument;
    read(api: ApiClient, id: Id): Promise<object | null>;
    write?(cli: Cli, row: object): void;
  };
  change?: { verb: string; about: string } & Change;
}

interface Change {
  /** What the row is then. */
  participle: string;
  send(api: ApiClient, id: Id): Parameters<typeof changed>[0];
}

const REJECTIONS: Rows<RejectionReport> = {
  name: 'rejections',
  about: 'deliveries that were rejected, by reason and sender: list, show',
  list: {
    about: 'rejected deliveries, newest first; COUNT: how many of its minute each stands for',
    columns: ['id', 'at', 'reason', 'address', ['COUNT', 'times'], 'bytes', 't'],
    read: (api, query) => answered(api.rejections.$get({ query })),
  },
  one: {
    noun: 'delivery',
    missing: (id) => `no rejected delivery with the id ${id} is kept`,
    about: 'one rejected delivery with its body, as far as it was kept; "doctor" explains it',
    read: (api, id) => found(api.rejections[':id'].$get(at(id))),
  },
};

const QUARANTINE: Rows<QuarantineReport> = {
  name: 'quarantine',
  about: 'deliveries that were rightly signed and could not be used: list, show, release',
  list: {
    about: 'quarantined deliveries, newest first',
    columns: ['id', 'received_at', 'reason', 'released_at', 't', ['SHA-256', 'body_sha256']],
    read: (api, query) => answered(api.quarantine.$get({ query })),
  },
  one: {
    noun: 'delivery',
    missing: (id) => `no delivery with the id ${id} is in quarantine`,
    about: 'one quarantined delivery with its body',
    read: (api, id) => found(api.quarantine[':id'].$get(at(id))),
  },
  change: {
    verb: 'release',
    about: 'mark a quarantined delivery as seen to, and have what it was about read from the API',
    participle: 'released',
    send: (api, id) => api.quarantine[':id'].release.$post(at(id)),
  },
};

const GAPS: Rows<GapReport> = {
  name: 'gaps',
  about: 'what may have been missed, and whether it is mended: list, show, resolve',
  list: {
    about: 'gaps, newest first',
    options: (command) => timed(command).option('--open', 'only those not resolved'),
    columns: [
      ...(['id', 'reason', 'kind', 'record_id', 'opened_at', 'resolved_at'] as const),
      ...([['TIMES', 'attempts'], 'error'] as const),
    ],
    read: (api, query, { open }: { open?: true }) =>
      answered(api.gaps.$get({ query: { ...query, ...(open ? { open: 'true' } : {}) } })),
  },
  one: {
    noun: 'gap',
    missing: (id) => `no gap with the id ${id}`,
    about: 'one gap',
    async read(api, id) {
      // The list runs from the newest id down, so the row, if there is one, is the first after its successor's key.
      const query = { limit: 1, after: String(Number(id) + 1) };
      const gap = (await answered(api.gaps.$get({ query }))).items[0];
      return gap?.id === id ? gap : null;
    },
  },
  change: {
    verb: 'resolve',
    about: 'say that nothing is missing any more, of a gap that only a person can end (restored)',
    participle: 'resolved',
    send: (api, id) => api.gaps[':id'].resolve.$post(at(id)),
  },
};

const SYNC_RUNS: Rows<SyncRunReport> = {
  name: 'sync-runs',
  about: 'full syncs, and what each did: list, show',
  list: {
    about: 'full syncs, newest first',
    columns: [
      ...(['id', 'kind', 'started_at'] as const),
      ['OUTCOME', ({ outcome }) => outcome ?? 'running'],
      ...(['inserted', 'updated', 'deleted', 'seen', 'reason', 'pages', 'error'] as const),
    ],
    read: (api, query) => answered(api['sync-runs'].$get({ query })),
  },
  one: {
    noun: 'full sync',
    missing: (id) => `no full sync with the id ${id}`,
    about: 'one full sync',
    argument: rowId('number of the full sync'),
    read: (api, id) => found(api['sync-runs'][':id'].$get(at(id))),
    write(cli, { differences, ...figures }: SyncRunReport) {
      cli.out.write(renderPairs(Object.entries(figures)));
      if (differences !== null)
        cli.out.write(describeDifferences('differences', differences as unknown as Differences));
    },
  },
};

const STATES: readonly EventState[] = ['pending', 'processed', 'ignored', 'failed', 'discarded'];

interface EventFilter {
  state?: EventState;
  type?: string;
  kind?: Kind;
  record?: string;
}

const EVENTS: Rows<EventReport> = {
  name: 'events',
  about: 'accepted events: list, show, retry, discard',
  list: {
    about: 'events, newest first',
    options: (command) =>
      timed(command)
        .addOption(new Option('--state <state>', 'only those in this state').choices(STATES))
        .option('--type <type>', 'only this type')
        .option('--kind <kind>', 'only about this kind of record', parseKind)
        .option('--record <id>', 'only about this record'),
    columns: [
      ...(['received_at', 'state', 'id', 'record_id', 'type', 'error'] as const),
      ...(['attempts', 'deliveries', 'seq'] as const),
    ],
    read: (api, query, { state, type, kind, record: record_id }: EventFilter) =>
      answered(api.events.$get({ query: { ...query, state, type, kind, record_id } })),
  },
  one: {
    noun: 'event',
    missing: (id) => `no event with the id ${id}`,
    about: 'one event with its body',
    argument: new Argument('<id>', 'the id the sender gave it'),
    read: (api, id) => found(api.events[':id'].$get(at(id))),
  },
};

const AUDIT: Columns<AuditReport> = ['id', 'at', 'actor', 'action', 'outcome', 'target'];

export function auditCommand(cli: Cli): Command {
  const audit = new Command('audit').description('who changed what, signed in, or was turned down: list');
  const list = timed(audit.command('list').description('entries, newest first'));
  listing(cli, list, AUDIT, (api, query) => answered(api.audit.$get({ query })));
  return audit;
}

export const rejectionsCommand = (cli: Cli) => groupOf(cli, REJECTIONS);
export const quarantineCommand = (cli: Cli) => groupOf(cli, QUARANTINE);
export const gapsCommand = (cli: Cli) => groupOf(cli, GAPS);
export const syncRunsCommand = (cli: Cli) => groupOf(cli, SYNC_RUNS);

export function eventsCommand(cli: Cli): Command {
  const events = groupOf(cli, EVENTS);
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
      const send: Change['send'] = (api) => api.events[':id'].retry.$post(at(id));
      await changeOne(cli, EVENTS, id, { participle: 'processed', send });
    });
  events
    .command('discard')
    .description('give an event up; it keeps its row')
    .argument('<id>')
    .action((id: string) => {
      const send: Change['send'] = (api) => api.events[':id'].discard.$post(at(id));
      return changeOne(cli, EVENTS, id, { participle: 'discarded', send });
    });
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

function groupOf<Row>(cli: Cli, rows: Rows<Row>): Command {
  const { name, about, list, one, change } = rows;
  const group = new Command(name).description(about);
  const { options = timed } = list;
  listing(cli, options(group.command('list').description(list.about)), list.columns, list.read);
  const show = group
    .command('show')
    .description(one.about)
    .addArgument(one.argument ?? rowId());
  showing(cli, show, name, one.missing, one.read, one.write);
  if (change === undefined) return group;
  group
    .command(change.verb)
    .description(change.about)
    .addArgument(rowId())
    .action((id: number) => changeOne(cli, rows, id, change));
  return group;
}

async function changeOne<Row>(
  cli: Cli,
  { name, one }: Rows<Row>,
  id: Id,
  { participle, send }: Change,
): Promise<void> {
  await withApi(cli, 'change', async (api) => {
    const outcome = await changed(send(api, id));
    if (outcome === null) throw notFound(one.missing(id), `${name} list`);
    if ('whyNot' in outcome) {
      throw new MirrorError(`not_${participle}`, `${one.noun} ${id}: ${outcome.whyNot}`, {
        remedy: `see "${name} show"`,
      });
    }
    cli.out.write(`The ${one.noun} is ${participle}.\n`);
  });
}
