import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { type Kind, kindOfType } from '../compliance/kinds.ts';
import { idInPath } from '../ops/api/ids.ts';
import type { ShownDelivery, Status } from '../ops/api/schemas.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { type Cli, writeJson, writeText } from './cli.ts';
import { diagnosisOf, writeDiagnosis } from './doctor.ts';
import { listCommand, type Row, rowsOf, wantedOf, writeOne } from './lists.ts';
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

  const show = new Command('show')
    .description('one delivery with its body; also answers for an id that never came')
    .argument('<id>', IDS)
    .argument('[hints...]', 'for an id that never came: type=vendor.updated record=ID')
    .option('--json', 'print JSON')
    .action((id: string, hints: string[], { json }: { json?: true }) =>
      withService(cli, async (service) => {
        const delivery = await found(service.get<ShownDelivery & Row>(`deliveries/${idInPath(id)}`));
        if (delivery === null) return await explainAbsence(cli, service, id, hints);
        if (json) return writeJson(cli.out, delivery);
        writeDiagnosis(cli, diagnosisOf(delivery));
        cli.out.write('\n');
        const { diagnosis: _, ...fields } = delivery;
        writeOne(cli, fields);
        if (delivery.body === null)
          cli.out.write('\nIts body is not kept, or not any more (RETENTION_BODY_DAYS).\n');
      }),
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

/** Nobody can show what never came: says what is known around it, and what brings the mirror up to date all the same. */
async function explainAbsence(
  cli: Cli,
  service: Service,
  id: string,
  hints: readonly string[],
): Promise<never> {
  const { filters } = wantedOf(DELIVERIES, hints);
  const { type, record } = filters;
  const kind = (filters['kind'] as Kind | undefined) ?? (type === undefined ? null : kindOfType(type));
  const newestOf = async (words: string[]) => {
    for await (const row of rowsOf(service, DELIVERIES, wantedOf(DELIVERIES, words), 1)) return row;
    return null;
  };
  const told = (row: Row | null) =>
    row === null ? 'none' : `${row['id']} at ${row['received_at']}, ${stateOf(row)}`;
  // Its id may stand in the body of one that was rejected.
  const mention = await newestOf([id]);
  const lines: [string, string][] = [];
  if (mention !== null) lines.push(['a delivery that names it', told(mention)]);
  const accepted = 'outcome=accepted';
  lines.push(['last accepted delivery', told(await newestOf([accepted]))]);
  if (type !== undefined)
    lines.push([`last accepted ${type}`, told(await newestOf([accepted, `type=${type}`]))]);
  if (kind !== null && record !== undefined) {
    const row = await found(service.get<Row>(`records/${kind}/${idInPath(record)}`));
    const confirmed =
      row?.['verified_at'] == null
        ? 'not confirmed by the API'
        : `confirmed by the API at ${row['verified_at']}`;
    const held = row === null ? 'not in the mirror' : `“${row['name']}”, ${row['status']}, ${confirmed}`;
    lines.push([`${kind} ${record}`, held]);
  }
  writeText(cli.out, `${id} never reached us: it was neither accepted, quarantined nor rejected.`);
  for (const [name, value] of lines) writeText(cli.out, `  ${name}: ${value}`);
  const remedy =
    kind !== null && record !== undefined
      ? `“sync ${kind} ${record}” reads its record from the API now`
      : 'name its record and type to see what the mirror has of it: “deliveries show ID type=TYPE record=ID”; “sync KIND ID” reads a record from the API now';
  throw new MirrorError('not_found', `no delivery ${id}`, { remedy });
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
      remedy: '“deliveries show ID” shows one, “doctor --delivery ID” explains it',
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
