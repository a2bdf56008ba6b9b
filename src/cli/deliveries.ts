import { setTimeout as sleep } from 'node:timers/promises';
import { Argument, Command } from 'commander';
import { idInPath } from '../ops/api/ids.ts';
import type { Deliveries, Diagnosis, ShownDelivery, Status } from '../ops/api/schemas.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { type Cli, writeText } from './cli.ts';
import { writeFinding } from './doctor.ts';
import { listCommand, type Row, rowsOf, showCommand, wantedOf, writeOne } from './lists.ts';
import { sinceOption } from './options.ts';
import { found, type Service, withService } from './service.ts';
import { stopSignals } from './stop-signals.ts';
import { printable } from './text.ts';
import { DELIVERIES, stateOf } from './things.ts';

const IDS = 'as listed: an event’s id, or rejection:NUMBER';

export function deliveriesCommand(cli: Cli): Command {
  const list = (name: string, description: string) =>
    listCommand(cli, name, description, [], () => DELIVERIES, DELIVERIES);
  const deliveries = list('deliveries', 'all that came in, newest first, and what became of it');
  deliveries.addCommand(list('list', 'the same as without “list”'));

  const show = showCommand<[string]>(
    cli,
    'one delivery with its body, and what became of it or why it was not taken',
    [new Argument('<id>', IDS)],
    deliveryOf,
    (row) => {
      const { diagnosis, ...fields } = row as ShownDelivery & Row;
      if (diagnosis !== null) writeDiagnosis(cli, diagnosis);
      writeOne(cli, fields);
      if (fields.body === null)
        cli.out.write('\nIts body is not kept, or not any more (RETENTION_BODY_DAYS).\n');
    },
  );
  deliveries.addCommand(show);

  const follow = new Command('follow')
    .description('show deliveries as they come in, until Ctrl-C')
    .argument('[words...]', 'as of “list”: a text to search for, and NAME=VALUE')
    .addOption(sinceOption())
    .option('--json', 'print a line of JSON for each')
    .action((words: string[], flags: FollowFlags) =>
      withService(cli, (service) => followDeliveries(cli, service, words, flags)),
    );
  deliveries.addCommand(follow);

  for (const [name, participle, description] of [
    ['retry', 'done', 'process failed ones again, and take quarantined ones that are events by now'],
    ['dismiss', 'dismissed', 'give failed or quarantined ones up; their records are read from the API'],
  ] as const) {
    const change = new Command(name)
      .description(description)
      .argument('<words...>', 'IDs, or NAME=VALUE for all of a list: state=failed')
      .action((words: string[]) =>
        withService(cli, (service) => changeAll(cli, service, name, participle, words)),
      );
    deliveries.addCommand(change);
  }
  return deliveries;
}

/** By its id, or the newest that names this event: of one that was rejected a sender knows no other. */
async function deliveryOf({ get }: Service, id: string): Promise<ShownDelivery & Row> {
  const show = (each: string) => found(get<ShownDelivery & Row>(`deliveries/${idInPath(each)}`));
  const shown = await show(id);
  if (shown !== null) return shown;
  const { items } = await get<Deliveries>('deliveries', { search: id, limit: 20 });
  const naming = items.find(({ event_id }) => event_id === id);
  const named = naming === undefined ? null : await show(naming.id);
  if (named !== null) return named;
  throw new MirrorError('not_found', `no delivery ${id} has come, or it is not kept any more`, {
    remedy: '“deliveries” lists them; “sync KIND ID” reads a record from the API now',
  });
}

/** Why it was rejected, and what fits. What is to be done about others, their problems say. */
function writeDiagnosis(cli: Cli, { causes, fit }: Diagnosis): void {
  const past = 'By the present settings it would be accepted: what was wrong has been corrected.';
  if (causes.length === 0) writeFinding(cli, 'ok', { subject: 'delivery', says: past, remedy: null });
  for (const { code, what, remedy } of causes)
    writeFinding(cli, 'WRONG', { subject: code.replaceAll('_', ' '), says: what, remedy });
  const fits = Object.entries(fit ?? {}).map(([name, value]) => `${name.replaceAll('_', ' ')} ${value}`);
  if (fit !== null)
    writeFinding(cli, '', { subject: 'what fits', says: `${fits.join(', ')}.`, remedy: null });
  cli.out.write('\n');
}

