import { Argument, Command, Option } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import type { Found, Problem } from '../ops/api/schemas.ts';
import { commandOf } from '../ops/problems.ts';
import { kindPlural, sentenceCase } from '../ops/words.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { PAGE_LIMIT_MAX } from '../store/reports.ts';
import { askerFor, yes as saysYes } from './asker.ts';
import { type Cli, writeRows, writeText } from './cli.ts';
import { DifferenceFound } from './exit.ts';
import { listCommand, type Row, showCommand } from './lists.ts';
import { integerBetween } from './options.ts';
import { type Service, withService } from './service.ts';
import { stopSignals } from './stop-signals.ts';
import { PROBLEMS } from './things.ts';

const ID_MAX = 10 ** 15 - 2;
const idArgument = () => new Argument('<id>', 'as listed').argParser(integerBetween(1, ID_MAX));

export function problemsCommand(cli: Cli): Command {
  const list = (name: string, description: string) =>
    listCommand(cli, name, description, [], () => PROBLEMS, PROBLEMS);
  const problems = list('problems', 'what keeps the mirror from being in sync, and what you can do');
  problems.addCommand(list('list', 'the same as without “list”'));
  problems.addCommand(
    showCommand<[number]>(
      cli,
      'one problem: what it means, and what to do',
      [idArgument()],
      shownOf,
      (row) => void writeShown(cli, row as Shown),
    ),
  );
  for (const [verb, { description, ...words }] of Object.entries(DECISIONS)) {
    const command = new Command(verb)
      .description(description)
      .addArgument(idArgument())
      .option('--digest <digest>', 'do not ask: decide about exactly what was shown with this digest')
      .action((id: number, { digest, find }: { digest?: string; find?: true }) =>
        withService(cli, async (service) => {
          if (find) return await findRecord(cli, service, id);
          const problem = await shownOf(service, id);
          writeShown(cli, problem);
          const script = `to ${verb} exactly this: problems ${verb} ${id} --digest ${problem.digest}`;
          if (digest === undefined) await confirm(cli, words.question, script);
          const body = { digest: digest ?? problem.digest };
          const { full_sync } = await service.post<{ full_sync?: boolean }>(`problems/${id}/${verb}`, body);
          writeText(cli.out, words.done);
          if (full_sync)
            writeText(cli.out, 'A full sync was asked for: the kind is in sync once it has ended.');
        }),
      );
    if (verb === 'resolve') command.addOption(findOption());
    problems.addCommand(command);
  }
  return problems;
}

const findOption = () =>
  new Option(
    '--find',
    'of unknown_record: ask the API for what looks like an id in its events, and keep the place that is proven',
  ).conflicts('digest');

const DECISIONS = {
  approve: {
    description: 'let the deletions go that a problem shows: exactly these, for one hour',
    question: 'Delete these here as well?',
    done: 'Approved for one hour. They are deleted once one more look proves that they are gone; while the mirror is paused, after “resume”.',
  },
  keep: {
    description: 'refuse these deletions: the records stay',
    question: 'Keep these here?',
    done: 'Kept, until the service shows them again or announces their deletion anew.',
  },
  resolve: {
    description: 'accept what a problem shows: exactly this, until it changes',
    question: 'Accept what it shows, and resolve it?',
    done: 'Resolved.',
  },
};

/** The request budget may make some of the questions wait. Milliseconds. */
const FIND_MS = 180_000;

/** @throws DifferenceFound if no place of the id is proven: somebody must act. */
async function findRecord(cli: Cli, service: Service, id: number): Promise<void> {
  const { pointer, says } = await askForRecord(service, id);
  if (pointer === null) throw new DifferenceFound(says);
  writeText(cli.out, says);
}

/** Has the API asked for what looks like an id in the events of a problem `unknown_record`. */
export const askForRecord = (service: Service, id: number): Promise<Found> =>
  service.post(`problems/${id}/resolve`, { find: true }, FIND_MS);

async function problemOf(service: Service, id: number): Promise<Problem & Row> {
  // The list runs from the newest id down, so the problem, if there is one, is the first after its successor's key.
  const query = { state: 'all', limit: 1, after: String(id + 1) };
  const { items } = await service.get<{ items: (Problem & Row)[] }>('problems', query);
  if (items[0]?.id === id) return items[0];
  throw new MirrorError('not_found', `there is no problem ${id}`, {
    remedy: '“problems” lists the open ones, “problems state=all” those that are resolved, too',
  });
}

/** With `records`: those whose deletion waits for a person. */
type Shown = Problem & Row & { records?: Row[] };

/** The problem comes first: its digest does not cover what begins to wait later, and the service goes by the digest. */
async function shownOf(service: Service, id: number): Promise<Shown> {
  const problem = await problemOf(service, id);
  const { kind, reason, resolved_at } = problem;
  const isPending = reason === 'pending_deletions' && kind !== null && resolved_at === null;
  return isPending ? { ...problem, records: await pendingOf(service, kind) } : problem;
}

function writeShown(cli: Cli, { records, ...problem }: Shown): void {
  writeProblem(cli, problem as Problem);
  if (records === undefined) return;
  const what = sentenceCase(kindPlural(problem.kind!));
  cli.out.write(`${what} that are gone upstream, as far as can be seen: ${records.length}\n`);
  writeRows(cli.out, records, ['id', 'name', 'status', 'deletion_pending_since']);
}

/** Whole seconds are enough. */
const second = (instant: string) => instant.replace(/\.\d+Z$/, 'Z');

/** What it is about, what is wrong, and what to do: a few lines for a person. */
export function writeProblem(cli: Cli, problem: Problem): void {
  const { id, kind, record_id, reason, verdict, opened_at, resolved_at, times, error } = problem;
  const about = [kind ?? 'all kinds', record_id].filter((each) => each !== null).join(' ');
  const again = times > 1 ? `, ${times} times` : '';
  const number = id === 0 ? '' : `${id}  `;
  writeText(cli.out, `${number}${reason}, ${about}: ${verdict} since ${second(opened_at)}${again}`);
  const lines = [problem.sentence, ...(error === null ? [] : [`Its error: ${error}`])];
  if (resolved_at !== null) lines.push(`Resolved ${second(resolved_at)}.`);
  else {
    const command = commandOf(problem);
    lines.push(`What to do: ${problem.action}`, ...(command === null ? [] : [`Command: ${command}`]));
  }
  for (const line of lines) writeText(cli.out, `    ${line}`);
}

/** The records whose deletion waits for a person. */
async function pendingOf(service: Service, kind: Kind): Promise<Row[]> {
  const all: Row[] = [];
  for (let after: string | null = ''; after !== null; ) {
    const query = { deletion_pending: 'true', limit: PAGE_LIMIT_MAX, after: after || undefined };
    const page: { items: Row[]; next: string | null } = await service.get(`records/${kind}`, query);
    all.push(...page.items);
    after = page.next;
  }
  return all;
}

/** Rejects if the answer is not yes. @throws UsageError if there is nobody to ask; `script` says how a script does it. */
async function confirm(cli: Cli, question: string, script: string): Promise<void> {
  using stop = stopSignals();
  const asker = await askerFor(cli, {}, stop.signal);
  if (!asker.isPerson) throw new UsageError('nothing is changed yet', script);
  if (!(await saysYes(asker, question, false))) throw new MirrorError('not_approved', 'nothing is changed');
}
