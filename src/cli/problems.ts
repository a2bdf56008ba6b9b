import { Argument, Command } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import type { Problem } from '../ops/api/schemas.ts';
import { commandOf } from '../ops/problems.ts';
import { kindPlural, sentenceCase } from '../ops/words.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { digestOf, PAGE_LIMIT_MAX } from '../store/reports.ts';
import { askerFor, yes as saysYes } from './asker.ts';
import { type Cli, writeRows, writeText } from './cli.ts';
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
      async (service, id) => {
        const problem = await problemOf(service, id);
        const { kind, reason, resolved_at } = problem;
        const isPending = reason === 'pending_deletions' && kind !== null && resolved_at === null;
        return isPending ? { ...problem, records: await pendingOf(service, kind) } : problem;
      },
      (row) => {
        const { records, ...problem } = row as Problem & Row & { records?: Row[] };
        writeProblem(cli, problem);
        if (records !== undefined) writePending(cli, problem.kind!, records);
      },
    ),
  );
  const deciding = (verb: keyof typeof ASKED, description: string) =>
    new Command(verb)
      .description(description)
      .addArgument(idArgument())
      .option('--digest <digest>', 'do not ask: decide about exactly what was shown with this digest')
      .action((id: number, { digest }: { digest?: string }) =>
        withService(cli, (service) => decide(cli, service, verb, id, digest)),
      );
  const resolve = new Command('resolve')
    .description('accept what a problem shows: exactly this, until it changes')
    .addArgument(idArgument())
    .option('--digest <digest>', 'do not ask: accept exactly what was shown with this digest')
    .action((id: number, { digest }: { digest?: string }) =>
      withService(cli, async (service) => {
        const problem = await problemOf(service, id);
        writeProblem(cli, problem);
        const script = `to accept exactly this: problems resolve ${id} --digest ${problem.digest}`;
        if (digest === undefined) await confirm(cli, 'Accept what it shows, and resolve it?', script);
        await service.post(`problems/${id}/resolve`, { digest: digest ?? problem.digest });
        cli.out.write('Resolved.\n');
      }),
    );
  return problems
    .addCommand(deciding('approve', 'let the deletions go that a problem shows: exactly these, for one hour'))
    .addCommand(deciding('keep', 'refuse these deletions: the records stay'))
    .addCommand(resolve);
}

async function problemOf(service: Service, id: number): Promise<Problem & Row> {
  // The list runs from the newest id down, so the problem, if there is one, is the first after its successor's key.
  const query = { state: 'all', limit: 1, after: String(id + 1) };
  const { items } = await service.get<{ items: (Problem & Row)[] }>('problems', query);
  if (items[0]?.id === id) return items[0];
  throw new MirrorError('not_found', `there is no problem ${id}`, {
    remedy: '“problems” lists the open ones, “problems state=all” those that are resolved, too',
  });
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

const ASKED = {
  approve: {
    question: (count: number) => `Delete these ${count} here as well?`,
    done: 'Approved for one hour. They are deleted once one more look proves that they are gone; while the mirror is paused, after “resume”.',
  },
  keep: {
    question: (count: number) => `Keep these ${count} here?`,
    done: 'Kept, until the service shows them again or announces their deletion anew.',
  },
};

async function decide(
  cli: Cli,
  service: Service,
  verb: keyof typeof ASKED,
  id: number,
  digest: string | undefined,
): Promise<void> {
  const { kind, reason, resolved_at } = await problemOf(service, id);
  if (reason !== 'pending_deletions' || kind === null || resolved_at !== null) {
    throw new UsageError(`problem ${id} has no deletions that wait`, 'see “problems” for those that have');
  }
  const { question, done } = ASKED[verb];
  const pending = await pendingOf(service, kind);
  writePending(cli, kind, pending);
  const ids = pending.map((row) => String(row['id']));
  const shown = digestOf(kind, ids);
  if (digest === undefined) {
    await confirm(
      cli,
      question(ids.length),
      `to ${verb} exactly these: problems ${verb} ${id} --digest ${shown}`,
    );
  } else if (digest !== shown) throw haveChanged(id);
  await service.post(`problems/${id}/${verb}`, { digest: shown });
  writeText(cli.out, done);
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

function writePending(cli: Cli, kind: Kind, rows: readonly Row[]): void {
  cli.out.write(
    `${sentenceCase(kindPlural(kind))} that are gone upstream, as far as can be seen: ${rows.length}\n`,
  );
  writeRows(cli.out, rows, ['id', 'name', 'status', 'deletion_pending_since']);
}

function haveChanged(id: number): MirrorError {
  return new MirrorError('deletions_changed', 'the pending deletions have changed since they were shown', {
    remedy: `look at them again: problems show ${id}`,
  });
}

/** Rejects if the answer is not yes. @throws UsageError if there is nobody to ask; `script` says how a script does it. */
async function confirm(cli: Cli, question: string, script: string): Promise<void> {
  using stop = stopSignals();
  const asker = await askerFor(cli, {}, stop.signal);
  if (!asker.isPerson) throw new UsageError('nothing is changed yet', script);
  if (!(await saysYes(asker, question, false))) throw new MirrorError('not_approved', 'nothing is changed');
}
