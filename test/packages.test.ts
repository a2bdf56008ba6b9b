import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

interface LockedPackage {
  version?: string;
  integrity?: string;
  resolved?: string;
  link?: true;
  hasInstallScript?: true;
  optionalDependencies?: Record<string, string>;
}

const read = (name: string) => JSON.parse(readFileSync(new URL(`../${name}`, import.meta.url), 'utf8'));
const manifest: Record<'dependencies' | 'devDependencies', Record<string, string>> & {
  allowScripts: Record<string, boolean>;
} = read('package.json');
const locked: Record<string, LockedPackage> = read('package-lock.json').packages;

/** Older ones have published advisories, or, for the last, need a compiler. */
const FLOORS: Readonly<Record<string, string>> = {
  undici: '8.12.4',
  hono: '4.13.16',
  '@hono/node-server': '2.1.3',
  'drizzle-orm': '0.45.2',
  'better-sqlite3': '13.0.0',
};

/** `3.10.0` is above `3.9.1`. */
function atLeast(version: string, floor: string): boolean {
  const numbers = (text: string) => text.split('-')[0]!.split('.').map(Number);
  const [have, want] = [numbers(version), numbers(floor)];
  const differing = have.findIndex((part, index) => part !== want[index]);
  return differing < 0 || have[differing]! > want[differing]!;
}

/** Where Node looks for `name` from the package at `path`, nearest first. */
function* places(path: string, name: string): Generator<string> {
  for (let from = path; from !== ''; from = from.slice(0, Math.max(0, from.lastIndexOf('/node_modules/')))) {
    yield `${from}/node_modules/${name}`;
  }
  yield `node_modules/${name}`;
}

describe('the packages', () => {
  it('are named with exact versions', () => {
    const { optionalDependencies: nodes } = read('tools/node/package.json');
    const versions = { ...manifest.dependencies, ...manifest.devDependencies, ...nodes };
    const isExact = (version: string) =>
      /^\d+\.\d+\.\d+(-[a-z]+\.\d+)?$/.test(version) || version === 'file:tools/node';
    expect(Object.entries<string>(versions).filter(([, version]) => !isExact(version))).toEqual([]);
    expect(new Set(Object.values(nodes)).size).toBe(1);
  });

  it('are locked with the integrity of each, those of other platforms too, so that npm takes no other content', () => {
    const packages = Object.entries(locked).filter(
      ([path, { link }]) => path.includes('node_modules/') && !link,
    );
    expect(packages.length).toBeGreaterThan(100);
    expect(packages.filter(([, { integrity }]) => !/^sha512-/.test(integrity ?? ''))).toEqual([]);
  });

  it.each(Object.entries(FLOORS))('hold %s at %s or newer, wherever it is installed', (name, floor) => {
    const versions = Object.entries(locked)
      .filter(([path]) => path === `node_modules/${name}` || path.endsWith(`/node_modules/${name}`))
      .map(([, each]) => each.version ?? '');
    // undici is Node's own where nothing brings another one.
    expect(versions.length > 0 || name === 'undici').toBe(true);
    expect(versions.filter((version) => !atLeast(version, floor))).toEqual([]);
  });

  it('are locked for every platform, since npm ci refuses a lock file that leaves one out', () => {
    const missing = Object.entries(locked).flatMap(([path, each]) =>
      Object.keys(each.optionalDependencies ?? {}).filter(
        (name) => ![...places(path, name)].some((place) => locked[place] !== undefined),
      ),
    );
    expect(missing).toEqual([]);
  });

  it('run no install script that nobody has decided about', () => {
    const names = Object.entries(locked)
      .filter(([, each]) => each.hasInstallScript)
      .map(([path]) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length));
    expect([...new Set(names)].filter((name) => manifest.allowScripts[name] === undefined)).toEqual([]);
  });
});
