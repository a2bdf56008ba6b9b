import { execFileSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { freeze, whatIsAmiss, whatIsThawed } from './checks.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

describe('the steps in this tree', () => {
  it('are as they were released', () => {
    expect(whatIsThawed(ROOT)).toEqual([]);
  });
});

describe('a tree', () => {
  let root: string;
  const git = (...args: string[]) => execFileSync('git', args, { cwd: root, stdio: 'pipe' });
  const commit = () => {
    git('add', '--all');
    git('-c', 'user.name=somebody', '-c', 'user.email=s@example.com', 'commit', '--message', 'all');
  };
  const write = (name: string, text: string) => writeFileSync(join(root, name), text);

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'release-'));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    cpSync(join(ROOT, 'drizzle'), join(root, 'drizzle'), { recursive: true });
    rmSync(join(root, 'drizzle/frozen.json'), { force: true });
    write('package.json', '{ "version": "0.2.0" }');
    write('CHANGELOG.md', '# Changelog\n\n## [0.2.0] - 2026-11-30\n');
    git('init', '--quiet');
    commit();
  });

  it('with a dated section of its version and nothing uncommitted is fit to be released', () => {
    expect(whatIsAmiss(root)).toEqual([]);
  });

  it.each([
    ['whose section has no date', 'CHANGELOG.md', '## [0.2.0] - unreleased\n', 'CHANGELOG.md has no date'],
    [
      'whose section is of another version',
      'CHANGELOG.md',
      '## [0.2.1] - 2026-11-30\n',
      'no section "## [0.2.0]',
    ],
    ['that is private', 'package.json', '{ "version": "0.2.0", "private": true }', 'says "private"'],
  ])('%s is not', (_, file, text, said) => {
    write(file, text);
    commit();
    expect(whatIsAmiss(root)).toEqual([expect.stringContaining(said)]);
  });

  it.each(['package.json', 'new.txt'])('with a change of %s that is not committed is not', (name) => {
    appendFileSync(join(root, name), '\n');
    expect(whatIsAmiss(root)).toEqual([expect.stringContaining(name)]);
  });

  it.each(['sqlite/0000_mirror.sql', 'postgres/0000_mirror.sql'])(
    'with released steps may have new ones, and not another %s, nor none',
    (step) => {
      expect(freeze(root)).toContain(step);
      write('drizzle/sqlite/0001_more.sql', 'SELECT 1;\n');
      commit();
      expect(whatIsAmiss(root)).toEqual([]);

      appendFileSync(join(root, 'drizzle', step), ' ');
      commit();
      expect(whatIsAmiss(root)).toEqual([expect.stringContaining(step)]);
      // A release more does not make it right.
      expect(freeze(root)).toEqual(['sqlite/0001_more.sql']);
      expect(whatIsThawed(root)).toEqual([expect.stringContaining(step)]);

      rmSync(join(root, 'drizzle', step));
      expect(whatIsThawed(root)).toEqual([expect.stringContaining(step)]);
    },
  );
});
