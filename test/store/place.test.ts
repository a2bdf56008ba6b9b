import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import { cli } from '../cli/executable.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'mirror-place-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

describe('the place of the database', () => {
  it('is its owner’s alone: the folder, the file and the log beside it', async () => {
    const before = process.umask(0o002);
    try {
      const path = join(folder, 'data', 'deeper', 'mirror.db');
      const store = await openStore(`file:${path}`);
      await store.writeFact('x', 'y');
      expect([path, `${path}-wal`].map(modeOf)).toEqual(['600', '600']);
      expect([join(folder, 'data'), join(folder, 'data', 'deeper')].map(modeOf)).toEqual(['700', '700']);
      await store.close();
    } finally {
      process.umask(before);
    }
  });

  it.each([
    ['a plain file for a folder', (at: string) => writeFileSync(join(at, 'x'), 'plain'), 'x/mirror.db'],
    ['a folder for the file', (at: string) => mkdirSync(join(at, 'mirror.db')), 'mirror.db'],
  ])('refuses %s in one line, whichever command it is', async (_, prepare, name) => {
    prepare(folder);
    for (const command of [['serve'], ['migrate']]) {
      const { code, err } = await cli(command, settingsFor(join(folder, name)));
      expect({ command, code, lines: err.trimEnd().split('\n') }).toEqual({
        command,
        code: 2,
        lines: [expect.stringMatching(/^compliance-mirror: .*mirror\.db/)],
      });
    }
  });

  it('refuses a file that is mounted without its folder, as -v FILE:FILE does', async (context) => {
    const path = join(folder, 'mirror database.db');
    const mounted = join(folder, 'mounted database.db');
    await (await openStore(`file:${path}`)).close();
    writeFileSync(mounted, '');
    if (spawnSync('mount', ['--bind', path, mounted]).status !== 0) context.skip('it takes root on Linux');
    try {
      const { code, err } = await cli(['serve'], settingsFor(mounted));
      expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining('is mounted by itself') });
    } finally {
      spawnSync('umount', [mounted]);
    }
  });

  it.runIf(process.platform === 'linux').each(['/proc/mirror.db', '/proc/none/at/all/mirror.db'])(
    'refuses %s at once',
    async (path) => {
      const { code, err } = await cli(['serve'], settingsFor(path));
      expect(code).toBe(2);
      expect(err.trimEnd().split('\n')).toEqual([expect.stringContaining('DATABASE_URL')]);
    },
  );
});

const settingsFor = (path: string) => ({
  DATABASE_URL: `file:${path}`,
  PORT: '0',
  OPS_PORT: '0',
  WEBHOOK_SECRETS: 'a-secret-nobody-uses',
});

it('RISK_IDS_FILE that is a folder is said to be one', async () => {
  const ids = join(folder, 'ids');
  mkdirSync(ids);
  const settings = { ...settingsFor(join(folder, 'mirror.db')), RISK_IDS_FILE: ids };
  const { code, err } = await cli(['serve'], settings);
  expect(code).toBe(2);
  expect(err).toContain('RISK_IDS_FILE');
  expect(err).toContain('is a folder');
});
