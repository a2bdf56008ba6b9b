import { request as send } from 'node:http';
import { describe, expect, test } from 'vitest';
import { EVENT_TYPES } from '../../src/compliance/kinds.ts';
import { testReceiver, testSandbox } from './support.ts';

const TOKEN = 'a-token-of-the-sandbox';

interface Page {
  status: number;
  headers: Headers;
  html: string;
}

async function get(url: string, headers: Record<string, string> = {}): Promise<Page> {
  const answer = await fetch(url, { headers, redirect: 'manual' });
  return { status: answer.status, headers: answer.headers, html: await answer.text() };
}

/** As a browser sends a form of the page itself, unless `headers` say otherwise. */
async function post(
  url: string,
  fields: Record<string, string>,
  headers: Record<string, string> = { 'sec-fetch-site': 'same-origin' },
) {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams(fields),
    redirect: 'manual',
  });
  return { status: answer.status, headers: answer.headers, html: await answer.text() };
}

/** With a Host of our choosing, which fetch does not allow. */
function withHost(url: string, path: string, host: string, method = 'GET'): Promise<number> {
  return new Promise((resolve, reject) => {
    const outgoing = send(url + path, { method, headers: { host } }, (incoming) => {
      incoming.resume();
      resolve(incoming.statusCode ?? 0);
    });
    outgoing.on('error', reject);
    outgoing.end();
  });
}

const hostile = { id: '"><script>alert(1)</script>', name: '<img src=x onerror=alert(1)>', status: 'odd' };
const vendors = Array.from({ length: 60 }, (_, n) => ({ id: `v${n + 1}`, name: `Vendor ${n + 1}` }));
const seed = { policies: [hostile], riskAssessments: [], vendors };

describe('the page', () => {
  test('shows the records, the last changed first, and counts those that it leaves out', async () => {
    const { url, control } = await testSandbox({ seed });
    await control('POST', '/mutate', { kind: 'vendor', op: 'update', id: 'v60' });
    const { html } = await get(url);
    expect(html).toContain('Vendors · 60');
    expect(html.indexOf('Vendor 60')).toBeLessThan(html.indexOf('Vendor 1 '));
    expect(html).toContain('and 10 more');
  });

  test('needs nothing from elsewhere, runs nothing but its own script, and escapes what records hold', async () => {
    const { url } = await testSandbox({ seed });
    const { html, headers } = await get(url);
    expect(html.match(/<script|<style/g)).toHaveLength(2);
    expect(html).not.toMatch(/<img|style="| on\w+="/);
    expect(html).not.toMatch(/(src|href)="https?:/);
    const policy = headers.get('content-security-policy')!;
    for (const part of ["default-src 'none'", "script-src 'sha256-", "style-src 'sha256-"])
      expect(policy).toContain(part);
  });

  test('has a button for each event, which changes a record and announces it, and leads back', async () => {
    const { url, register, quiesce } = await testSandbox();
    const receiver = await testReceiver();
    await register(receiver.url, ['policy.*', 'risk.*', 'vendor.*']);
    const { html } = await get(url);
    const buttons = [...html.matchAll(/name="event" value="([\w.]+)"/g)].map(([, type]) => type!);
    expect(buttons.toSorted()).toEqual([...EVENT_TYPES].toSorted());
    for (const event of buttons) {
      const answer = await post(url, { event });
      expect([answer.status, answer.headers.get('location')]).toEqual([303, '/']);
    }
    await quiesce();
    expect(new Set(receiver.types())).toEqual(new Set(EVENT_TYPES));
  });

  test('begins scenarios, says how long one takes, and stops it', async () => {
    const { url, control } = await testSandbox();
    expect((await post(url, { scenario: 'outage' })).status).toBe(303);
    expect((await get(url)).html).toMatch(/outage, until \d\d:/);
    await post(url, { scenario: 'stop' });
    expect((await control('GET', '/state')).body.scenario).toBeNull();
    expect((await get(url)).html).not.toContain('value="stop"');
  });
});

describe('who may use it', () => {
  test.each([
    ['another site', { origin: 'https://elsewhere.example' }],
    ['another port of this machine', { origin: 'http://127.0.0.1:1' }],
  ])('not a page of %s', async (_, headers) => {
    const { url } = await testSandbox();
    const before = (await get(url)).html;
    expect((await post(url, { event: 'policy.deleted' }, headers)).status).toBe(403);
    expect((await get(url)).html).toBe(before);
  });

  test.each(['/', '/_sandbox/state', '/v1/policies'])(
    'on loopback, nobody who came to %s by the name of another host',
    async (path) => {
      const { url } = await testSandbox();
      expect(await withHost(url, path, 'rebound.example')).toBe(421);
      expect(await withHost(url, path, 'localhost:80')).not.toBe(421);
    },
  );

  test('with a token, only who gives it: a program as a bearer, a browser as the password', async () => {
    const { url } = await testSandbox({ token: TOKEN });
    const basic = (password: string) => ({ authorization: `Basic ${btoa(`anyone:${password}`)}` });
    const guarded = [...['/', '/_sandbox/state', '/nothing'], '/oauth/authorize?client_id=sandbox-client'];
    for (const path of guarded) {
      for (const headers of [
        {},
        basic('another token of some length'),
        { authorization: 'Bearer another' },
      ]) {
        const closed = await get(url + path, headers);
        expect(closed.status).toBe(401);
        expect(closed.headers.get('www-authenticate')).toMatch(/^Basic /);
        expect(closed.html).not.toContain('vendor-0001');
      }
    }
    expect((await get(`${url}/openapi.json`)).status).toBe(200);
    expect((await post(`${url}/oauth/token`, {})).status).toBe(415);
    expect((await get(`${url}/v1/policies`)).headers.get('www-authenticate')).toMatch(/^Bearer/);
    const own = { origin: url };
    const scenario = { scenario: 'good day' };
    expect((await post(url, scenario, own)).status).toBe(401);
    expect((await post(url, scenario, { ...basic(TOKEN), origin: 'https://else.example' })).status).toBe(403);
    expect((await post(url, scenario, { ...basic(TOKEN), ...own })).status).toBe(303);
    for (const headers of [basic(TOKEN), { authorization: `Bearer ${TOKEN}` }]) {
      expect((await get(url, headers)).html).toContain('vendor-0001');
      expect((await get(`${url}/_sandbox/state`, headers)).status).toBe(200);
    }
  });
});
