import { execFileSync, spawn } from 'node:child_process';
import { closeSync, constants, createReadStream, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it, onTestFinished } from 'vitest';
import { header, nowSeconds } from '../receive/sign.ts';

const MAIN = fileURLToPath(new URL('../../dist/src/main.js', import.meta.url));
const SECRET = 'a-secret-of-the-stuck-log';
/** Two lines each, of some 200 bytes: several times what a pipe holds. */
const DELIVERIES = 600;

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

const LOGGER = new URL('../../src/platform/logger.ts', import.meta.url).href;
const FLOOD = 60_000;
/** Logs more than may wait, tells how many lines were lost, and ends once one line has been read. */
const FLOODING = `
  const { createLogger, standardOutput } = await import('${LOGGER}');
  const output = standardOutput();
  const logger = createLogger({ level: 'info', ...output });
  output.reportLost(logger);
  for (let seq = 0; seq < ${FLOOD}; seq += 1) logger.info({ seq, path: 'x'.repeat(150) }, 'flood');
  process.stderr.write(output.lost() + '\\n');
  process.stdin.once('data', async () => {
    await output.finish();
    logger.info('after the end');
    process.exit();
  });`;

it('lines that nobody reads are kept up to a bound; once they are read, a line says how many were lost', async () => {
  const path = namedPipe('flooded');
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  onTestFinished(() => closeSync(reader));
  const fd = openSync(path, constants.O_WRONLY);
  const child = spawn(process.execPath, ['--input-type=module', '-e', FLOODING], {
    stdio: ['pipe', fd, 'pipe'],
  });
  closeSync(fd);
  onTestFinished(() => void child.kill('SIGKILL'));
  const lost = await new Promise<number>((resolve) =>
    child.stderr!.once('data', (chunk) => resolve(Number(chunk))),
  );
  expect(lost).toBeGreaterThan(FLOOD / 2);

  const lines: { seq?: number; count?: number; msg: string }[] = [];
  const file = createReadStream('', { fd: openSync(path, constants.O_RDONLY) });
  for await (const line of createInterface({ input: file })) {
    lines.push(JSON.parse(line));
    if (lines.at(-1)!.count !== undefined) child.stdin!.write('end');
  }
  expect(lines.flatMap(({ seq }) => seq ?? [])).toEqual(Array.from({ length: FLOOD - lost }, (_, n) => n));
  expect(lines.at(-1)).toMatchObject({ count: lost, msg: expect.stringContaining('log lines lost') });
});
