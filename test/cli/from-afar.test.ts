import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createPlainServer } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cli, start } from './executable.ts';

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
    OPS_URL: 'http://127.0.0.1:1',
    OPS_TOKEN: 'a-token-of-the-tests',
    DATABASE_URL: `file:${database}`,
  });
  expect(code).toBe(2);
  expect(err).toMatch(/OPS_URL is set, and "[^"]+" works on the machine of the database/);
  expect(existsSync(database)).toBe(false);
  rmSync(folder, { recursive: true, force: true });
});

test.each([
  [205, ''],
  [200, '<html>Sign in</html>'],
  [200, 'null'],
  [302, ''],
  [999, 'x'],
  // The receiver, whose port is one lower by default.
  [404, '{"type":"about:blank","title":"Not found.","status":404,"code":"not_found"}'],
])('what answers %i %j there is told to be no operators’ listener', async (status, body) => {
  const server = createPlainServer((_, response) => {
    response.statusCode = status;
    response.end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { code, err } = await cli(['gaps', 'list'], { OPS_URL: url, OPS_TOKEN: 'a-token-of-the-tests' });
  server.close();
  expect(code).toBe(1);
  expect(err).toMatch(/is OPS_URL the address of/);
  expect(err).not.toMatch(/\n\s+at /);
});

test('one that does not answer is said to be named by OPS_URL: a replica on PostgreSQL holds no database', async () => {
  const settings = { OPS_URL: 'http://127.0.0.1:1', OPS_TOKEN: 'a-token-of-the-tests' };
  const { code, err } = await cli(['gaps', 'list'], settings);
  expect(code).toBe(1);
  expect(err).toMatch(/does not answer \(OPS_URL names it, or it holds the database;/);
});

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;

test.runIf(hasOpenssl)('with an OPS_URL of https, what is waited for long works as well', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'afar-'));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  execFileSync('openssl', ['req', '-x509', ...kind, ...subject, '-keyout', key, '-out', cert], {
    stdio: 'pipe',
  });
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
    response.statusCode = request.headers.authorization === 'Bearer a-token-of-the-tests' ? 200 : 401;
    response.end('{"status":"compared","in_sync":true,"kinds":[]}');
  }).listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const settings = {
      OPS_URL: `https://localhost:${(server.address() as AddressInfo).port}`,
      NODE_EXTRA_CA_CERTS: cert,
    };
    // Node reads the authority at its start.
    const own = { own: true };
    const compared = await cli(
      ['sync', '--dry-run'],
      { ...settings, OPS_TOKEN: 'a-token-of-the-tests' },
      own,
    );
    expect(compared).toMatchObject({ code: 0, err: '' });
    const refused = await cli(
      ['sync', '--dry-run'],
      { ...settings, OPS_TOKEN: 'another-token-of-them' },
      own,
    );
    expect(refused.code).toBe(1);
    expect(refused.err).toContain('OPS_TOKEN beside OPS_URL');
  } finally {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

test('status --check goes by the verdict that the service tells, too', async () => {
  const kinds = ['policy', 'risk_assessment', 'vendor'].map((kind) => ({ kind, verdict: 'in_sync' }));
  let verdict = 'in_sync';
  const server = createPlainServer((_, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({ kinds, verdict, sentence: 'So it is.', remedy: null, since: null, service: {} }),
    );
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

test('an export that is stopped leaves no part of its file', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'afar-'));
  let asked = 0;
  // After a full page it waits for ever.
  const server = createPlainServer((request, response) => {
    asked += 1;
    const items = Array.from({ length: 500 }, (_, id) => ({ id }));
    response.setHeader('content-type', 'application/json');
    if (!request.url?.includes('after=')) response.end(JSON.stringify({ items, next: 'more' }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const settings = { OPS_URL: url, OPS_TOKEN: 'a-token-of-the-tests' };
  const running = start(['export', 'audit', join(folder, 'audit.csv')], settings);
  await expect.poll(() => asked).toBe(2);
  expect(readdirSync(folder)).toHaveLength(1);
  expect(await running.stop()).toBe(1);
  expect(await running.line('stopped')).toContain('nothing is left of the attempt');
  expect(readdirSync(folder)).toEqual([]);
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});
