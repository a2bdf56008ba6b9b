import { type Cli, writeJson, writeTable } from './cli.ts';
import type { Cell } from './table.ts';

/** The columns of a list, with what stands in each. */
export type ListView<Item> = readonly (readonly [head: string, cell: (item: Item) => Cell])[];

/** One page of a list, as a table or as JSON; `next` is what `--after` takes to go on, and null on the last page. */
export function writeList<Item>(
  cli: Cli,
  { items, next }: { items: readonly Item[]; next: string | null },
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
