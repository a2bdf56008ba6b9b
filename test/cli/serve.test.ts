import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it, vi } from 'vitest';
import { signInLine } from '../../src/cli/serve.ts';
import { freePorts } from '../support/ports.ts';
import { cli, start, startScript } from './executable.ts';

const folder = mkdtempSync(join(tmpdir(), 'serve-'));
afterAll(() => rmSync(folder, { recursive: true }));

function settings(name: string, more: Record<string, string> = {}): Record<string, string> {
  return { DATABASE_URL: `file:${join(folder, name)}`, PORT: '0', OPS_PORT: '0', ...more };
}

it('a start without any way to a signing secret says which setting is missing, and starts', async () => {
  const service = start(['serve'], settings('bare.db'));
  expect(await service.line('WEBHOOK_SECRETS')).toContain('503');
  await service.line('Deliveries: ');
  expect(await service.stop()).toBe(0);
});

it('a start with few files to open says so, and starts', async () => {
  const few = { node: 'sh', nodeArgs: ['-c', 'ulimit -n 64; exec "$0" "$@"', process.execPath] };
  // Standard input has ended already.
  const { code, err } = await cli(['serve', '--attached'], settings('few.db'), few);
  expect(code).toBe(0);
  expect(err).toMatch(/^compliance-mirror: this process may open 64 files, .*ulimit -n/m);
  expect(err).toContain('Deliveries: ');
});

it('a disk without room is called that, and nobody is told to put a backup back', async () => {
  expect(await cli(['migrate'], settings('no-room.db'))).toMatchObject({ code: 0 });
  const noRoom = { node: 'sh', nodeArgs: ['-c', 'ulimit -f 8; exec "$0" "$@"', process.execPath] };
  for (const args of [['status'], ['serve', '--attached']]) {
    const { code, err } = await cli(args, settings('no-room.db'), noRoom);
    expect(code).toBe(1);
    expect(err).toMatch(/^compliance-mirror: the disk takes no more: .*\(free space, or raise the quota; /m);
    expect(err).not.toContain('backup');
  }
});

it('without OPS_TOKENS the link that signs in is for a terminal alone: elsewhere the token is named by its file', async () => {
  const service = start(['serve'], settings('signs-in.db'));
  let said = '';
  service.child.stderr?.on('data', (text: Buffer) => {
    said += text;
  });
  const file = join(folder, 'ops-token');
  expect(await service.line('Sign in: ')).toBe(`Sign in: with the token in ${file}`);
  expect(await service.stop()).toBe(0);
  const token = readFileSync(file, 'utf8').trim();
  expect(token).toHaveLength(43);
  expect(said).not.toContain(token);
  expect(signInLine({ link: 'http://x/#token=1', tokenFile: file }, true)).toBe(
    'Sign in: http://x/#token=1\n',
  );
});

it('SIGUSR1, which some tools send for a new log file, opens no debugger', async () => {
  const service = start(['serve'], settings('signal.db', { NODE_OPTIONS: '--inspect-port=0' }));
  let said = '';
  service.child.stderr?.on('data', (text: Buffer) => {
    said += text;
  });
  await service.line('Operators: ');
  service.child.kill('SIGUSR1');
  // Node starts the debugger in a thread of its own.
  await sleep(500);
  expect(await service.stop()).toBe(0);
  expect(said).not.toContain('Debugger');
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

it('npm start hands SIGTERM on to the service, and ends when it has ended, with its exit code', async () => {
  const service = startScript('start', settings('npm.db', { LOG_LEVEL: 'info' }));
  const url = (await service.line('Deliveries: ')).replace('Deliveries: ', '');
  const stopped = service.line('"outcome":"stopped"');
  expect(await service.stop()).toBe(0);
  expect(JSON.parse(await stopped)).toMatchObject({ stage: 'service' });
  await expect(fetch(url)).rejects.toThrow();
});

it('asked to end while it waits for its database, it waits no longer', async () => {
  const [port] = await freePorts(1);
  const service = start(['serve'], {
    ...settings('none.db'),
    DATABASE_URL: `postgres://mirror:secret@127.0.0.1:${port}/mirror`,
    OPS_TOKENS: 'olga:operate:a-token-of-her-own',
  });
  await service.line('waiting for the database');
  expect(await service.stop()).toBe(0);
});
