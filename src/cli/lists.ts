import type { Command } from 'commander';
import type { ApiClient } from '../ops/api/client.ts';
import { indentedJson, isJson } from '../ops/body-text.ts';
import { MirrorError } from '../platform/errors.ts';
import type { Paging, Period } from '../store/reports.ts';
import { type Cli, writeJson, writeTable } from './cli.ts';
import { withApi } from './ops-api.ts';
import {
  afterOption,
  jsonOption,
  type ListOptions,
  limitOption,
  pagingOf,
  periodOf,
  type TimedListOptions,
  timed,
} from './options.ts';
import { type Cell, renderPairs } from './table.ts';
import { printableJson, printableLines } from './text.ts';

/** The columns of a list, with what stands in each. */
export type ListView<Item> = readonly (readonly [head: string, cell: (item: Item) => Cell])[];

interface ListPage<Item> {
  items: readonly Item[];
  next: string | null;
}

/** One page of a list, as a table or as JSON; `next` is what `--after` takes to go on, and null on the last page. */
export function writeList<Item>(
  cli: Cli,
  { items, next }: ListPage<Item>,
  options: { json?: true },
  view: ListView<Item>,
): void {
  if (options.json) {
    writeJson(cli.out, { items, next });
    return;
  }
  const rows = items.map((item) => view.map(([, cell]) => cell(item)));
  writeTable(
    cli.out,
    view.map(([head]) => head),
    rows,
  );
  if (next !== null) cli.err.write(`There may be more: --after '${next.replaceAll("'", `'\\''`)}'\n`);
}

/** Makes of `command` a list, a page at a time. Its own options stand before those that every list has. */
export function listing<Item, Options extends ListOptions>(
  cli: Cli,
  command: Command,
  view: ListView<Item>,
  read: (api: ApiClient, options: Options) => Promise<ListPage<Item>>,
): void {
  command
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((options: Options) =>
      withApi(cli, 'read', async (api) => writeList(cli, await read(api, options), options, view)),
    );
}

/** The same of a period's rows, newest first. */
export function listByTime<Item>(
  cli: Cli,
  command: Command,
  view: ListView<Item>,
  read: (api: ApiClient, query: Period & Paging) => Promise<ListPage<Item>>,
): void {
  listing(cli, timed(command), view, (api, options: TimedListOptions) =>
    read(api, { ...periodOf(options), ...pagingOf(options) }),
  );
}

/** Makes of `command`, which takes an id, one that shows what goes by it. */
export function showing<Id>(
  cli: Cli,
  command: Command,
  read: (api: ApiClient, id: Id) => Promise<object | null>,
  missing: (id: Id) => MirrorError,
): void {
  command.addOption(jsonOption()).action((id: Id, options: { json?: true }) =>
    withApi(cli, 'read', async (api) => {
      const row = await read(api, id);
      if (row === null) throw missing(id);
      writeOne(cli, row, options);
    }),
  );
}

/** `list` is the command that tells what there is. */
export function notFound(what: string, list: string): MirrorError {
  return new MirrorError('not_found', what, { remedy: `see "${list}"` });
}

/** One page of the API looks at a bounded number of rows. A command has time: it goes on until its own page is full. */
export async function fullPage<Item>(
  { limit, after }: { limit: number; after?: string | undefined },
  read: (paging: { limit: number; after: string | undefined }) => Promise<ListPage<Item>>,
): Promise<ListPage<Item>> {
  const items: Item[] = [];
  for (let next = after; ; ) {
    const page = await read({ limit: limit - items.length, after: next });
    items.push(...page.items);
    if (page.next === null || items.length >= limit) return { items, next: page.next };
    next = page.next;
  }
}

/** One row, as a line for each field or as JSON. Bodies and what else holds JSON stand below, indented. */
export function writeOne(cli: Cli, row: object, options: { json?: true }): void {
  if (options.json) {
    writeJson(cli.out, row);
    return;
  }
  const lines: [string, Cell][] = [];
  const below: string[] = [];
  for (const [name, value] of Object.entries(row)) {
    // A body's bytes are for programs.
    if (name === 'body_base64') continue;
    if (name === 'body' && typeof value === 'string') below.push(`${name}\n${bodyText(value)}\n`);
    else if (typeof value === 'object' && value !== null) below.push(`${name}\n${printableJson(value)}\n`);
    else lines.push([name, value as Cell]);
  }
  cli.out.write([renderPairs(lines), ...below].join('\n'));
}

/** Indented where it is JSON. Otherwise as it came, line by line. */
function bodyText(body: string): string {
  const lines = isJson(body) ? indentedJson(body) : body;
  return printableLines(lines);
}
