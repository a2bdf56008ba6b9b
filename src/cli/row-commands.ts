import { Command, Option } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { type ApiClient, answered, at, found, PATIENTLY } from '../ops/api/client.ts';
import type { Differences } from '../ops/api/schemas.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import type { EventState, SyncRunReport } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { describeDifferences } from './full-sync.ts';
import { change, listing, showing, writeOne } from './lists.ts';
import { withApi } from './ops-api.ts';
import { parseKind, rowId, timed } from './options.ts';
import { renderPairs } from './table.ts';
import { printable } from './text.ts';

// Commands over rows that are listed newest first: audit, events, gaps, quarantine, rejections, sync-runs.

const group = (name: string, description: string) => new Command(name).description(description);

export function auditCommand(cli: Cli): Command {
  const audit = group('audit', 'changes, sign-ins and rejected credentials: list');
  listing(cli, timed(audit.command('list').description('entries, newest first')), {
    read: (api, query) => answered(api.audit.$get({ query })),
    columns: ['id', 'at', 'actor', 'action', 'outcome', 'target'],
  });
  return audit;
}

export function rejectionsCommand(cli: Cli): Command {
  const rejections = group('rejections', 'deliveries that were rejected, by reason and sender: list, show');
  const list = rejections
    .command('list')
    .description('rejected deliveries, newest first; COUNT: how many of the same minute a row stands for');
  listing(cli, timed(list), {
    read: (api, query) => answered(api.rejections.$get({ query })),
    columns: ['id', 'at', 'reason', 'address', ['COUNT', 'times'], 'bytes', 't'],
  });
  const show = rejections
    .command('show')
    .description('one rejected delivery with its body, as far as it was kept; "doctor" explains it')
    .addArgument(rowId());
  const missing = (id: number) => `no rejected delivery with the id ${id} is kept`;
  showing(cli, show, { group: 'rejections', missing }, (api, id) =>
    found(api.rejections[':id'].$get(at(id))),
  );
  return rejections;
}

const QUARANTINED = {
  group: 'quarantine',
  noun: 'delivery',
  missing: (id: number) => `no delivery with the id ${id} is in quarantine`,
};

export function quarantineCommand(cli: Cli): Command {
  const description = 'deliveries with a right signature and unusable content: list, show, release';
  const quarantine = group('quarantine', description);
  listing(cli, timed(quarantine.command('list').description('quarantined deliveries, newest first')), {
    read: (api, query) => answered(api.quarantine.$get({ query })),
    columns: ['id', 'received_at', 'reason', 'released_at', 't', ['SHA-256', 'body_sha256']],
  });
  const show = quarantine.command('show').description('one quarantined delivery with its body');
  showing(cli, show.addArgument(rowId()), QUARANTINED, (api, id) =>
    found(api.quarantine[':id'].$get(at(id))),
  );
  quarantine
    .command('release')
    .description('mark a quarantined delivery as handled, and have its record read from the API')
    .addArgument(rowId())
    .action((id: number) =>
      change(cli, QUARANTINED, id, 'released', (api) => api.quarantine[':id'].release.$post(at(id))),
    );
  return quarantine;
}

const GAP = { group: 'gaps', noun: 'gap', missing: (id: number) => `no gap with the id ${id}` };

export function gapsCommand(cli: Cli): Command {
  const gaps = group('gaps', 'what may have been missed, and whether it is resolved: list, show, resolve');
  const list = timed(gaps.command('list').description('gaps, newest first'));
  listing(cli, list.option('--open', 'only those not resolved'), {
    read: (api, query, { open }: { open?: true }) =>
      answered(api.gaps.$get({ query: { ...query, open: open ? 'true' : undefined } })),
    // biome-ignore format: names side by side
    columns: [
      'id', 'reason', 'kind', 'record_id', 'resolved_at', 'opened_at', ['TIMES', 'attempts'], 'error',
    ],
  });
  showing(cli, gaps.command('show').description('one gap').addArgument(rowId()), GAP, async (api, id) => {
    // The list runs from the newest id down, so the row, if there is one, is the first after its successor's key.
    const query = { limit: 1, after: String(id + 1) };
    const gap = (await answered(api.gaps.$get({ query }))).items[0];
    return gap?.id === id ? gap : null;
  });
  gaps
    .command('resolve')
    .description(
      'confirm that nothing is missing any more, for a gap that only a person can resolve: restored, trimmed_event, and without API credentials what a full sync would resolve; or that there is no such record: unresolved, unproven_id; or leave unread what no request can ask for: unaddressable',
    )
    .addArgument(rowId())
    .action((id: number) => change(cli, GAP, id, 'resolved', (api) => api.gaps[':id'].resolve.$post(at(id))));
  return gaps;
}

