import { Argument, Command } from 'commander';
import { indentedJson } from '../ops/body-text.ts';
import { csvLine } from '../ops/csv.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { PAGE_LIMIT_MAX } from '../store/reports.ts';
import { type Cli, type Columns, isObject, writeJson, writeRows, writeTable } from './cli.ts';
import { atOption, integerBetween, jsonOption, sinceOption, untilOption } from './options.ts';
import { found, type Service, withService } from './service.ts';
import type { Cell } from './table.ts';
import { printable, printableJson, printableLines } from './text.ts';

export type Row = Readonly<Record<string, unknown>>;

/** Something that has a list. Lists, exports and whatever takes several of it go by this. */
export interface Thing {
  /** Below `/api/`. */
  path: string;
  /** What NAME=VALUE may name, with the parameter that its route takes; null: this program compares the row's own field. */
  names: Readonly<Record<string, string | null>>;
  /** The parameter for every other name: a field of a record's data. */
  otherNames?: string;
  /** The parameter for a value that is another name's, if it is one. */
  parameterOf?(name: string, value: string): string | null;
  /** The `after` to begin with, if what is asked for from the very beginning is refused. */
  start?(service: Service): Promise<string | undefined>;
  /** Whether the route takes `search`, and whether it takes `since` and `until`. Else this program compares. */
  searches: boolean;
  /** Whether the route takes `at`, as option `--at`, and `typed`. */
  hasVersions?: true;
  /** The field that `--since` and `--until` are about; null: its route takes them. */
  time: string | null;
  columns: Columns<Row>;
  /** Heads of the columns that say what to do. They stay, however narrow the terminal is. */
  kept: readonly string[];
  /** What is said if there is none. */
  none: string;
  /** Of a list that belongs to one thing: what is said if that does not exist. */
  absent?: string;
}

export interface Wanted {
  /** The words that are no NAME=VALUE. */
  texts: readonly string[];
  filters: Readonly<Record<string, string>>;
  since?: string | undefined;
  until?: string | undefined;
  /** With typed columns, where the thing has some. */
  typed?: true;
}

/** @throws UsageError for a NAME that the thing does not have. */
export function wantedOf(
  thing: Thing,
  words: readonly string[],
  period: Pick<Wanted, 'since' | 'until'> = {},
): Wanted {
  const filters: Record<string, string> = {};
  const texts: string[] = [];
  for (const word of words) {
    const sign = word.indexOf('=');
    const name = word.slice(0, sign);
    if (sign <= 0) texts.push(word);
    else if (!Object.hasOwn(thing.names, name) && thing.otherNames === undefined) {
      throw new UsageError(`there is no ${name}= here`, `there are ${namesOf(thing)}`);
    } else filters[name] = word.slice(sign + 1);
  }
  return { texts, filters, ...period };
}

const namesOf = ({ names }: Thing) =>
  Object.keys(names)
    .map((name) => `${name}=`)
    .join(', ');

/** What its route is asked, and what is left to compare here. */
function questionOf(thing: Thing, { texts, filters, since, until, typed }: Wanted) {
  const query: Record<string, string> = typed && thing.hasVersions ? { typed: 'true' } : {};
  const tests: ((row: Row) => boolean)[] = [];
  for (const [name, value] of Object.entries(filters)) {
    const known = Object.hasOwn(thing.names, name) ? thing.names[name] : thing.otherNames;
    const parameter = thing.parameterOf?.(name, value) ?? known;
    if (parameter == null) tests.push((row) => String(row[name] ?? '') === value);
    else query[parameter] = parameter === thing.otherNames ? `${name}=${value}` : value;
  }
  const search = texts.join(' ');
  if (search !== '' && thing.searches) query['search'] = search;
  else if (search !== '')
    tests.push((row) => JSON.stringify(row).toLowerCase().includes(search.toLowerCase()));
  const { time } = thing;
  if (time === null) Object.assign(query, since && { since }, until && { until });
  else {
    if (since) tests.push((row) => String(row[time]) >= since);
    if (until) tests.push((row) => String(row[time]) < until);
  }
  return { query, tests };
}

interface Page {
  items: readonly Row[];
  next: string | null;
  epoch?: string;
}

/** Every row that is wanted, page by page: one is in memory at a time. */
export async function* rowsOf(service: Service, thing: Thing, wanted: Wanted, limit = PAGE_LIMIT_MAX) {
  const { query, tests } = questionOf(thing, wanted);
  const atOnce = tests.length === 0 ? Math.min(limit, PAGE_LIMIT_MAX) : PAGE_LIMIT_MAX;
  for (let after = await thing.start?.(service); ; ) {
    const page: Page = await service.get(thing.path, { ...query, limit: atOnce, after });
    yield* page.items.filter((row) => tests.every((test) => test(row)));
    // The feed of changes always says where to go on.
    const isLast = page.next === null || (page.epoch !== undefined && page.items.length === 0);
    if (isLast) return;
    after = page.next ?? undefined;
  }
}

