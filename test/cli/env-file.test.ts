import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readEnvText, withEnvText } from '../../src/cli/env-file.ts';
import { cli, inTemporaryDirectory } from './executable.ts';

const merged = (env: NodeJS.ProcessEnv, file: string) =>
  inTemporaryDirectory(async (folder) => {
    const path = join(folder, '.env');
    writeFileSync(path, file);
    return withEnvText(env, readEnvText(path));
  });

describe('settings in a file .env', () => {
  it.each([
    ['count where the environment has none', {}, 'PORT=1', { PORT: '1' }],
    ['give way to the environment', { PORT: '2' }, 'PORT=1\nHOST=::1', { PORT: '2', HOST: '::1' }],
    ['give way to an empty one, which takes a setting away', { PORT: '' }, 'PORT=1', { PORT: '' }],
    ['give way to the same secret in a file', { A_FILE: '/a' }, 'A=1', { A_FILE: '/a' }],
    ['give way in the other spelling, too', { A: '2' }, 'A_FILE=/a', { A: '2' }],
    ['count from the first, behind a byte order mark', {}, '\uFEFFA=1\nB=2', { A: '1', B: '2' }],
    ['may be quoted, exported and explained', {}, '# why\nexport A="b c" # d\n', { A: 'b c' }],
  ])('%s', async (_, env, file, settings) => {
    expect(await merged(env, file)).toEqual(settings);
  });

  it('are never passed over because the file is of another encoding', async () => {
    await inTemporaryDirectory(async (folder) => {
      const path = join(folder, '.env');
      writeFileSync(path, Buffer.from('\uFEFFPORT=1\n', 'utf16le'));
      expect(() => readEnvText(path)).toThrow(/is not UTF-8/);
    });
  });

  it('need not be there', async () => {
    await inTemporaryDirectory(async (folder) => {
      expect(readEnvText(join(folder, '.env'))).toBe('');
      mkdirSync(join(folder, '.env'));
      expect(readEnvText(join(folder, '.env'))).toBe('');
    });
  });

  it('are read by every command in the folder where it runs, and a bad one is named', async () => {
    await inTemporaryDirectory(async (folder) => {
      writeFileSync(join(folder, '.env'), 'DATABASE_URL=nonsense\n');
      const found = await cli(['status'], {}, { cwd: folder });
      expect(found).toMatchObject({ code: 2, out: '' });
      expect(found.err).toContain('DATABASE_URL');
      const elsewhere = await cli(['status'], { DATABASE_URL: `file:${folder}/none.db` }, { cwd: folder });
      expect(elsewhere.err).not.toContain('DATABASE_URL:');
    });
  });

  it.skipIf(process.getuid?.() === 0)('that cannot be read end the command with code 2', async () => {
    await inTemporaryDirectory(async (folder) => {
      writeFileSync(join(folder, '.env'), 'PORT=1');
      chmodSync(join(folder, '.env'), 0o000);
      expect(await cli(['status'], {}, { cwd: folder })).toMatchObject({ code: 2 });
    });
  });
});
