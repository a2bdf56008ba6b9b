import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * `npm run migrations`, until the first release: makes the first step of each engine anew: the tables from the schema, then `drizzle/ENGINE.sql`,
 * where first rows, views and functions are written by hand.
 *
 * `npm run migrations -- NAME`, from then on: what both schemas have changed, as one step for each engine under one number and name. An
 * engine whose tables did not change gets an empty step, to be filled by hand or left as it is: the numbers stay paired.
 */

const ENGINES = [
  { config: 'drizzle.config.ts', folder: 'drizzle/sqlite' },
  { config: 'drizzle.postgres.config.ts', folder: 'drizzle/postgres' },
] as const;

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const DRIZZLE_KIT = fileURLToPath(new URL('../../node_modules/drizzle-kit/bin.cjs', import.meta.url));

function steps(folder: string): string[] {
  const journal = JSON.parse(readFileSync(`${ROOT}${folder}/meta/_journal.json`, 'utf8')) as {
    entries: { tag: string }[];
  };
  return journal.entries.map((entry) => entry.tag);
}

function generate(config: string, name: string, ...more: string[]): void {
  const args = [DRIZZLE_KIT, 'generate', '--config', config, '--name', name, ...more];
  const { status } = spawnSync(process.execPath, args, { cwd: ROOT, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

/** What the schema cannot say. */
const SAID_HERE = [/(CREATE TABLE `record_state` \([^;]*\));/, '$1 WITHOUT ROWID;'] as const;

function makeAnew({ config, folder }: (typeof ENGINES)[number]): void {
  rmSync(`${ROOT}${folder}`, { recursive: true });
  generate(config, 'mirror');
  const step = `${ROOT}${folder}/0000_mirror.sql`;
  const tables = readFileSync(step, 'utf8').replace(...SAID_HERE);
  writeFileSync(step, `${tables}--> statement-breakpoint\n${readFileSync(`${ROOT}${folder}.sql`, 'utf8')}`);
}

const [name] = process.argv.slice(2);
if (name === undefined) {
  if (existsSync(`${ROOT}drizzle/frozen.json`)) {
    console.error('the first steps were released and stay: npm run migrations -- NAME adds one');
    process.exit(2);
  }
  ENGINES.forEach(makeAnew);
  process.exit(0);
}
if (!/^[a-z][a-z0-9_]*$/.test(name)) {
  console.error('name the step, in letters, digits and underscores: npm run migrations -- NAME');
  process.exit(2);
}
const before = ENGINES.map(({ folder }) => steps(folder).length);
for (const { config } of ENGINES) generate(config, name);
const changed = ENGINES.map(({ folder }, index) => steps(folder).length > (before[index] ?? 0));
if (!changed.includes(true)) {
  console.error('neither schema has changed');
  process.exit(1);
}
for (const [index, { config }] of ENGINES.entries()) {
  if (changed[index] === false) generate(config, name, '--custom');
}
