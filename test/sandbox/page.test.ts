import { request as send } from 'node:http';
import { describe, expect, test } from 'vitest';
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

async function post(url: string, fields: Record<string, string>, headers: Record<string, string> = {}) {
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

const vendors = Array.from({ length: 23 }, (_, n) => ({ id: `v${n + 1}`, name: `Vendor ${n + 1}` }));
const hostile = { id: '"><script>alert(1)</script>', name: '<img src=x onerror=alert(1)>', status: 'odd' };
const seed = { policies: [hostile], riskAssessments: [], vendors };

describe('the page', () => {
  test('shows the records of a kind, the newest first, in pages and by search', async () => {
    const { url } = await testSandbox({ seed });
    const first = (await get(`${url}/?kind=vendor`)).html;
    expect(first).toContain('Vendor 23');
    expect(first).not.toContain('Vendor 13<');
    expect((await get(`${url}/?kind=vendor&page=3`)).html).toContain('Vendor 3');
    const found = (await get(`${url}/?kind=vendor&q=VENDOR 7`)).html;
    expect(found).toContain('v7');
    expect(found).not.toContain('v23');
    expect((await get(`${url}/?kind=nonsense&page=-4`)).status).toBe(200);
  });

  test('needs nothing from elsewhere, runs nothing inline, and escapes what records hold', async () => {
    const { url } = await testSandbox({ seed });
    const { html, headers } = await get(url);
    expect(html).not.toMatch(/<script>|<img|style="| on\w+="/);
    expect(html).not.toMatch(/(src|href)="https?:/);
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    for (const [, path] of html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)) {
      expect((await get(url + path)).status).toBe(200);
    }
  });

  test('has a button for each operation that the status allows, and for no other', async () => {
    const { url } = await testSandbox();
    const { html } = await get(`${url}/?q=policy-0010`);
    const operations = [...html.matchAll(/name="op" value="(\w+)"/g)].map(([, op]) => op);
    expect(operations).toEqual(['create', 'redraft', 'delete']);
  });

  test('its forms create, change, tell nobody if asked to, and lead back to the same view', async () => {
    const { url, control, register, quiesce } = await testSandbox();
    const receiver = await testReceiver();
    await register(receiver.url, ['vendor.*']);
    const create = {
      action: 'mutate',
      kind: 'vendor',
      op: 'create',
      name: 'New',
      fields: '{"tier": 2}',
    };
    const answer = await post(`${url}/act?kind=vendor&q=New`, create);
    expect(answer.status).toBe(303);
    expect(answer.headers.get('location')).toBe('/?kind=vendor&q=New');
    const { id } = (await control('GET', '/state')).body.vendors.at(-1);
    await post(`${url}/act`, { action: 'mutate', kind: 'vendor', op: 'assess', id });
    await post(`${url}/act`, { action: 'mutate', kind: 'vendor', op: 'delete', id, silent: 'on' });
    await quiesce();
    expect(receiver.types()).toEqual(['vendor.added', 'vendor.assessed']);
    expect((await control('GET', '/state')).body.vendors.map((one: { id: string }) => one.id)).not.toContain(
      id,
    );
  });

  test.each([
    [409, { action: 'mutate', kind: 'policy', op: 'submit', id: 'policy-0001' }, 'possible from draft'],
    [404, { action: 'mutate', kind: 'policy', op: 'delete', id: 'none' }, 'no policy'],
    [422, { action: 'mutate', kind: 'policy', op: 'create', name: 'x', fields: '[1]' }, 'JSON object'],
    [422, { action: 'mutate', kind: 'policy', op: 'create', name: 'x', fields: '{' }, 'not JSON'],
    [422, { action: 'nonsense' }, 'action'],
    [422, { action: 'quiesce' }, 'action'],
    [422, { action: 'time', scale: '0x10' }, 'factor'],
    [422, { action: 'faults', drop: '300', payloads: 'full' }, 'drop'],
  ])('says what is wrong with a form (%i, %o)', async (status, fields, text) => {
    const { url } = await testSandbox();
    const answer = await post(`${url}/act`, fields);
    expect(answer.status).toBe(status);
    expect(/<p class="notice">([^<]+)</.exec(answer.html)![1]).toContain(text);
  });

  test('switches faults, the pace of retries and scenarios', async () => {
    const { url, control } = await testSandbox();
    const faults = {
      drop: '12.5',
      'delay.probability': '50',
      'delay.minMs': '1',
      'delay.maxMs': '2',
      rateLimit: '',
      payloads: 'thin',
    };
    expect((await post(`${url}/act`, { action: 'faults', ...faults })).status).toBe(303);
    expect((await control('GET', '/faults')).body).toMatchObject({
      drop: 0.125,
      rateLimit: null,
      payloads: 'thin',
      delay: { probability: 0.5, minMs: 1000, maxMs: 2000 },
    });
    expect((await post(`${url}/act`, { action: 'time', scale: '20' })).status).toBe(303);
    expect((await post(`${url}/act`, { action: 'scenario', name: 'lively' })).status).toBe(303);
    expect((await control('GET', '/state')).body).toMatchObject({
      timeScale: 20,
      scenario: { lively: { perSecond: 5 } },
    });
  });

  test('shows to whom deliveries went, what became of them, and who wants no more', async () => {
    const { url, control, register, quiesce } = await testSandbox();
    const [willing, gone] = [await testReceiver(), await testReceiver(() => 410)];
    for (const receiver of [willing, gone]) await register(receiver.url, ['vendor.*']);
    await control('POST', '/faults', { duplicate: 1 });
    await control('POST', '/mutate', { kind: 'vendor', op: 'add', fields: { name: 'Twice' } });
    await quiesce();
    const { html } = await get(url);
    for (const receiver of [willing, gone]) expect(html).toContain(`<td><code>${receiver.url}</code></td>`);
    for (const words of ['>delivered<', '>cancelled<', '<small>duplicate</small>'])
      expect(html).toContain(words);
    expect(html.match(/Disabled: it answered 410/g)).toHaveLength(1);
    expect((await get(`${url}/?q=nobody`)).html).toContain('Nothing matches “nobody”.');
  });

  test('is told of changes while it is open', async () => {
    const { url, control } = await testSandbox();
    const stream = await fetch(`${url}/parts?kind=vendor`);
    expect(stream.headers.get('content-type')).toContain('text/event-stream');
    const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
    await control('POST', '/mutate', { kind: 'vendor', op: 'add', fields: { name: 'Seen at once' } });
    let text = '';
    while (!text.includes('Seen at once')) text += (await reader.read()).value ?? '';
    expect(text).toContain('event: parts');
    await reader.cancel();
  });
});

describe('who may use it', () => {
  test.each([
    ['another site', { origin: 'https://elsewhere.example' }],
    ['an opaque one', { origin: 'null' }],
    ['another port of this machine', { origin: 'http://127.0.0.1:1' }],
  ])('not a page of %s', async (_, headers) => {
    const { url } = await testSandbox();
    const before = (await get(url)).html;
    const fields = { action: 'mutate', kind: 'policy', op: 'delete', id: 'policy-0001' };
    expect((await post(`${url}/act`, fields, headers)).status).toBe(403);
    expect((await get(url)).html).toBe(before);
  });

  test.each(['/', '/_sandbox/state', '/v1/policies', '/oauth/authorize', '/openapi.json'])(
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
    const guarded = [
      ...['/?kind=vendor', '/parts', '/_sandbox/state', '/nothing'],
      '/oauth/authorize?client_id=sandbox-client',
    ];
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
    expect((await get(`${url}/v1/policies`)).headers.get('www-authenticate')).toBe('Bearer');
    const lively = { action: 'scenario', name: 'lively' };
    expect((await post(`${url}/act`, lively)).status).toBe(401);
    expect(
      (await post(`${url}/act`, lively, { ...basic(TOKEN), origin: 'https://else.example' })).status,
    ).toBe(403);
    expect((await post(`${url}/act`, lively, basic(TOKEN))).status).toBe(303);
    for (const headers of [basic(TOKEN), { authorization: `Bearer ${TOKEN}` }]) {
      expect((await get(`${url}/?kind=vendor`, headers)).html).toContain('vendor-0001');
      expect((await get(`${url}/_sandbox/state`, headers)).status).toBe(200);
    }
  });
});