export function syncRunsCommand(cli: Cli): Command {
  const syncRuns = group('sync-runs', 'full syncs, and what each did: list, show');
  listing(cli, timed(syncRuns.command('list').description('full syncs, newest first')), {
    read: (api, query) => answered(api['sync-runs'].$get({ query })),
    // biome-ignore format: names side by side
    columns: [
      'id', 'kind', 'started_at', ['OUTCOME', ({ outcome }) => outcome ?? 'running'], 'inserted', 'updated', 'deleted', 'seen',
      'reason', 'pages', 'error',
    ],
  });
  showing(
    cli,
    syncRuns.command('show').description('one full sync').addArgument(rowId('number of the full sync')),
    { group: 'sync-runs', missing: (id: number) => `no full sync with the id ${id}` },
    (api, id) => found(api['sync-runs'][':id'].$get(at(id))),
    writeSyncRun,
  );
  return syncRuns;
}

function writeSyncRun(cli: Cli, { differences, ...figures }: SyncRunReport): void {
  cli.out.write(renderPairs(Object.entries(figures)));
  if (differences !== null)
    cli.out.write(describeDifferences('differences', differences as unknown as Differences));
}

const STATES: readonly EventState[] = ['pending', 'processed', 'ignored', 'failed', 'discarded'];

interface EventFilter {
  state?: EventState;
  type?: string;
  kind?: Kind;
  record?: string;
}

const EVENT = { group: 'events', noun: 'event', missing: (id: string) => `no event with the id ${id}` };

export function eventsCommand(cli: Cli): Command {
  const events = group('events', 'accepted events: list, show, retry, discard');
  const list = timed(events.command('list').description('events, newest first'))
    .addOption(new Option('--state <state>', 'only those in this state').choices(STATES))
    .option('--type <type>', 'only this type')
    .option('--kind <kind>', 'only about this kind of record', parseKind)
    .option('--record <id>', 'only about this record');
  listing(cli, list, {
    read: (api, query, { state, type, kind, record: record_id }: EventFilter) =>
      answered(api.events.$get({ query: { ...query, state, type, kind, record_id } })),
    columns: ['received_at', 'state', 'id', 'record_id', 'type', 'error', 'attempts', 'deliveries', 'seq'],
  });
  const show = events.command('show').description('one event with its body');
  showing(
    cli,
    show.argument('<id>', 'the id the sender gave it'),
    EVENT,
    (api, id) => found(api.events[':id'].$get(at(id))),
    (_, event) => {
      writeOne(cli, event);
      if (event.body === null) cli.err.write('Its body was trimmed: it is older than RETENTION_BODY_DAYS.\n');
    },
  );
  events
    .command('retry')
    .description('read a failed event again and process it now')
    .argument('[id]')
    .addOption(
      new Option('--failed-for <gap>', 'instead of an id: all events that failed for this reason').choices([
        'no_record_id',
      ]),
    )
    .action(async (id: string | undefined, { failedFor }: { failedFor?: string }) => {
      if ((id === undefined) === (failedFor === undefined)) {
        throw new UsageError('give the id of an event, or --failed-for', 'see "events list --state failed"');
      }
      if (id === undefined) return await withApi(cli, 'change', (api) => retryAll(cli, api));
      await change(cli, EVENT, id, 'processed', (api) => api.events[':id'].retry.$post(at(id)));
    });
  events
    .command('discard')
    .description('give an event up; it keeps its row')
    .argument('<id>')
    .action((id: string) =>
      change(cli, EVENT, id, 'discarded', (api) => api.events[':id'].discard.$post(at(id))),
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
