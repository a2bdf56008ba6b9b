import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer as createPlainServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cli } from './executable.ts';

test.each([[['migrate']], [['webhook', 'register', '--url', 'https://mirror.example/webhooks']]])(
  'with OPS_URL, %j says that it runs where the database is, and makes none here',
  async (args) => {
    const folder = mkdtempSync(join(tmpdir(), 'afar-'));
    const database = join(folder, 'data', 'mirror.db');
    const { code, err } = await cli(args, {
      OPS_URL: 'http://127.0.0.1:1',
      OPS_TOKEN: 'a-token-of-the-tests',
      DATABASE_URL: `file:${database}`,
    });
    expect(code).toBe(2);
    expect(err).toMatch(/OPS_URL is set, and "[^"]+" works on the machine of the database/);
    expect(existsSync(database)).toBe(false);
    rmSync(folder, { recursive: true, force: true });
  },
);

test.each([
  [200, '<html>Sign in</html>'],
  [302, ''],
  // The receiver, whose port is one lower by default.
  [404, '{"type":"about:blank","title":"Not found.","status":404,"code":"not_found"}'],
])('what answers %i %j there is told to be no operators’ listener', async (status, body) => {
  const server = createPlainServer((_, response) => {
    response.statusCode = status;
    response.end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { code, err } = await cli(['problems'], { OPS_URL: url, OPS_TOKEN: 'a-token-of-the-tests' });
  server.close();
  expect(code).toBe(1);
  expect(err).toMatch(/is OPS_URL the address of/);
  expect(err).not.toMatch(/\n\s+at /);
});

test('one that does not answer is said to be named by OPS_URL: a replica on PostgreSQL holds no database', async () => {
  const settings = { OPS_URL: 'http://127.0.0.1:1', OPS_TOKEN: 'a-token-of-the-tests' };
  const { code, err } = await cli(['problems'], settings);
  expect(code).toBe(1);
  expect(err).toMatch(/does not answer \(OPS_URL names it, or it holds the database;/);
});

test('status --check goes by the verdict that the service tells, too', async () => {
  const kinds = ['policy', 'risk_assessment', 'vendor'].map((kind) => ({ kind, verdict: 'in_sync' }));
  let verdict = 'in_sync';
  const server = createPlainServer((_, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ kinds, verdict, sentence: 'So it is.' }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const asked = () =>
    cli(['status', '--check', '--json'], { OPS_URL: url, OPS_TOKEN: 'a-token-of-the-tests' });
  expect((await asked()).code).toBe(0);
  verdict = 'unreachable';
  expect(await asked()).toMatchObject({ code: 3, err: expect.stringContaining('not in sync: So it is.') });
  server.close();
});
