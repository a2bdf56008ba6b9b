import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { sandboxSettingNames } from '../sandbox/options.ts';

const read = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const readme = read('README.md');

/** The README's part under a heading of the second level. */
function section(heading: string): string {
  const from = readme.indexOf(`\n## ${heading}\n`);
  expect(from, heading).toBeGreaterThan(0);
  const to = readme.indexOf('\n## ', from + 1);
  return readme.slice(from, to === -1 ? undefined : to);
}

const SETTINGS = [...read('src/platform/config.ts').matchAll(/read\.(?:value|secret)\(\s*'([A-Z_]+)'/g)].map(
  ([, name]) => name!,
);
const TABLE_NAMES = section('Settings')
  .split('\n')
  .filter((line) => line.startsWith('| `'))
  .flatMap((line) => [...line.split('|')[1]!.matchAll(/`([A-Z_]+)`/g)].map(([, name]) => name!));

describe('the documents', () => {
  it('describe exactly the settings that are read', () => {
    expect(SETTINGS.length).toBeGreaterThan(30);
    expect(TABLE_NAMES.toSorted()).toEqual(SETTINGS.toSorted());
  });

  it('describe exactly the settings of the stand-in', () => {
    const asked = [...sandboxSettingNames()].filter((name) => !name.endsWith('_FILE'));
    const named = new Set(section('Settings').match(/\bSANDBOX_[A-Z_]+/g));
    expect([...named].toSorted()).toEqual(asked.toSorted());
  });

  it('offer as an example only settings that are read', () => {
    const offered = [...read('.env.example').matchAll(/^#?([A-Z_]+)=/gm)].map(([, name]) => name!);
    expect(offered.length).toBeGreaterThan(5);
    expect(offered.filter((name) => !SETTINGS.includes(name))).toEqual([]);
  });

  it('name every column that users may rely on, of the three tables', () => {
    const tables = read('drizzle/sqlite/0000_tables.sql');
    const policies = /CREATE TABLE `policies` \(([\s\S]*?)\n\)/.exec(tables)![1]!;
    const columns = [...policies.matchAll(/^\t`(\w+)`/gm)].map(([, name]) => name!);
    expect(columns.length).toBeGreaterThan(10);
    expect(columns.filter((name) => !section('The tables').includes(`\`${name}\``))).toEqual([]);
  });

  it.each(['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md'])(
    'link in %s only to what is there',
    (name) => {
      const targets = [...read(name).matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, target]) => target!);
      const missing = targets.filter((target) => !existsSync(new URL(`../${target}`, import.meta.url)));
      expect(missing).toEqual([]);
    },
  );

  it.each(['ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md'])(
    'name in %s only what is in the tree',
    (name) => {
      const named = [...read(name).matchAll(/`((?:src|sandbox|test|drizzle)\/[\w./-]*)`/g)].map(
        ([, path]) => path!,
      );
      expect(named.length).toBeGreaterThan(10);
      expect(named.filter((path) => !existsSync(new URL(`../${path}`, import.meta.url)))).toEqual([]);
    },
  );
});
