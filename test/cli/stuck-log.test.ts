import { execFileSync, spawn } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it, onTestFinished } from 'vitest';
import { header, nowSeconds } from '../receive/sign.ts';

const MAIN = fileURLToPath(new URL('../../dist/src/main.js', import.meta.url));
const SECRET = 'a-secret-of-the-stuck-log';
/** Two lines each, of some 200 bytes: twice what a pipe holds. */
const DELIVERIES = 320;

const folder = mkdtempSync(join(tmpdir(), 'stuck-log-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** A service whose standard output is that descriptor, or a socket. */
async function serveInto(name: string, stdout: number | 'pipe') {
  const child = spawn(process.execPath, [MAIN, 'serve'], {
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      WEBHOOK_SECRETS: SECRET,
      DATABASE_URL: `file:${join(folder, `${name}.db`)}`,
      PORT: '0',
      OPS_PORT: '0',
    },
    stdio: ['ignore', stdout, 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  const url = await new Promise<string>((resolve) => {
    createInterface({ input: child.stderr! }).on('line', (line) => {
      if (line.startsWith('Deliveries: ')) resolve(line.replace('Deliveries: ', ''));
    });
  });
  let number = 0;
  return {
    child,
    /** The statuses, each once. */
    async deliver(count: number): Promise<number[]> {
      const statuses = new Set<number>();
      const one = async () => {
        number += 1;
        const data = { id: `pol_${number}`, name: 'n' };
        const created = new Date().toISOString();
        const body = JSON.stringify({ id: `evt_${number}`, type: 'policy.updated', created, data });
        const headers = { 'x-webhook-signature': header(nowSeconds(), body, SECRET) };
        statuses.add((await fetch(url, { method: 'POST', body, headers })).status);
      };
      for (let sent = 0; sent < count; sent += 20) await Promise.all(Array.from({ length: 20 }, one));
      return [...statuses];
    },
    async stop(): Promise<number | null> {
      child.kill('SIGTERM');
      return await exited;
    },
  };
}

/** A named pipe: what `docker logs` and `| less` are, and what Node's own `pipe` is not. */
function namedPipe(name: string): string {
  const path = join(folder, name);
  execFileSync('mkfifo', [path]);
  return path;
}

it('a pipe that nobody reads holds neither deliveries nor a stop', async () => {
  // For reading and writing: it has a reader, which never reads.
  const fd = openSync(namedPipe('stuck'), constants.O_RDWR);
  onTestFinished(() => closeSync(fd));
  const service = await serveInto('stuck', fd);
  expect(await service.deliver(DELIVERIES)).toEqual([202]);
  expect(await service.stop()).toBe(0);
});
