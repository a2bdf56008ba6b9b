import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** What keeps the tree at `root` from being released, one line each; none: nothing does. */
export function whatIsAmiss(root: string): string[] {
  const { version, private: isPrivate } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const lines: string[] = [];
  if (isPrivate) lines.push('package.json says "private"');
  const heading = readFileSync(join(root, 'CHANGELOG.md'), 'utf8')
    .split('\n')
    .find((line) => line.startsWith(`## [${version}]`));
  if (heading === undefined) lines.push(`CHANGELOG.md has no section "## [${version}] - DATE"`);
  else if (!/\] - \d{4}-\d\d-\d\d$/.test(heading)) lines.push(`CHANGELOG.md has no date: "${heading}"`);
  const changed = execFileSync('git', ['status', '--porcelain'], { cwd: root, encoding: 'utf8' }).trim();
  if (changed !== '') lines.push(`not everything is committed:\n${changed}`);
  return [...lines, ...whatIsThawed(root)];
}

/** By its path under `drizzle/`, the SHA-256 of each step that was ever released. */
type Frozen = Record<string, string>;

const FROZEN = 'drizzle/frozen.json';

const hashOf = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex');

function frozen(root: string): Frozen {
  const path = join(root, FROZEN);
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {};
}

/** Databases that somebody has were made by these steps: a change comes as another one. One line for each that is not as it was. */
export function whatIsThawed(root: string): string[] {
  return Object.entries(frozen(root)).flatMap(([step, hash]) => {
    const path = join(root, 'drizzle', step);
    if (existsSync(path) && hashOf(path) === hash) return [];
    return [
      `drizzle/${step} was released and may not change: put it back, and run npm run migrations -- NAME`,
    ];
  });
}

/** Every step that there is becomes one that may not change. Returns those that are new among them. */
export function freeze(root: string): string[] {
  const before = frozen(root);
  const steps = globSync('*/*.sql', { cwd: join(root, 'drizzle') }).toSorted();
  const fresh = steps.filter((step) => before[step] === undefined);
  const all = {
    ...before,
    ...Object.fromEntries(fresh.map((step) => [step, hashOf(join(root, 'drizzle', step))])),
  };
  if (fresh.length > 0) writeFileSync(join(root, FROZEN), `${JSON.stringify(all, null, 2)}\n`);
  return fresh;
}
