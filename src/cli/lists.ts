import type { Command } from 'commander';
import { type ApiClient, changed } from '../ops/api/client.ts';
import { indentedJson, isJson, quote } from '../ops/body-text.ts';
import { MirrorError } from '../platform/errors.ts';
import { PAGE_LIMIT_MAX, type Paging, type Period } from '../store/reports.ts';
import { type Cli, type Columns, isObject, type Screen, writeJson, writeRows } from './cli.ts';
import { withApi } from './ops-api.ts';
import { integerBetween, jsonOption } from './options.ts';
import { progressOn } from './progress.ts';
import { type Cell, renderPairs } from './table.ts';
import { printable, printableJson, printableLines } from './text.ts';

/** A screenful or two. `--limit` and `--after` give more. Rows. */
const DEFAULT_LIMIT = 50;

export interface ListPage<Item> {
  items: readonly Item[];
  /** What `--after` takes to go on; null on the last page. */
  next: string | null;
  /** How far the page has looked, if it ended before it was full. */
  looked_back_to?: string | null;
  searched_to?: string | null;
}

/** Makes `command` print one page of a list. `read` gets its options and arguments. The options of every list are added to it. */
export function listing<Item, Options, Args extends unknown[]>(
  cli: Cli,
  command: Command,
  list: {
    read(api: ApiClient, query: Paging & Period, options: Options, ...args: Args): Promise<ListPage<Item>>;
    columns: Columns<Item> | ((options: Options) => Columns<Item>);
    /** What to say about a last page, on stderr. */
    note?(items: readonly Item[]): string | null;
  },
): void {
  const { read, columns } = list;
  command
    .option(
      '--limit <rows>',
      `rows at most, up to ${PAGE_LIMIT_MAX}`,
      integerBetween(1, PAGE_LIMIT_MAX),
      DEFAULT_LIMIT,
    )
    .option('--after <key>', 'continue after this key, given by the page before')
    .addOption(jsonOption())
    .action(() =>
      withApi(cli, 'read', async (api) => {
        const options = command.opts() as Options & Paging & Period & { json?: true };
        const { limit, after, since, until } = options;
        const page = await fullPage(cli.err, limit, after, (paging) =>
          read(api, { ...paging, since, until }, options, ...(command.processedArgs as Args)),
        );
        if (options.json) return writeJson(cli.out, page);
        writeRows(cli.out, page.items, typeof columns === 'function' ? columns(options) : columns);
        if (page.next !== null) return cli.err.write(`There may be more: --after ${quote(page.next)}\n`);
        // An empty page behind another one says nothing about the end.
        const note = page.items.length > 0 || !after ? (list.note?.(page.items) ?? null) : null;
        if (note !== null) cli.err.write(`${note}\n`);
      }),
    );
}

/** The API looks at a bounded number of rows for each page. A command has time: it asks again until its own page is full. */
export async function fullPage<Item>(
  screen: Screen,
  limit: number,
  after: string | undefined,
  read: (paging: Paging) => Promise<ListPage<Item>>,
): Promise<ListPage<Item>> {
  const items: Item[] = [];
  using progress = progressOn(screen);
  // A script starts its loop with an empty key.
  for (let from = after || undefined; ; ) {
    const page = await read({ limit: limit - items.length, after: from });
    items.push(...page.items);
    if (page.next === null || items.length >= limit) return { items, next: page.next };
    from = page.next;
    const reach = page.looked_back_to ?? page.searched_to;
    const soFar = reach ? `Looked as far as ${printable(reach)}: ` : '';
    progress.show(() => `${soFar}${items.length} found`);
  }
}

/** Rows that commands show and change one by one. `Args`: the arguments that name one of them. */
export interface RowGroup<Args extends unknown[]> {
  /** The name of the group of commands. Its `list` shows what there is. */
  group: string;
  missing(...args: Args): string;
}

/** Makes `command` show the row that its arguments name. */
export function showing<Args extends unknown[], Row extends object>(
  cli: Cli,
  command: Command,
  { group, missing }: RowGroup<Args>,
  read: (api: ApiClient, ...args: Args) => Promise<Row | null>,
  write: (cli: Cli, row: Row) => void = writeOne,
): void {
  command.addOption(jsonOption()).action(() =>
    withApi(cli, 'read', async (api) => {
      const args = command.processedArgs as Args;
      const row = await read(api, ...args);
      if (row === null) throw notFound(missing(...args), `${group} list`);
      if (command.opts()['json']) writeJson(cli.out, row);
      else write(cli, row);
    }),
  );
}

/** `list` is the command that shows what there is. */
export function notFound(what: string, list: string): MirrorError {
  return new MirrorError('not_found', what, { remedy: `see "${list}"` });
}

/** Changes the `noun` that `id` names. `participle`: its state afterwards. */
export async function change<Id extends string | number>(
  cli: Cli,
  { group, noun, missing }: RowGroup<[Id]> & { noun: string },
  id: Id,
  participle: string,
  send: (api: ApiClient) => Parameters<typeof changed>[0],
): Promise<void> {
  await withApi(cli, 'change', async (api) => {
    const outcome = await changed(send(api));
    if (outcome === null) throw notFound(missing(id), `${group} list`);
    if ('whyNot' in outcome) {
      throw new MirrorError(`not_${participle}`, `${noun} ${id}: ${outcome.whyNot}`, {
        remedy: `see "${group} show"`,
      });
    }
    cli.out.write(`The ${noun} is ${participle}.\n`);
  });
}

/** Prints a line for each field. Bodies and other JSON come below, indented. */
export function writeOne(cli: Cli, row: object): void {
  const lines: [string, Cell][] = [];
  const below: string[] = [];
  for (const [name, value] of Object.entries(row)) {
    // A body's bytes are for programs.
    if (name === 'body_base64') continue;
    if (name === 'body' && typeof value === 'string') {
      const text = isJson(value) ? indentedJson(value) : value;
      below.push(`${name}\n${printableLines(text)}\n`);
    } else if (isObject(value)) below.push(`${name}\n${printableJson(value)}\n`);
    else lines.push([name, value]);
  }
  cli.out.write([renderPairs(lines), ...below].join('\n'));
}
