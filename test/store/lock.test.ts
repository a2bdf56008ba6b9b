import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { describe, expect, it, onTestFinished } from 'vitest';
import { UsageError } from '../../src/platform/errors.ts';
import { holderOf, lockFile } from '../../src/store/open.ts';
import { freshPath } from './folder.ts';

const STARTED = '2026-11-01T12:00:00.000Z';
const LOCK_MODULE = new URL('../../src/store/open.ts', import.meta.url).href;

/** A process that holds the file until it is killed. */
async function holdElsewhere(url: string) {
  const script = `
    import { lockFile } from ${JSON.stringify(LOCK_MODULE)};
    // As a service does: what nobody refers to any more is closed by the collector.
    globalThis.lock = lockFile(${JSON.stringify(url)}, ${JSON.stringify(STARTED)});
    lock.announce('http://127.0.0.1:9');
    process.stdout.write('held');
    setInterval(() => undefined, 60_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'exit').then(() => Promise.reject(new Error('ended'))),
  ]);
  return child;
}

describe('the lock on a database file', () => {
  it('refuses a second holder and names the first', async () => {
    const url = `file:${freshPath()}`;
    const child = await holdElsewhere(url);
    expect(() => lockFile(url, STARTED)).toThrow(UsageError);
    expect(() => lockFile(url, STARTED)).toThrow(`process ${child.pid} on ${hostname()}, since ${STARTED}`);
    expect(holderOf(url)).toEqual({
      pid: child.pid,
      host: hostname(),
      opsUrl: 'http://127.0.0.1:9',
      startedAt: STARTED,
    });
  });

  it('is one for the file and every symbolic link to it, also before the file is there', async () => {
    const path = freshPath();
    const link = freshPath();
    symlinkSync(path, link);
    const child = await holdElsewhere(`file:${link}`);
    expect(() => lockFile(`file:${path}`, STARTED)).toThrow(`process ${child.pid} on ${hostname()}`);
    expect(holderOf(`file:${path}`)).toEqual(holderOf(`file:${link}`));
  });

  it('is free as soon as its holder is killed, whatever note is left', async () => {
    const path = freshPath();
    const url = `file:${path}`;
    const child = await holdElsewhere(url);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(readFileSync(`${path}.holder.json`, 'utf8')).toContain(String(child.pid));
    expect(holderOf(url)).toBeNull();
    const lock = lockFile(url, STARTED);
    expect(JSON.parse(readFileSync(`${path}.holder.json`, 'utf8'))).toMatchObject({
      pid: process.pid,
      opsUrl: null,
    });
    lock.release();
  });

  it('can be taken again once it is released, and leaves no note', () => {
    const path = freshPath();
    const url = `file:${path}`;
    const lock = lockFile(url, STARTED);
    expect(statSync(`${path}.holder.json`).mode & 0o777).toBe(0o600);
    lock.release();
    expect(existsSync(`${path}.holder.json`)).toBe(false);
    expect(holderOf(url)).toBeNull();
    lockFile(url, STARTED).release();
  });

  it('stays when its own process looks who holds the file', () => {
    const url = `file:${freshPath()}`;
    const lock = lockFile(url, STARTED);
    onTestFinished(() => lock.release());
    expect(holderOf(url)).toMatchObject({ pid: process.pid });
    const second = `import { lockFile } from ${JSON.stringify(LOCK_MODULE)};
      try { lockFile(${JSON.stringify(url)}, 'now'); } catch (error) { console.log(error.message); }`;
    const said = execFileSync(process.execPath, ['--input-type=module', '-e', second], { encoding: 'utf8' });
    expect(said).toContain(`in use by process ${process.pid}`);
  });

  it('of one file does not keep another', () => {
    const locks = [lockFile(`file:${freshPath()}`, STARTED), lockFile(`file:${freshPath()}`, STARTED)];
    for (const lock of locks) lock.release();
  });
});
