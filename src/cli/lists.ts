import { type Cli, writeJson, writeTable } from './cli.ts';
import type { ListOptions } from './options.ts';
import type { Cell } from './table.ts';

export interface ListView<Item> {
  /** The key that `--after` takes to go on behind this item. */
  keyOf(item: Item): string;
  columns: readonly (readonly [head: string, cell: (item: Item) => Cell])[];
}

/** One page of a list, as a table or as the JSON API's `{items, next}`; `next` is null on the last page. */
export function writeList<Item>(
  cli: Cli,
  items: readonly Item[],
  options: ListOptions,
  view: ListView<Item>,
  /** Where the list goes on; absent: behind the last item, if the page is full. */
  next: string | null = nextAfter(items, options, view),
): void {
  if (options.json) {
    writeJson(cli.out, { items, next });
    return;
  }
  const rows = items.map((item) => view.columns.map(([, cell]) => cell(item)));
  writeTable(
    cli.out,
    view.columns.map(([head]) => head),
    rows,
  );
  if (next !== null) cli.err.write(`There may be more: --after '${next.replaceAll("'", `'\\''`)}'\n`);
}

function nextAfter<Item>(
  items: readonly Item[],
  { limit }: ListOptions,
  view: ListView<Item>,
): string | null {
  const last = items.at(-1);
  return last !== undefined && items.length >= limit ? view.keyOf(last) : null;
}
