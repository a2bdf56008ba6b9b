import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { type ApiClient, answered, at, found } from '../ops/api/client.ts';
import type { Delivery } from '../ops/api/schemas.ts';
import { MirrorError } from '../platform/errors.ts';
import { type ListedOutcome, PAGE_LIMIT_MAX, type Period } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { listing, showing } from './lists.ts';
import { withApi } from './ops-api.ts';
import { parseKind, sinceOption, untilOption } from './options.ts';
import { stopSignals } from './stop-signals.ts';
import { printable } from './text.ts';

/** How often `follow` asks what has come in. Milliseconds. */
const FOLLOW_EVERY_MS = 1_000;

const OUTCOMES: readonly ListedOutcome[] = ['accepted', 'duplicate', 'quarantined', 'rejected'];

interface Filter {
  outcome?: ListedOutcome;
  type?: string;
  kind?: Kind;
  search?: string;
}

export function deliveriesCommand(cli: Cli): Command {
  const deliveries = new Command('deliveries').description(
    'all that came in, with its outcome: list, show, follow',
  );

  const list = filtered(deliveries.command('list').description('deliveries, newest first'));
  listing(cli, list.addOption(untilOption()), {
    read: (api, query, options: Filter) =>
      answered(api.deliveries.$get({ query: { ...query, ...filterOf(options) } })),
    columns: [
      'received_at',
      'outcome',
      'state',
      ['ID', idOf],
      'record_id',
      'type',
      'reason',
      ['FROM', 'address'],
      'answer',
      ['TOOK', ({ answered_in_ms: ms }) => (ms === null ? null : `${ms} ms`)],
      ['TIMES', 'deliveries'],
    ],
  });

  const show = deliveries
    .command('show')
    .description('one delivery with its body; "doctor --delivery" explains it')
    .argument('<id>', 'as listed: of an event, or quarantine:NUMBER, or rejection:NUMBER');
  const missing = (id: string) => `no delivery ${id} is kept`;
  showing(cli, show, { group: 'deliveries', missing }, showDelivery);

  filtered(deliveries.command('follow').description('show deliveries as they come in, until Ctrl-C'))
    .option('--json', 'print a line of JSON for each')
    .action((options: Filter & Period & { json?: true }) =>
      withApi(cli, 'read', (api) => follow(cli, api, options)),
    );

  return deliveries;
}

function filtered(command: Command): Command {
  return command
    .addOption(new Option('--outcome <outcome>', 'only with this outcome').choices(OUTCOMES))
    .option('--type <type>', 'only of events of this type')
    .option('--kind <kind>', 'only about this kind of record', parseKind)
    .option('--search <text>', 'only with this id of the event or the record, or with this text in the body')
    .addOption(sinceOption());
}

const filterOf = ({ outcome, type, kind, search }: Filter) => ({ outcome, type, kind, search });

/** The id that "show" and "doctor --delivery" take. */
function idOf({ outcome, number, event_id }: Delivery): string {
  if (outcome === 'accepted' || outcome === 'duplicate') return event_id ?? '';
  return `${outcome === 'quarantined' ? 'quarantine' : 'rejection'}:${number}`;
}

async function showDelivery(api: ApiClient, id: string): Promise<object | null> {
  const [, where, number] = /^(quarantine|rejection):([1-9]\d{0,14})$/.exec(id) ?? [];
  if (where === undefined || number === undefined) return await found(api.events[':id'].$get(at(id)));
  return where === 'quarantine'
    ? await found(api.quarantine[':id'].$get(at(number)))
    : await found(api.rejections[':id'].$get(at(number)));
}

/** Deliveries this recent are read again, because their state changes. Compared with the service's instants, not with our clock. */
const CHANGING_MS = 60_000;

/** Prints a line for each delivery, oldest first, and another when its event's state or the count of a rejection changes. */
async function follow(cli: Cli, api: ApiClient, options: Filter & Period & { json?: true }): Promise<void> {
  using stop = stopSignals();
  const shown = new Map<string, { state: string; receivedAt: string }>();
  const { at: now } = await answered(api.status.$get());
  let since = options.since ?? now;
  if (cli.err.isTerminal) cli.err.write('Waiting for deliveries. Ctrl-C ends it.\n');
  async function readNews(): Promise<Delivery[]> {
    const news: Delivery[] = [];
    for (let after: string | undefined; ; ) {
      const query = { ...filterOf(options), since, limit: PAGE_LIMIT_MAX, after };
      const page = await answered(api.deliveries.$get({ query }));
      const changed = page.items.filter((each) => shown.get(keyOf(each))?.state !== stateOf(each));
      news.push(...changed);
      // If a whole page has no news, older pages have none either.
      if (page.next === null || (page.items.length > 0 && changed.length === 0)) return news;
      after = page.next;
    }
  }
  while (!stop.signal.aborted) {
    const news = await readNews().catch((error: unknown) => {
      // The service may be restarting. The next look asks for the same again.
      if (error instanceof MirrorError && error.retryable) return [];
      throw error;
    });
    for (const delivery of news.toReversed()) {
      shown.set(keyOf(delivery), { state: stateOf(delivery), receivedAt: delivery.received_at });
      cli.out.write(options.json ? `${printable(JSON.stringify(delivery))}\n` : lineOf(delivery));
    }
    const newest = news[0] === undefined ? 0 : Date.parse(news[0].received_at);
    since = new Date(Math.max(newest - CHANGING_MS, Date.parse(since))).toISOString();
    for (const [key, { receivedAt }] of shown) if (receivedAt < since) shown.delete(key);
    await sleep(FOLLOW_EVERY_MS, undefined, { signal: stop.signal }).catch(() => undefined);
  }
}

const keyOf = ({ outcome, number }: Delivery) => `${outcome} ${number}`;
/** Rejections have no state: their count stands for it. A redelivery of an event is a duplicate with a line of its own. */
const stateOf = ({ state, deliveries }: Delivery) => state ?? String(deliveries);

/** Enough for the longest word. Characters. */
const [OUTCOME_WIDTH, STATE_WIDTH] = [11, 9];

function lineOf(delivery: Delivery): string {
  const { received_at, type, record_id, reason, outcome, state } = delivery;
  const words = [
    received_at,
    outcome.padEnd(OUTCOME_WIDTH),
    (state ?? '-').padEnd(STATE_WIDTH),
    idOf(delivery),
    type,
    record_id,
    reason,
  ];
  return `${words.map((word) => printable(word ?? '-')).join('  ')}\n`;
}