async function changeAll(
  cli: Cli,
  service: Service,
  verb: 'retry' | 'dismiss',
  participle: string,
  words: readonly string[],
): Promise<void> {
  const wanted = wantedOf(DELIVERIES, words);
  const ids = [...wanted.texts];
  if (Object.keys(wanted.filters).length > 0) {
    if (ids.length > 0) throw new UsageError('give IDs or NAME=VALUE, not both');
    // All first: what is changed leaves the list while it is read.
    for await (const row of rowsOf(service, DELIVERIES, wanted)) ids.push(String(row['id']));
  }
  let failures = 0;
  for (const id of ids) {
    const why = await service.post(`deliveries/${idInPath(id)}/${verb}`).then(
      () => null,
      (error: unknown) => {
        if (!(error instanceof MirrorError) || error.code === 'service_unreachable') throw error;
        return error.code === 'not_found'
          ? 'there is no such delivery'
          : error.message.replace('Its state does not allow this. ', '');
      },
    );
    writeText(cli.out, `${id}: ${why ?? participle}`);
    if (why !== null) failures += 1;
  }
  if (ids.length === 0) cli.out.write('Nothing matches.\n');
  if (failures > 0) {
    throw new MirrorError('not_done', `${failures} of ${ids.length} not ${participle}`, {
      remedy: '“deliveries show ID” explains one',
    });
  }
}

interface FollowFlags {
  since?: string;
  json?: true;
}

/** How often `follow` asks what has come in. Milliseconds. */
const FOLLOW_EVERY_MS = 1_000;
/** Deliveries this recent are read again, because their state changes. By the service's instants, not by our clock. */
const CHANGING_MS = 60_000;

/** Prints a line for each delivery, oldest first, and another when its event's state or the count of a rejection changes. */
async function followDeliveries(
  cli: Cli,
  service: Service,
  words: readonly string[],
  { json, since: from }: FollowFlags,
): Promise<void> {
  using stop = stopSignals();
  const shown = new Map<string, { state: string; receivedAt: string }>();
  const stateNow = (row: Row) => `${row['state']} ${row['deliveries']}`;
  let since = from ?? (await service.get<Status>('status')).at;
  if (cli.err.isTerminal) cli.err.write('Waiting for deliveries. Ctrl-C ends it.\n');
  while (!stop.signal.aborted) {
    const news: Row[] = [];
    try {
      for await (const row of rowsOf(service, DELIVERIES, wantedOf(DELIVERIES, words, { since }))) {
        if (shown.get(keyOf(row))?.state !== stateNow(row)) news.push(row);
      }
    } catch (error) {
      // The service may be restarting. The next look asks for the same again.
      if (!(error instanceof MirrorError && error.retryable)) throw error;
      news.length = 0;
    }
    for (const row of news.toReversed()) {
      shown.set(keyOf(row), { state: stateNow(row), receivedAt: String(row['received_at']) });
      if (json) cli.out.write(`${printable(JSON.stringify(row))}\n`);
      else writeText(cli.out, lineOf(row));
    }
    const newest = news[0] === undefined ? 0 : Date.parse(String(news[0]['received_at']));
    since = new Date(Math.max(newest - CHANGING_MS, Date.parse(since))).toISOString();
    for (const [key, { receivedAt }] of shown) if (receivedAt < since) shown.delete(key);
    await sleep(FOLLOW_EVERY_MS, undefined, { signal: stop.signal }).catch(() => undefined);
  }
}

/** A redelivery of an event is a line of its own. */
const keyOf = ({ outcome, number }: Row) => `${outcome} ${number}`;

/** Enough for the longest word. Characters. */
const STATE_WIDTH = 11;

function lineOf(row: Row): string {
  const words = [
    row['received_at'],
    stateOf(row).padEnd(STATE_WIDTH),
    row['id'],
    row['type'],
    row['record_id'],
    row['reason'],
  ];
  return words.map((word) => String(word ?? '-')).join('  ');
}
