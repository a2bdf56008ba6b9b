import { parseArgs } from 'node:util';
import { ATTACKS } from './attacks.ts';
import { openStage, type Row } from './stage.ts';

/** `node test/hostile/run.ts [--main FILE] [NAME…]`: every attack at its full size, each on a service of its own: two minutes. */
const { values, positionals } = parseArgs({ options: { main: { type: 'string' } }, allowPositionals: true });
const names = positionals.length > 0 ? positionals : Object.keys(ATTACKS);
const unknown = names.filter((name) => !Object.hasOwn(ATTACKS, name));
if (unknown.length > 0) {
  process.stderr.write(`No such attack: ${unknown.join(', ')}.\nNames: ${Object.keys(ATTACKS).join(', ')}\n`);
  process.exit(2);
}

const WIDTHS = [17, 20, 10, 10, 22, 8];
const say = (cells: readonly string[], last: string) => {
  const line = cells.map((cell, column) => cell.padEnd(WIDTHS[column]!)).join('');
  process.stdout.write(`${line}${last}\n`);
};

say(['attack', 'slowest answer', 'others', 'memory', 'served/rejected/none', 'log'], 'verdict');
let isHeld = true;
for (const name of names) {
  const stage = await openStage(values.main);
  const row = await stage.play(name, 'full');
  const broken = [...row.faults, ...row.late, ...(await stage.close())];
  isHeld &&= broken.length === 0;
  say(cellsOf(row), broken.length === 0 ? `held (${row.size})` : `BROKEN: ${broken.join('; ')}`);
}
process.exitCode = isHeld ? 0 : 1;

function cellsOf({ name, bystanders, grownMb, counts, logBytes }: Row): string[] {
  const slowest = bystanders.toSorted((a, b) => b.worstMs - a.worstMs)[0]!;
  const served = bystanders.reduce((total, each) => total + each.served, 0);
  return [
    name,
    `${slowest.worstMs.toFixed(0)} ms ${slowest.name}`,
    `${served}`,
    `+${grownMb.toFixed(0)} MB`,
    `${counts.served}/${counts.rejected}/${counts.unanswered}`,
    `${(logBytes / 1024).toFixed(0)} K`,
  ];
}
