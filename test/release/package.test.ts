import { execFileSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { billOfMaterials } from './bill-of-materials.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

describe('the package', () => {
  let folder: string;
  let components: { name: string; version: string; purl: string }[];

  /** Unpacked, with the packages that run and none of those that only developing takes. */
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'package-'));
    execFileSync('npm', ['pack', '--pack-destination', folder], { cwd: ROOT, stdio: 'pipe' });
    execFileSync('tar', ['-xzf', globSync('*.tgz', { cwd: folder })[0]!], { cwd: folder });
    components = JSON.parse(billOfMaterials(ROOT)).components;
    for (const { name } of components) {
      const at = join(folder, 'node_modules', name);
      mkdirSync(join(at, '..'), { recursive: true });
      symlinkSync(join(ROOT, 'node_modules', name), at);
    }
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const program = (...args: string[]) =>
    execFileSync(process.execPath, [join(folder, 'package/dist/src/main.js'), ...args], {
      cwd: folder,
      encoding: 'utf8' as const,
      env: { PATH: process.env['PATH'] },
    });

  it('has a bill of materials with every package that package.json says runs', () => {
    const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    const listed = Object.fromEntries(components.map(({ name, version }) => [name, version]));
    expect(listed).toMatchObject(dependencies);
    expect(listed).not.toHaveProperty('vitest');
  });

  it('runs in a folder with nothing else in it', () => {
    expect(program('setup', '--help')).toContain('--url');
    expect(program('migrate')).toContain('up to date');
  });

  it('locks what it is installed with, each by its integrity, and nothing that only developing takes', () => {
    expect(existsSync(join(ROOT, 'npm-shrinkwrap.json'))).toBe(false);
    const lock = JSON.parse(readFileSync(join(folder, 'package/npm-shrinkwrap.json'), 'utf8'));
    const { '': own, ...packages } = lock.packages;
    expect(own).not.toHaveProperty('devDependencies');
    expect(Object.keys(packages).toSorted()).toEqual(
      expect.arrayContaining(components.map(({ name }) => `node_modules/${name}`)),
    );
  });

  it('brings its documents along, and nothing that only whoever develops it needs', () => {
    const files = globSync('**/*', { cwd: join(folder, 'package') });
    expect(files).toEqual(
      expect.arrayContaining(['docs/operations.md', 'docs/monitoring/alerts.yml', 'LICENSE']),
    );
    expect(files.filter((file) => /\.(map|tsbuildinfo|ts|tsx)$|_snapshot|^test|frozen/.test(file))).toEqual(
      [],
    );
  });
});
