import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freshPath } from './folder.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The program as a later version may be: in a folder of its own, with one more step of SQLite's schema. Returns the folder. */
export function nextVersion(step = 'CREATE TABLE later (id integer)'): string {
  const root = join(dirname(freshPath()), 'next');
  mkdirSync(root);
  for (const part of ['src', 'drizzle', 'package.json'])
    cpSync(join(ROOT, part), join(root, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  const journalPath = join(root, 'drizzle/sqlite/meta/_journal.json');
  const journal = JSON.parse(readFileSync(journalPath, 'utf8'));
  const [first] = journal.entries;
  journal.entries.push({ ...first, idx: 1, when: first.when + 1, tag: '0001_later' });
  writeFileSync(journalPath, JSON.stringify(journal));
  writeFileSync(join(root, 'drizzle/sqlite/0001_later.sql'), step);
  return root;
}
