import { spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it, onTestFinished } from 'vitest';
import { eventBody, header, nowSeconds } from '../receive/sign.ts';
import { cli, start } from './executable.ts';

const MAIN = fileURLToPath(new URL('../../dist/src/main.js', import.meta.url));
const SECRET = 'a-secret-of-the-flooded-one';
const WRONG = 'a-secret-that-was-mistyped';
/** What a flood of 4,000 may write. */
const LOG_BYTES = 256 * 1024;
/** On one connection without waiting for answers; it closes one that sends many more. */
const BATCH = 25;

const folder = mkdtempSync(join(tmpdir(), 'flood-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Sends requests down one connection from that loopback address; resolves once as many answers have come. */
function pipelined(port: number, localAddress: string, bodies: string[], secret: string): Promise<void> {
  const text = bodies.map((body) =>
    [
      ...['POST /webhooks HTTP/1.1', 'Host: mirror', `Content-Length: ${Buffer.byteLength(body)}`],
      `X-Webhook-Signature: ${header(nowSeconds(), body, secret)}`,
      ...['', body],
    ].join('\r\n'),
  );
  return new Promise((resolve, reject) => {
    let answers = 0;
    const socket = connect({ port, host: '127.0.0.1', localAddress }, () => socket.write(text.join('')));
    socket.setEncoding('latin1').on('data', (part: string) => {
      answers += part.split('HTTP/1.1 401').length - 1;
      if (answers < bodies.length) return;
      socket.destroy();
      resolve();
    });
    socket.once('error', reject);
    socket.once('close', () => reject(new Error(`closed after ${answers} answers`)));
  });
}

it('amid 4,000 forged deliveries the real sender’s are found, and the log stays small', async () => {
  const settings = { DATABASE_URL: `file:${join(folder, 'mirror.db')}`, WEBHOOK_SECRETS: SECRET };
  const log = openSync(join(folder, 'log'), 'w');
  const child = spawn(process.execPath, [MAIN, 'serve'], {
    env: { PATH: process.env['PATH'], ...settings, PORT: '0', OPS_PORT: '0' },
    stdio: ['ignore', log, 'pipe'],
  });
  closeSync(log);
  onTestFinished(() => void child.kill('SIGKILL'));
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const port = await new Promise<number>((resolve) => {
    createInterface({ input: child.stderr! }).on('line', (line) => {
      if (line.startsWith('Deliveries: ')) resolve(Number(new URL(line.slice(12)).port));
    });
  });
  // Of the very form of the real ones, and each another.
  const flood = async (from: string, times: number) => {
    for (let sent = 0; sent < times; sent += BATCH) {
      const bodies = Array.from({ length: BATCH }, (_, n) => eventBody({ id: `evt_${from}_${sent + n}` }));
      await pipelined(port, from, bodies, 'a-secret-of-nobody');
    }
  };
  const floods = [flood('127.0.0.2', 2_000), flood('127.0.0.3', 2_000)];
  for (const id of ['evt_real_1', 'evt_real_2', 'evt_real_3']) {
    await pipelined(port, '127.0.0.1', [eventBody({ id })], WRONG);
  }
  await Promise.all(floods);
  child.kill('SIGTERM');
  expect(await exited).toBe(0);

  expect(statSync(join(folder, 'log')).size).toBeLessThan(LOG_BYTES);
  const again = start(['serve'], settings);
  await again.line('Operators: ');
  const list = await cli(['deliveries', 'state=rejected', '--limit', '500', '--json'], settings);
  const { items } = JSON.parse(list.out) as { items: { id: string; address: string; deliveries: number }[] };
  expect(items.reduce((sum, { deliveries }) => sum + deliveries, 0)).toBe(4_003);
  const real = items.filter(({ address }) => address === '127.0.0.1');
  expect(real.map(({ deliveries }) => deliveries)).toEqual([1, 1, 1]);
  const shown = await cli(['deliveries', 'show', real[0]!.id], settings);
  expect(shown.out).toContain('bad_signature');
  expect(await again.stop()).toBe(0);
}, 120_000);
