import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cli } from './executable.ts';

test.each([
  [['migrate']],
  [['backup', 'copy.db']],
  [['login']],
  [['doctor']],
  [['doctor', '--delivery', 'evt_1']],
  [['register', '--url', 'https://mirror.example/webhooks']],
])('with OPS_URL, %j says that it runs where the database is, and makes none here', async (args) => {
  const folder = mkdtempSync(join(tmpdir(), 'afar-'));
  const database = join(folder, 'data', 'mirror.db');
  const { code, err } = await cli(args, {
    ...{ OPS_URL: 'http://127.0.0.1:1', OPS_TOKEN: 'a-token-of-the-tests' },
    DATABASE_URL: `file:${database}`,
  });
  expect(code).toBe(2);
  expect(err).toMatch(/OPS_URL is set, and "[^"]+" works on the machine of the database/);
  expect(existsSync(database)).toBe(false);
  rmSync(folder, { recursive: true, force: true });
});
