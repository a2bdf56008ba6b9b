import { ATTACKS } from './attacks.ts';
import { play } from './play.ts';
import { isHeld, renderRows } from './table.ts';

/** `node test/hostile/run.ts [NAME…]`: every attack at its full size. Takes some minutes. */
const names = process.argv.slice(2);
const unknown = names.filter((name) => !Object.hasOwn(ATTACKS, name));
if (unknown.length > 0) {
  process.stderr.write(
    `No such attack: ${unknown.join(', ')}.\nUsage: npm run hostile -- [NAME…]\nNames: ${Object.keys(ATTACKS).join(', ')}\n`,
  );
  process.exit(2);
}
const rows = await play(names.length > 0 ? names : Object.keys(ATTACKS), {
  length: 'full',
  onRow: (row) =>
    process.stderr.write(`${row.name}: ${isHeld(row) ? 'held' : 'BROKEN'}, ${row.seconds.toFixed(0)} s\n`),
});
process.stdout.write(renderRows(rows));
process.exitCode = rows.every(isHeld) ? 0 : 1;
