import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { OpsToken } from '../../src/platform/config.ts';
import { bearer, type Harness, OPERATE, opsHarness, READ, signIn } from './harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await opsHarness();
});
afterEach(() => h.close());

const form = { 'content-type': 'application/x-www-form-urlencoded' };
const html = { accept: 'text/html,application/xhtml+xml' };
const auditActions = async () =>
  (await h.store.list('audit', { limit: 100 })).items.map(
    ({ actor, action, outcome }) => `${actor} ${action} ${outcome}`,
  );

describe('bearer tokens', () => {
  test('either role reads', async () => {
    for (const token of [OPERATE, READ]) {
      expect((await h.app.request('/api/status', { headers: bearer(token) })).status).toBe(200);
    }
    // No scheme of HTTP is written in one case only.
    const headers = { authorization: `bearer ${READ}` };
    expect((await h.app.request('/api/status', { headers })).status).toBe(200);
    // Nor is a look at the headers alone a change.
    expect((await h.app.request('/api/status', { method: 'HEAD', headers })).status).toBe(200);
  });

  test('all refusals are alike to the byte', async () => {
    const authorizations = [
      undefined,
      '',
      'Bearer',
      'Bearer ',
      'Bearer wrong',
      `Basic ${OPERATE}`,
      `Bearer ${OPERATE}x`,
      OPERATE,
    ];
    const answers = await Promise.all(
      authorizations.map(async (authorization) => {
        const response = await h.app.request('/api/status', {
          headers: authorization === undefined ? {} : { authorization },
        });
        return JSON.stringify([response.status, [...response.headers], await response.text()]);
      }),
    );
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toContain('401');
  });

  test('a wrong bearer is refused even beside a good session', async () => {
    const { cookie } = await signIn(h.app, OPERATE);
    const response = await h.app.request('/api/status', { headers: { cookie, ...bearer('nonsense') } });
    expect(response.status).toBe(401);
  });

  test('however many are wrong, each is answered alike and counted, and the audit stays small', async () => {
    const wrong = () => h.app.request('/api/status', { headers: bearer('wrong') });
    const answers = await Promise.all(Array.from({ length: 200 }, wrong));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401]));
    expect((await h.app.request('/api/status', { headers: bearer(OPERATE) })).status).toBe(200);
    expect(await auditActions()).toEqual(['unknown bearer refused']);
    const counted = await h.context.metrics.tokensPresented.get();
    const bearers = counted.values.filter(({ labels }) => labels['door'] === 'bearer');
    expect(bearers.map(({ labels, value }) => [labels['outcome'], value])).toEqual([
      ['accepted', 1],
      ['refused', 200],
    ]);
  });

  test('the role read changes nothing, and its try is audited', async () => {
    const response = await h.app.request('/api/pause', { method: 'POST', headers: bearer(READ) });
    expect(response.status).toBe(403);
    expect(await response.json()).toMatchObject({ code: 'forbidden' });
    expect(h.asked).toEqual([]);
    expect((await h.store.list('audit', { limit: 9 })).items).toMatchObject([
      { actor: 'rita', action: 'change', outcome: 'forbidden', target: '/api/pause' },
    ]);
  });
});

