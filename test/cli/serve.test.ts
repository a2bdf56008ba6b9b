import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it, vi } from 'vitest';
import { signInLine } from '../../src/cli/serve.ts';
import { freePorts } from '../support/ports.ts';
import { cli, inTemporaryDirectory, start } from './executable.ts';

const folder = mkdtempSync(join(tmpdir(), 'serve-'));
afterAll(() => rmSync(folder, { recursive: true }));

function settings(name: string, more: Record<string, string> = {}): Record<string, string> {
  return { DATABASE_URL: `file:${join(folder, name)}`, PORT: '0', OPS_PORT: '0', ...more };
}

it('files with secrets that others can read are named, and end the start where they say who is an operator', async () => {
  await inTemporaryDirectory(async (cwd) => {
    writeFileSync(join(cwd, '.env'), 'LOG_LEVEL=info\n', { mode: 0o644 });
    writeFileSync(join(cwd, 'mirror.db'), '', { mode: 0o640 });
    const env = { ...settings(''), DATABASE_URL: 'file:./mirror.db' };
    const named = await cli(['serve', '--attached'], env, { cwd });
    expect(named.code).toBe(0);
    expect(named.err).toContain('compliance-mirror: .env can be read by other users: chmod 600 .env\n');
    expect(named.err).toContain('compliance-mirror: ./mirror.db can be read by other users: chmod 600');
    writeFileSync(join(cwd, '.env'), `OPS_TOKENS=olga:operate:${'x1'.repeat(20)}\n`);
    const refused = await cli(['serve', '--attached'], env, { cwd });
    expect(refused).toMatchObject({
      code: 2,
      err: expect.stringContaining('with OPS_TOKENS, can be read by'),
    });
  });
});

it('a disk without room is called that, and nobody is told to put a backup back', async () => {
  expect(await cli(['migrate'], settings('no-room.db'))).toMatchObject({ code: 0 });
  const noRoom = { node: 'sh', nodeArgs: ['-c', 'ulimit -f 8; exec "$0" "$@"', process.execPath] };
  const { code, err } = await cli(['serve', '--attached'], settings('no-room.db'), noRoom);
  expect(code).toBe(1);
  expect(err).toMatch(/^compliance-mirror: the disk takes no more: .*\(free space, or raise the quota; /m);
  expect(err).not.toContain('backup');
});

it('with nothing set it says that no delivery can be verified, and names the file of the token: the link is for a terminal alone', async () => {
  const service = start(['serve'], settings('signs-in.db'));
  let said = '';
  service.child.stderr?.on('data', (text: Buffer) => {
    said += text;
  });
  const file = join(folder, 'ops-token');
  expect(await service.line('WEBHOOK_SECRETS')).toContain('503');
  expect(await service.line('Sign in: ')).toBe(`Sign in: with the token in ${file}`);
  expect(await service.stop()).toBe(0);
  const token = readFileSync(file, 'utf8').trim();
  expect(token).toHaveLength(43);
  expect(said).not.toContain(token);
  expect(signInLine({ link: 'http://x/#token=1', tokenFile: file }, true)).toBe(
    'Sign in: \nhttp://x/#token=1\n',
  );
});

it('a secrets file that becomes unusable is told of in the log, without its content', async () => {
  const path = join(folder, 'secrets');
  writeFileSync(path, 'a-secret-that-may-sign');
  const service = start(['serve'], settings('file.db', { WEBHOOK_SECRETS_FILE: path }));
  const url = (await service.line('Deliveries: ')).replace('Deliveries: ', '');
  writeFileSync(path, 'too-short');
  let line = '';
  void service.line('stays in use').then((told) => {
    line = told;
  });
  // The file is looked at for a delivery, and not at once again.
  await vi.waitUntil(async () => (await fetch(url, { method: 'POST' })).status === 401 && line !== '', {
    timeout: 60_000,
  });
  expect(JSON.parse(line)).toMatchObject({ level: 'warn', stage: 'service' });
  expect(line).toContain('WEBHOOK_SECRETS_FILE');
  expect(line).not.toContain('too-short');
  expect(await service.stop()).toBe(0);
});

it('asked to end while it waits for its database, it waits no longer', async () => {
  const [port] = await freePorts(1);
  const service = start(['serve'], {
    ...settings('none.db'),
    DATABASE_URL: `postgres://mirror:secret@127.0.0.1:${port}/mirror`,
    OPS_TOKENS: 'olga:operate:a-token-of-her-own-of-thirty-two',
  });
  await service.line('waiting for the database');
  expect(await service.stop()).toBe(0);
});
