import { spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const read = (name: string) => readFileSync(join(ROOT, name), 'utf8');
/** As links name them. */
const headings = (name: string) =>
  [...read(name).matchAll(/^#+ (.*)$/gm)].map(([, text]) =>
    text!
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-'),
  );
const settings = read('docs/settings.md');

describe('the documents', () => {
  it('describe exactly the settings of the stand-in', () => {
    const named = new Set(settings.match(/\bSANDBOX_[A-Z_]+/g));
    expect([...named].toSorted()).toEqual(['SANDBOX_API_KEY', 'SANDBOX_TOKEN']);
  });

  it('name every column that users may rely on, of the three tables', () => {
    const tables = read('drizzle/sqlite/0000_mirror.sql');
    const policies = /CREATE TABLE `policies` \(([\s\S]*?)\n\)/.exec(tables)![1]!;
    const columns = [...policies.matchAll(/^\t`(\w+)`/gm)].map(([, name]) => name!);
    expect(columns.length).toBeGreaterThan(10);
    expect(columns.filter((name) => !read('docs/tables.md').includes(`\`${name}\``))).toEqual([]);
  });

  it.each(globSync('{*,docs/*}.md', { cwd: ROOT }))('link in %s only to what is there', (name) => {
    const broken = [...read(name).matchAll(/\]\(([^)#:]*)(?:#([^)]*))?\)/g)].filter(([, target, heading]) => {
      const to = target === '' ? name : join(dirname(name), target!);
      return !existsSync(join(ROOT, to)) || (heading !== undefined && !headings(to).includes(heading));
    });
    expect(broken.map(([link]) => link)).toEqual([]);
  });

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

describe('docs/compliance-mirror.service', () => {
  const unit = read('docs/compliance-mirror.service');
  const analyze = (...args: string[]) => spawnSync('systemd-analyze', args, { encoding: 'utf8' });

  it('starts what the page says is installed, where the page has setup write its settings', () => {
    const [, folder, program] = /env -C (\S+) (\S+)'$/m.exec(read('docs/running.md'))!;
    expect(unit).toContain(`\nWorkingDirectory=${folder}\n`);
    expect(unit).toContain(`\nExecStart=${program} serve\n`);
  });

  it('leaves no dump of its memory, nor do the containers', () => {
    expect(unit).toContain('\nLimitCORE=0\n');
    expect(read('compose.yaml')).toMatch(/^ {2}mirror:\n(?: {4}.*\n|\n)*? {4}ulimits: \{ core: 0 \}$/m);
  });

  it.skipIf(analyze('--version').status !== 0)(
    'is one that systemd takes, and is shut off from the rest of the machine (skipped where systemd is not)',
    () => {
      const folder = mkdtempSync(join(tmpdir(), 'unit-'));
      try {
        const file = join(folder, 'compliance-mirror.service');
        // What is to be installed there is not on the machine of the tests.
        writeFileSync(file, unit.replace(/^ExecStart=.*$/m, `ExecStart=${process.execPath}`));
        expect(analyze('verify', file)).toMatchObject({ status: 0, stderr: '' });
        // Tenths of a point: above it, it fails.
        expect(analyze('security', '--offline=true', '--threshold=15', file).status).toBe(0);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  );
});
