import { expect, test } from 'vitest';
import { createOps } from '../../src/ops/app.ts';
import { isOwnHost } from '../../src/ops/headers.ts';
import { bearer, OPERATE, opsHarness, signIn } from './harness.ts';

const CONFIGURED = ['ops.lan.example', 'mirror.example:8443'];

test.each([
  // addresses: no site can make one its own
  ['127.0.0.1:8081', true],
  ['10.1.2.3', true],
  ['192.0.2.7:9000', true],
  ['[::1]:8081', true],
  ['[2001:db8::1]', true],
  ['[::ffff:192.0.2.7]:8081', true],
  ['0x7f.1:8081', true],
  // names that no stranger can register
  ['localhost:8081', true],
  ['LOCALHOST', true],
  ['mirror.localhost', true],
  ['mirror:8081', true],
  [undefined, true],
  // names that the settings give, at any port: one may be mapped to another
  ['mirror.example', true],
  ['Mirror.Example.:8081', true],
  ['ops.lan.example:8081', true],
  // everybody else's
  ['evil.example', false],
  ['evil.example:8081', false],
  ['a.mirror.example', false],
  ['mirror.example.evil.example', false],
  ['127.0.0.1.evil.example', false],
  ['localhost.evil.example', false],
  ['evillocalhost.example', false],
  ['evil.evillocalhost', false],
  ['mirror.example@evil.example', false],
  ['evil.example/mirror.example', false],
  ['[::1', false],
  ['', false],
])('the Host %s is ours: %s', (host, isOurs) => {
  expect(isOwnHost(host, CONFIGURED)).toBe(isOurs);
});

const html = { accept: 'text/html' };

test('a browser that was led here by another name is told 421, and no cookie or form gets it further', async () => {
  const h = await opsHarness();
  const evil = { host: 'evil.example:8081' };
  const { cookie } = await signIn(h.app, OPERATE);
  for (const path of ['/', '/sign-in', '/api/status', '/deliveries', '/metrics', '/nowhere']) {
    const response = await h.app.request(path, { headers: { ...html, ...evil, cookie } });
    expect([path, response.status]).toEqual([path, 421]);
    const text = await response.text();
    expect(text).toContain('does not go by that name');
    expect(text).not.toMatch(/OPS_|8081/);
  }
  const posted = await h.app.request('/sign-in', {
    method: 'POST',
    headers: {
      ...evil,
      origin: 'http://evil.example:8081',
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: new URLSearchParams({ token: OPERATE }),
  });
  expect([posted.status, posted.headers.get('set-cookie')]).toEqual([421, null]);
  await h.close();
});

test('operators reach it by the names that the settings give', async () => {
  const h = await opsHarness();
  const publicUrl = new URL('https://mirror.example/');
  const app = createOps({ ...h.context, host: 'ops.lan.example', publicUrl });
  for (const host of ['mirror.example', 'ops.lan.example:8081'])
    expect((await app.request('/sign-in', { headers: { host } })).status).toBe(200);
  expect((await app.request('/sign-in', { headers: { host: 'evil.example' } })).status).toBe(421);
  await h.close();
});

test('probes, scrapes and scripts reach it by any name', async () => {
  const h = await opsHarness();
  const headers = { host: 'mirror.default.svc.cluster.local' };
  expect((await h.app.request('/livez', { headers })).status).toBe(200);
  expect((await h.app.request('/readyz', { headers })).status).toBe(200);
  expect((await h.app.request('/metrics', { headers: { ...headers, ...bearer(OPERATE) } })).status).toBe(200);
  expect((await h.app.request('/metrics', { headers: { ...headers, ...bearer('wrong') } })).status).toBe(401);
  await h.close();
});

test('with an https address all answers tell browsers to come by https alone', async () => {
  const publicUrl = new URL('https://mirror.example/');
  const secure = await opsHarness({ publicUrl });
  const plain = await opsHarness({ publicUrl: new URL('http://mirror.example/') });
  for (const path of ['/livez', '/', '/sign-in', '/nowhere', '/api/status']) {
    for (const host of ['mirror.example', 'evil.example']) {
      const policy = async (h: typeof secure) =>
        (await h.app.request(path, { headers: { host } })).headers.get('strict-transport-security');
      expect([path, await policy(secure), await policy(plain)]).toEqual([path, 'max-age=31536000', null]);
    }
  }
  await secure.close();
  await plain.close();
});
