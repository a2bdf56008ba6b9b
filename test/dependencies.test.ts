import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';

/** The first versions without the advisories that concern what we use of them. */
const FLOORS = [
  { name: 'hono', floor: '4.13.16' },
  { name: '@hono/node-server', floor: '2.1.3' },
  { name: 'drizzle-orm', floor: '0.45.2' },
  { name: 'undici', floor: '8.12.4' },
];

interface Manifest {
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}
interface Lock {
  packages: Record<string, { version?: string }>;
}

const read = <T>(path: string): T => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as T;
const { dependencies, devDependencies } = read<Manifest>('../package.json');
const lock = read<Lock>('../package-lock.json');

/** Every version of the package that an installation brings, nested ones too. */
const locked = (name: string) =>
  Object.entries(lock.packages)
    .filter(([path]) => path.endsWith(`node_modules/${name}`))
    .map(([, entry]) => entry.version ?? '');

const parts = (version: string) => version.split(/[.-]/).slice(0, 3).map(Number);
function atLeast(version: string, floor: string): boolean {
  const [have, want] = [parts(version), parts(floor)];
  const differing = [0, 1, 2].find((index) => have[index] !== want[index]);
  return differing === undefined || have[differing]! > want[differing]!;
}

describe('the packages that we install', () => {
  it.each(FLOORS)('hold no $name older than $floor', ({ name, floor }) => {
    for (const version of locked(name)) expect(atLeast(version, floor), `${name} ${version}`).toBe(true);
  });

  it.each(['hono', '@hono/node-server', 'drizzle-orm'])('hold %s at all', (name) => {
    expect(locked(name).length).toBeGreaterThan(0);
  });

  it('are pinned, each to one version', () => {
    const ranges = Object.entries({ ...dependencies, ...devDependencies }).filter(
      ([, range]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(range),
    );
    expect(ranges).toEqual([]);
  });

  it('hold better-sqlite3 in a version that brings its binaries along', () => {
    const pinned = dependencies['better-sqlite3'] ?? '';
    expect(pinned).toMatch(/^\d+\.\d+\.\d+$/);
    expect(locked('better-sqlite3')).toEqual([pinned]);
    expect(atLeast(pinned, '13.0.0')).toBe(true);
    const installed = createRequire(import.meta.url)('better-sqlite3/package.json') as { version: string };
    expect(installed.version).toBe(pinned);
  });

  it.each([
    ['4.13.16', '4.13.16', true],
    ['4.13.19', '4.13.16', true],
    ['4.14.0', '4.13.16', true],
    ['5.0.0', '4.13.16', true],
    ['4.13.9', '4.13.16', false],
    ['4.9.99', '4.13.16', false],
    ['3.99.99', '4.13.16', false],
  ])('compare versions by number: %s against %s', (version, floor, enough) => {
    expect(atLeast(version, floor)).toBe(enough);
  });
});