describe('signing in', () => {
  test('a person without a session is led to the sign-in, a script is told 401', async () => {
    const person = await h.app.request('/', { headers: html });
    expect([person.status, person.headers.get('location')]).toEqual([303, '/sign-in']);
    expect((await h.app.request('/')).status).toBe(401);
    // Signed in, he would be led to where only a form leads.
    const referer = 'http://localhost/events?state=failed';
    const form = { method: 'POST', headers: { ...html, referer } };
    const answer = await h.app.request('/api/pause', form);
    expect(answer.status).toBe(401);
    const text = await answer.text();
    expect(text).toContain('Your session has ended.');
    expect(text).toContain('href="/sign-in?next=%2Fevents%3Fstate%3Dfailed"');
    // A wrong token never had a session.
    const byToken = await h.app.request('/', { headers: { ...html, ...bearer('wrong') } });
    expect(await byToken.text()).not.toContain('session');
  });

  test('it leads back to the page that was asked for, and never off this site', async () => {
    const asked = await h.app.request('/events?state=failed', { headers: html });
    expect(asked.headers.get('location')).toBe('/sign-in?next=%2Fevents%3Fstate%3Dfailed');
    const cases: [string, string][] = [
      ['/events?state=failed', '/events?state=failed'],
      ['https://evil.example/', '/'],
      ['https://evil.example/events', '/'],
      ['//evil.example/', '/'],
      ['//[', '/'],
      ['/\\evil.example', '/'],
      ['/..//evil.example', '/'],
      ['javascript:alert(1)', '/'],
      ['', '/'],
    ];
    for (const [next, path] of cases) {
      const response = await h.app.request('/sign-in', {
        method: 'POST',
        headers: { ...form, origin: 'http://localhost' },
        body: new URLSearchParams({ token: OPERATE, next }),
      });
      expect([next, response.headers.get('location')]).toEqual([next, path]);
    }
  });

  test('the form gives a cookie that scripts cannot read and other sites cannot send', async () => {
    const { response, cookie } = await signIn(h.app, OPERATE);
    expect([response.status, response.headers.get('location')]).toEqual([303, '/']);
    const set = response.headers.get('set-cookie')!;
    expect(set).toMatch(/^compliance-mirror=[\w-]{43}; /);
    for (const part of ['HttpOnly', 'SameSite=Strict', 'Path=/', 'Max-Age=43200'])
      expect(set).toContain(part);
    expect(set).not.toContain('Secure');
    expect((await h.app.request('/', { headers: { cookie } })).status).toBe(200);
    expect(await auditActions()).toEqual(['olga sign_in ok']);
  });

  test('behind https the cookie is bound to the host and only sent encrypted', async () => {
    const secure = await opsHarness({ publicUrl: new URL('https://mirror.example/') });
    const { response } = await signIn(secure.app, OPERATE, 'https://mirror.example');
    expect(response.headers.get('set-cookie')).toMatch(/^__Host-compliance-mirror=.*; Secure/);
    await secure.close();
  });

  test('the audit says who signed in and out, and from which address, whatever the request claims', async () => {
    const here = { origin: 'http://localhost', 'x-forwarded-for': '203.0.113.9' };
    const bindings = { incoming: { socket: { remoteAddress: '192.0.2.7' }, headers: here } };
    const post = (path: string, fields: Record<string, string>, cookie = '') => {
      const body = new URLSearchParams(fields);
      return h.app.request(path, { method: 'POST', headers: { ...form, ...here, cookie }, body }, bindings);
    };
    const { cookie } = await signIn(h.app, READ);
    await post('/sign-in', { token: OPERATE });
    await post('/sign-out', {}, cookie);
    const [out, signedIn] = (await h.store.list('audit', { limit: 9 })).items;
    expect(out).toMatchObject({ actor: 'rita', action: 'sign_out', outcome: 'ok', target: '192.0.2.7' });
    expect(signedIn).toMatchObject({ actor: 'olga', action: 'sign_in', outcome: 'ok', target: '192.0.2.7' });
  });

  test('a wrong token gets the form again, with its reason and without a cookie', async () => {
    const { response } = await signIn(h.app, 'not-the-token');
    expect(response.status).toBe(401);
    expect(response.headers.get('set-cookie')).toBeNull();
    expect(await response.text()).toContain('This token is not known.');
    expect(await auditActions()).toEqual(['unknown sign_in refused']);
  });

  test.each([
    ['another site', { origin: 'https://evil.example' }],
    ['another port', { origin: 'http://localhost:9999' }],
    ['nowhere', { origin: 'null' }],
    ['an unnamed place', {}],
    ['an unnamed other site', { 'sec-fetch-site': 'cross-site' }],
  ])('the form is not taken from %s', async (_name, headers) => {
    const response = await h.app.request('/sign-in', {
      method: 'POST',
      headers: { ...form, ...headers } as Record<string, string>,
      body: new URLSearchParams({ token: OPERATE }),
    });
    expect(response.status).toBe(403);
    expect(response.headers.get('set-cookie')).toBeNull();
    // A stranger is told of no setting.
    expect(await response.text()).not.toMatch(/[A-Z]+_[A-Z_]+/);
  });

  test('signing out ends the session on the server as well', async () => {
    const { cookie } = await signIn(h.app, READ);
    const response = await h.app.request('/sign-out', {
      method: 'POST',
      headers: { ...form, cookie, origin: 'http://localhost' },
    });
    expect(response.status).toBe(303);
    expect(response.headers.get('set-cookie')).toContain('Max-Age=0');
    expect((await h.app.request('/api/status', { headers: { cookie } })).status).toBe(401);
  });

  test('with the database gone an operator still gets in, to see that it is gone', async () => {
    await h.store.close();
    const { response, cookie } = await signIn(h.app, OPERATE);
    expect(response.status).toBe(303);
    const page = await h.app.request('/', { headers: { cookie } });
    expect(await page.text()).toContain('The database cannot be read.');
  });
});

describe('changes by a signed-in browser', () => {
  const post = (cookie: string, headers: Record<string, string>) =>
    h.app.request('/api/pause', {
      method: 'POST',
      headers: { ...form, ...html, cookie, ...headers },
      body: '',
    });

  test('need this site’s origin, whatever the body is called', async () => {
    const { cookie } = await signIn(h.app, OPERATE);
    for (const from of [{}, { origin: 'https://evil.example' }, { 'sec-fetch-site': 'same-site' }]) {
      expect((await post(cookie, from as Record<string, string>)).status).toBe(403);
      const json = { 'content-type': 'application/json', ...from } as Record<string, string>;
      expect((await post(cookie, json)).status).toBe(403);
    }
    expect(h.asked).toEqual([]);
    expect((await post(cookie, { origin: 'http://localhost' })).status).toBe(303);
    expect((await post(cookie, { 'sec-fetch-site': 'same-origin' })).status).toBe(303);
    expect(h.asked).toEqual(['pause', 'pause']);
  });

  test('are not for the role read, whose page shows no buttons', async () => {
    const { cookie } = await signIn(h.app, READ);
    expect((await post(cookie, { origin: 'http://localhost' })).status).toBe(403);
    expect(await (await h.app.request('/', { headers: { cookie } })).text()).not.toContain('action="/api/');
  });
});