/** The same as CSV, in pieces of whole lines. The service writes it where it can, because it knows a record's typed columns. */
export async function* csvOf(
  service: Service,
  thing: Thing,
  wanted: Wanted,
  limit = Number.POSITIVE_INFINITY,
) {
  const { query, tests } = questionOf(thing, wanted);
  let heads: readonly string[] | null = null;
  let left = limit;
  if (tests.length > 0) {
    for await (const row of rowsOf(service, thing, wanted)) {
      if (left === 0) return;
      if (heads === null) {
        heads = Object.keys(row);
        yield csvLine(heads);
      }
      yield csvLine(heads.map((name) => row[name]));
      left -= 1;
    }
    return;
  }
  let after = await thing.start?.(service);
  for (let isFirst = true; left > 0; isFirst = false) {
    const atOnce = Math.min(left, PAGE_LIMIT_MAX);
    const { text, next } = await service.csv(thing.path, { ...query, limit: atOnce, after });
    // Every page begins with the names of its columns, which hold no line end.
    yield isFirst ? text : text.slice(text.indexOf('\n') + 1);
    left -= atOnce;
    if (next === undefined) return;
    after = next;
  }
}

/** A screenful or two. Rows. */
const DEFAULT_LIMIT = 50;

interface ListFlags extends Pick<Wanted, 'since' | 'until'> {
  at?: string;
  limit: number;
  json?: true;
  csv?: true;
}

/** A command that prints a list. `thingOf` takes the command's own arguments, before the words of every list. */
export function listCommand<Args extends string[]>(
  cli: Cli,
  name: string,
  description: string,
  ownArguments: readonly Argument[],
  thingOf: (...args: Args) => Thing,
  example: Thing,
): Command {
  const command = new Command(name).description(description);
  for (const argument of ownArguments) command.addArgument(argument);
  const others = example.otherNames === undefined ? '' : ', or a field: owner.team=Legal';
  if (example.hasVersions) command.addOption(atOption());
  const words = `a text to search for, and NAME=VALUE: ${namesOf(example)}${others}`;
  return command
    .addArgument(new Argument('[words...]', words))
    .addOption(sinceOption())
    .addOption(untilOption())
    .option('--limit <rows>', 'rows at most', integerBetween(1, 1_000_000), DEFAULT_LIMIT)
    .addOption(jsonOption())
    .option('--csv', 'print CSV')
    .action(async () => {
      const { limit, json, csv, at, ...period } = command.opts<ListFlags>();
      const args = [...command.processedArgs];
      const given = args.pop() as string[];
      const thing = thingOf(...(args as Args));
      const wanted = wantedOf(thing, at === undefined ? given : [...given, `at=${at}`], period);
      if (wanted.texts.length > 1) {
        const [first, second] = wanted.texts;
        throw new UsageError(
          `“${first}” and “${second}” are two texts to search for`,
          'put one text into quotes',
        );
      }
      const print = async (service: Service): Promise<void> => {
        if (csv) {
          for await (const text of csvOf(service, thing, wanted, limit)) cli.out.write(text);
          return;
        }
        const rows: Row[] = [];
        for await (const row of rowsOf(service, thing, wanted, limit + 1)) {
          rows.push(row);
          if (rows.length > limit) break;
        }
        const more = rows.length > limit;
        const items = rows.slice(0, limit);
        if (json) return writeJson(cli.out, { items, more });
        if (items.length === 0) cli.out.write(given.length === 0 ? `${thing.none}\n` : 'Nothing matches.\n');
        writeRows(cli.out, items, thing.columns, thing.kept);
        if (more) cli.err.write('There are more: narrow the list, or raise --limit.\n');
      };
      await withService(cli, async (service) => {
        if (thing.absent === undefined) return await print(service);
        const isThere = await found(print(service).then(() => true));
        if (isThere === null) throw new MirrorError('not_found', thing.absent);
      });
    });
}

interface ShowFlags {
  json?: true;
}

/** A command that prints one thing whole. `read`: null if there is none; it may have said why. */
export function showCommand<Args extends unknown[]>(
  cli: Cli,
  description: string,
  ownArguments: readonly Argument[],
  read: (service: Service, ...args: Args) => Promise<Row>,
  write: (row: Row) => void = (row) => writeOne(cli, row),
): Command {
  const command = new Command('show').description(description).addOption(jsonOption());
  for (const argument of ownArguments) command.addArgument(argument);
  return command.action(() =>
    withService(cli, async (service) => {
      const row = await read(service, ...(command.processedArgs as Args));
      if (command.opts<ShowFlags>().json) writeJson(cli.out, row);
      else write(row);
    }),
  );
}

/** `list`: the command that shows what there is. */
export function notFound(what: string, list: string): MirrorError {
  return new MirrorError('not_found', what, { remedy: `see “${list}”` });
}

/** A line for each field that has a value, its id first. Bodies and other JSON come below, indented. */
export function writeOne({ out }: Pick<Cli, 'out'>, { id, ...rest }: Row): void {
  const lines: [string, Cell][] = [];
  const below: string[] = [];
  for (const [name, value] of Object.entries({ id, ...rest })) {
    // A body's bytes are for programs.
    if (name === 'body_base64' || value == null || value === '') continue;
    if (name === 'body' && typeof value === 'string') {
      const text = indentedJson(value) ?? value;
      below.push(`\n${name}\n${printableLines(text)}\n`);
    } else if (isObject(value)) below.push(`\n${printable(name)}\n${printableJson(value)}\n`);
    else lines.push([printable(name), value as Cell]);
  }
  writeTable(out, null, lines);
  for (const text of below) out.write(text);
}