describe('tokens that change while the service runs', () => {
  test('end their sessions, change their roles and open the door at once', async () => {
    let tokens: OpsToken[] = [
      { name: 'olga', role: 'operate', token: OPERATE },
      { name: 'rita', role: 'read', token: READ },
    ];
    const other = await opsHarness({ tokens: () => tokens });
    const olga = await signIn(other.app, OPERATE);
    const rita = await signIn(other.app, READ);
    const opens = async (headers: Record<string, string>) =>
      (await other.app.request('/api/status', { headers })).status;
    expect([await opens({ cookie: olga.cookie }), await opens(bearer(READ))]).toEqual([200, 200]);

    tokens = [{ name: 'olga', role: 'read', token: OPERATE }];
    expect([await opens({ cookie: rita.cookie }), await opens(bearer(READ))]).toEqual([401, 401]);
    const pause = await other.app.request('/api/pause', {
      method: 'POST',
      headers: { ...form, cookie: olga.cookie, origin: 'http://localhost' },
    });
    expect(pause.status).toBe(403);

    tokens = [...tokens, { name: 'rita', role: 'read', token: READ }];
    // Her old session is over; her token is good again.
    expect([await opens({ cookie: rita.cookie }), await opens(bearer(READ))]).toEqual([401, 200]);
    expect(other.asked).toEqual([]);
    await other.close();
  });
});

test('nothing that can be posted is taken from another site, or from a reader', async () => {
  const posted = h.app.routes.filter(({ method, path }) => method === 'POST' && path !== '/sign-in');
  expect(posted.length).toBeGreaterThan(9);
  const olga = await signIn(h.app, OPERATE);
  const rita = await signIn(h.app, READ);
  for (const { path } of posted) {
    const post = async (cookie: string, headers: Record<string, string>) => {
      const sent = { method: 'POST', headers: { ...form, ...html, cookie, ...headers }, body: 'body={}' };
      return (await h.app.request(path.replace(/[{:]id\}?/, '1'), sent)).status;
    };
    for (const elsewhere of [{}, { origin: 'https://evil.example' }, { 'sec-fetch-site': 'same-site' }])
      expect([path, await post(olga.cookie, elsewhere)]).toEqual([path, 403]);
    if (path !== '/sign-out')
      expect([path, await post(rita.cookie, { origin: 'http://localhost' })]).toEqual([path, 403]);
  }
  expect(h.asked).toEqual([]);
});

test('every answer, errors too, forbids scripts from elsewhere, framing, sniffing and keeping', async () => {
  const { cookie } = await signIn(h.app, OPERATE);
  for (const path of ['/', '/livez', '/sign-in', '/api/status', '/nowhere', '/metrics']) {
    for (const headers of [{}, { cookie }] as Record<string, string>[]) {
      const response = await h.app.request(path, { headers });
      const policy = response.headers.get('content-security-policy')!;
      expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
      for (const part of ["frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"])
        expect(policy).toContain(part);
      expect(policy).not.toContain('unsafe');
      expect(response.headers.get('x-frame-options')).toBe('DENY');
      for (const name of ['opener', 'resource'])
        expect(response.headers.get(`cross-origin-${name}-policy`)).toBe('same-origin');
      expect(response.headers.get('x-content-type-options')).toBe('nosniff');
      expect(response.headers.get('referrer-policy')).toBe('same-origin');
      expect(response.headers.get('cache-control')).toBe('no-store');
    }
  }
});

test('a browser keeps the script and the style sheet, whose addresses change with them', async () => {
  const { cookie } = await signIn(h.app, OPERATE);
  const html = await (await h.app.request('/', { headers: { cookie } })).text();
  const paths = html.match(/\/assets\/[\w.-]+/g) ?? [];
  expect(paths).toHaveLength(2);
  for (const path of paths)
    expect((await h.app.request(path)).headers.get('cache-control')).toContain('immutable');
});

test('a body whose length is not told is refused unread', async () => {
  const response = await h.app.request('/sign-in', {
    method: 'POST',
    headers: { ...form, origin: 'http://localhost', 'transfer-encoding': 'chunked' },
    body: `token=${OPERATE}`,
  });
  expect(response.status).toBe(411);
  expect(await response.json()).toMatchObject({ code: 'length_required' });
});

test('a body larger than any form of ours is refused', async () => {
  const response = await h.app.request('/sign-in', {
    method: 'POST',
    headers: { ...form, origin: 'http://localhost' },
    body: `token=${'x'.repeat(70_000)}`,
  });
  expect(response.status).toBe(413);
});
